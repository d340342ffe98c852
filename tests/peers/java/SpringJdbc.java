/* SpringJdbc.java - Spring Integration's JdbcLockRegistry, 5.5 to 7.
 *
 * AT is a JDBC URL, the variant `stock`, or `yielding` for the insert that
 * Spring's guide recommends on PostgreSQL (from 6.1; before, `stock`).  The
 * beans live in a context with transactions, as in an application: 5.5 has its
 * isolation from annotations alone. */
import com.zaxxer.hikari.HikariDataSource;
import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.time.Duration;
import java.util.concurrent.locks.Lock;
import javax.sql.DataSource;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Configuration;
import org.springframework.integration.jdbc.lock.DefaultLockRepository;
import org.springframework.integration.jdbc.lock.JdbcLockRegistry;
import org.springframework.integration.jdbc.lock.LockRepository;
import org.springframework.jdbc.datasource.DataSourceTransactionManager;
import org.springframework.transaction.PlatformTransactionManager;
import org.springframework.transaction.annotation.EnableTransactionManagement;

public final class SpringJdbc implements Peer.Client {
    @Configuration
    @EnableTransactionManagement
    public static class Beans {
    }

    private final HikariDataSource source = new HikariDataSource();
    private final AnnotationConfigApplicationContext context =
        new AnnotationConfigApplicationContext();
    private final JdbcLockRegistry registry;

    public SpringJdbc(String variant, String at, long leaseMs)
            throws Exception {
        source.setJdbcUrl(at);
        source.setMaximumPoolSize(Peer.isMeasured() ? 16 : 2);
        context.register(Beans.class);
        context.registerBean(DataSource.class, () -> source);
        context.registerBean(PlatformTransactionManager.class,
                             () -> new DataSourceTransactionManager(source));
        context.registerBean(DefaultLockRepository.class,
                             () -> repository(variant, leaseMs));
        context.refresh();
        registry = registryOf(context.getBean(LockRepository.class), leaseMs);
    }

    private DefaultLockRepository repository(String variant, long leaseMs) {
        DefaultLockRepository made = new DefaultLockRepository(source);
        made.setTimeToLive((int) leaseMs);
        Method set = Reflect.find(made, "setInsertQuery", String.class);
        if (variant.equals("yielding") && set != null) {
            try {
                String stock = (String) Reflect.find(made, "getInsertQuery")
                    .invoke(made);
                set.invoke(made, stock + " ON CONFLICT DO NOTHING");
            } catch (ReflectiveOperationException problem) {
                throw new IllegalStateException(problem);
            }
        }
        return made;
    }

    /* From 7.0 on the registry has the time to live. */
    private static JdbcLockRegistry registryOf(LockRepository repository,
                                               long leaseMs)
            throws Exception {
        try {
            Constructor<JdbcLockRegistry> made =
                JdbcLockRegistry.class.getConstructor(LockRepository.class,
                                                      Duration.class);
            return made.newInstance(repository, Duration.ofMillis(leaseMs));
        } catch (NoSuchMethodException older) {
            return new JdbcLockRegistry(repository);
        }
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
    public void close() {
        context.close();
        source.close();
    }
}
