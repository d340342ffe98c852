/* SpringZookeeper.java - Spring Integration's ZookeeperLockRegistry.
 *
 * AT is `HOST:PORT/ROOT`; the lease is the session's time. */
import org.apache.curator.framework.CuratorFramework;
import org.springframework.integration.zookeeper.lock.ZookeeperLockRegistry;

public final class SpringZookeeper implements Peer.Client {
    private final CuratorFramework client;
    private final ZookeeperLockRegistry registry;

    public SpringZookeeper(String variant, String at, long leaseMs)
            throws Exception {
        client = CuratorPeer.connect(at, leaseMs);
        registry = new ZookeeperLockRegistry(client, CuratorPeer.rootOf(at));
    }

    @Override
    public String lock(String key) {
        registry.obtain(key).lock();
        return "";
    }

    @Override
    public String tryLock(String key) {
        return registry.obtain(key).tryLock() ? "" : null;
    }

    @Override
    public void unlock(String key) {
        registry.obtain(key).unlock();
    }

    @Override
    public Boolean renew(String key) {
        return null; // its session does
    }

    @Override
    public void close() {
        registry.destroy();
        client.close();
    }
}
