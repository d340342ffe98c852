/* CuratorPeer.java - Curator's InterProcessMutex, the write half of its
 * read/write lock, its semaphore, and Spring's ZookeeperLockRegistry.
 *
 * AT is `HOST:PORT/ROOT`, the variant `mutex`, `write`, `semaphore` (of one
 * lease) or `spring`; the lease is the session's time.  Plain Curator as its
 * guide shows it. */
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.retry.RetryNTimes;
import org.springframework.integration.zookeeper.lock.ZookeeperLockRegistry;

public final class CuratorPeer implements Peer.Client {
    private final CuratorFramework client;
    private final String variant, root;
    private final ZookeeperLockRegistry registry;
    private final Map<String, InterProcessLock> locks = new ConcurrentHashMap<>();
    private final Map<String, Lease> leases = new ConcurrentHashMap<>();

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
            String path = root + "/" + name;
            if (variant.equals("mutex"))
                return new InterProcessMutex(client, path);
            return new InterProcessReadWriteLock(client, path).writeLock();
        });
    }

    private InterProcessSemaphoreV2 semaphore(String key) {
        return new InterProcessSemaphoreV2(client, root + "/" + key, 1);
    }

    @Override
    public String lock(String key) throws Exception {
        if (variant.equals("spring"))
            registry.obtain(key).lock();
        else if (variant.equals("semaphore"))
            leases.put(key, semaphore(key).acquire());
        else
            of(key).acquire();
        return "";
    }

    @Override
    public String tryLock(String key) throws Exception {
        if (variant.equals("spring"))
            return registry.obtain(key).tryLock() ? "" : null;
        if (!variant.equals("semaphore"))
            return of(key).acquire(500, TimeUnit.MILLISECONDS) ? "" : null;
        Lease lease = semaphore(key).acquire(500, TimeUnit.MILLISECONDS);
        if (lease != null)
            leases.put(key, lease);
        return lease == null ? null : "";
    }

    @Override
    public void unlock(String key) throws Exception {
        if (variant.equals("spring"))
            registry.obtain(key).unlock();
        else if (variant.equals("semaphore"))
            semaphore(key).returnLease(Objects.requireNonNull(
                leases.remove(key), "no lease to give back"));
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
