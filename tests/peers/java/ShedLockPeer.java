/* ShedLockPeer.java - ShedLock's providers for SQL and Redis.
 *
 * The variant is `dbtime`, `apptime` (the application's clock, as UTC), `redis`
 * or `redissafe`; AT a JDBC URL or `HOST:PORT`; the lease `lockAtMostFor`.
 * ShedLock never waits: `lock` here tries every 20 milliseconds. */
import com.zaxxer.hikari.HikariDataSource;
import java.time.Duration;
import java.time.Instant;
import java.util.Map;
import java.util.Optional;
import java.util.TimeZone;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.locks.LockSupport;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.provider.jdbctemplate.JdbcTemplateLockProvider;
import net.javacrumbs.shedlock.provider.redis.spring.RedisLockProvider;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.jdbc.core.JdbcTemplate;

public final class ShedLockPeer implements Peer.Client {
    private static int made;

    private final LockProvider provider;
    private final Duration lease;
    private final Map<String, SimpleLock> held = new ConcurrentHashMap<>();

    public ShedLockPeer(String variant, String at, long leaseMs) {
        lease = Duration.ofMillis(leaseMs);
        provider = variant.startsWith("redis") ? redis(variant, at)
                                               : sql(variant, at);
    }

    private static LockProvider redis(String variant, String at) {
        String[] parts = at.split(":");
        LettuceConnectionFactory factory = new LettuceConnectionFactory(
            parts[0], Integer.parseInt(parts[1]));
        factory.afterPropertiesSet();
        factory.start();
        return new RedisLockProvider.Builder(factory)
            .safeUpdate(variant.equals("redissafe")).build();
    }

    private static LockProvider sql(String variant, String at) {
        HikariDataSource source = new HikariDataSource();
        source.setJdbcUrl(at);
        source.setMaximumPoolSize(Peer.isMeasured() ? 16 : 2);
        JdbcTemplateLockProvider.Configuration.Builder builder =
            JdbcTemplateLockProvider.Configuration.builder();
        builder.withJdbcTemplate(new JdbcTemplate(source));
        // Each lane is a host of its own.
        synchronized (ShedLockPeer.class) {
            builder.withLockedByValue("host-" + ++made);
        }
        if (variant.equals("dbtime"))
            builder.usingDbTime();
        else
            builder.withTimeZone(TimeZone.getTimeZone("UTC"));
        return new JdbcTemplateLockProvider(builder.build());
    }

    @Override
    public String lock(String key) {
        while (tryLock(key) == null)
            LockSupport.parkNanos(20_000_000);
        return "";
    }

    @Override
    public String tryLock(String key) {
        Optional<SimpleLock> got = provider.lock(new LockConfiguration(
            Instant.now(), key, lease, Duration.ZERO));
        got.ifPresent(lock -> held.put(key, lock));
        return got.isPresent() ? "" : null;
    }

    @Override
    public void unlock(String key) {
        SimpleLock lock = held.remove(key);
        if (lock == null)
            throw new IllegalStateException("not held here");
        lock.unlock();
    }

    @Override
    public Boolean renew(String key) {
        Optional<SimpleLock> longer =
            held.get(key).extend(lease, Duration.ZERO);
        longer.ifPresent(lock -> held.put(key, lock));
        return longer.isPresent();
    }

    @Override
    public void close() {
        held.clear();
    }
}
