/* RedissonPeer.java - Redisson's RLock, RFencedLock and MultiLock.
 *
 * AT is `HOST:PORT`; the lease is the watchdog's, so that locks are renewed as
 * they are by default.  A client is an owner together with its thread; each
 * lane is both.  `multi` takes KEY and KEY-too as one. */
import org.redisson.Redisson;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;
import org.redisson.config.SingleServerConfig;

public final class RedissonPeer implements Peer.Client {
    private final RedissonClient client;
    private final String variant;

    public RedissonPeer(String variant, String at, long leaseMs) {
        Config config = new Config();
        config.setLockWatchdogTimeout(leaseMs);
        SingleServerConfig server =
            config.useSingleServer().setAddress("redis://" + at);
        if (!Peer.isMeasured()) {
            config.setThreads(2).setNettyThreads(2);
            server.setConnectionMinimumIdleSize(1).setConnectionPoolSize(4)
                .setSubscriptionConnectionMinimumIdleSize(1);
        }
        client = Redisson.create(config);
        this.variant = variant;
    }

    private RLock of(String key) {
        if (variant.equals("multi"))
            return client.getMultiLock(client.getLock(key),
                                       client.getLock(key + "-too"));
        return variant.equals("fenced") ? client.getFencedLock(key)
                                        : client.getLock(key);
    }

    @Override
    public String lock(String key) {
        RLock lock = of(key);
        if (lock instanceof RFencedLock)
            return "" + ((RFencedLock) lock).lockAndGetToken();
        lock.lock();
        return "";
    }

    @Override
    public String tryLock(String key) {
        RLock lock = of(key);
        // Not tryLockAndGetToken(): in 4.7.0 it waits until the lock is free.
        if (!lock.tryLock())
            return null;
        return lock instanceof RFencedLock ? "" + ((RFencedLock) lock).getToken()
                                           : "";
    }

    @Override
    public void unlock(String key) {
        of(key).unlock();
    }

    @Override
    public Boolean renew(String key) {
        return null; // its watchdog does
    }

    @Override
    public void close() {
        client.shutdown();
    }
}
