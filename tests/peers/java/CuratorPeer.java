/* CuratorPeer.java - Curator's InterProcessMutex, the write half of its
 * read/write lock, and Spring's ZookeeperLockRegistry on top of it.
 *
 * AT is `HOST:PORT/ROOT`, the variant `mutex`, `write`, `read` or `spring`; the
 * lease is the session's time.  Plain Curator as its guide shows it. */
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.retry.RetryNTimes;
import org.springframework.integration.zookeeper.lock.ZookeeperLockRegistry;

public final class CuratorPeer implements Peer.Client {
    private final CuratorFramework client;
    private final String variant, root;
    private final ZookeeperLockRegistry registry;
    private final Map<String, InterProcessLock> locks = new HashMap<>();

    public CuratorPeer(String variant, String at, long leaseMs)
            throws Exception {
        int slash = at.indexOf('/');
        client = CuratorFrameworkFactory.builder()
            .connectString(at.substring(0, slash))
            .sessionTimeoutMs((int) leaseMs).connectionTimeoutMs(30000)
            .retryPolicy(new RetryNTimes(10, 100)).build();
        client.start();
        client.blockUntilConnected();
        this.variant = variant;
        root = at.substring(slash);
        registry = new ZookeeperLockRegistry(client, root);
    }

    private InterProcessLock of(String key) {
        return locks.computeIfAbsent(key, name -> {
            if (variant.equals("mutex"))
                return new InterProcessMutex(client, root + "/" + name);
            InterProcessReadWriteLock both =
                new InterProcessReadWriteLock(client, root + "/" + name);
            return variant.equals("read") ? both.readLock()
                                          : both.writeLock();
        });
    }

    @Override
    public String lock(String key) throws Exception {
        if (variant.equals("spring"))
            registry.obtain(key).lock();
        else
            of(key).acquire();
        return "";
    }

    @Override
    public String tryLock(String key) throws Exception {
        boolean held = variant.equals("spring")
            ? registry.obtain(key).tryLock()
            : of(key).acquire(500, TimeUnit.MILLISECONDS);
        return held ? "" : null;
    }

    @Override
    public void unlock(String key) throws Exception {
        if (variant.equals("spring"))
            registry.obtain(key).unlock();
        else
            of(key).release();
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
