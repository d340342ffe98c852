/* SpringRedis.java - Spring Integration's RedisLockRegistry, 5.5 to 7.
 *
 * AT is `HOST:PORT/REGISTRY`, the variant `spin` or `pubsub`.  One registry is
 * one owner.  What only newer versions have is called by its name. */
import java.util.concurrent.locks.Lock;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.integration.redis.util.RedisLockRegistry;

public final class SpringRedis implements Peer.Client {
    private final LettuceConnectionFactory factory;
    private final RedisLockRegistry registry;

    public SpringRedis(String variant, String at, long leaseMs) {
        String[] parts = at.split("[:/]");
        factory = new LettuceConnectionFactory(parts[0],
                                               Integer.parseInt(parts[1]));
        factory.afterPropertiesSet();
        Reflect.callIfThere(factory, "start");
        registry = new RedisLockRegistry(factory, parts[2], leaseMs);
        registry.setRedisLockType(
            variant.equals("pubsub")
                ? RedisLockRegistry.RedisLockType.PUB_SUB_LOCK
                : RedisLockRegistry.RedisLockType.SPIN_LOCK);
    }

    private Lock of(String key) {
        return registry.obtain(key);
    }

    @Override
    public String lock(String key) {
        of(key).lock();
        return "";
    }

    @Override
    public String tryLock(String key) {
        return of(key).tryLock() ? "" : null;
    }

    @Override
    public void unlock(String key) {
        of(key).unlock();
    }

    @Override
    public Boolean renew(String key) throws Exception {
        return Reflect.renewLock(registry, key);
    }

    @Override
    public void close() throws Exception {
        registry.destroy();
        factory.destroy();
    }
}
