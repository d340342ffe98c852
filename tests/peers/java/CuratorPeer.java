/* CuratorPeer.java - Curator's InterProcessMutex, both halves of its
 * read/write lock, and its semaphore.
 *
 * AT is `HOST:PORT/ROOT`, the variant `mutex`, `read`, `write`, or `semaphore`
 * and how many leases it has (`semaphore1`); the lease is the session's time.
 * Plain Curator as its guide shows it. */
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

public final class CuratorPeer implements Peer.Client {
    private static final String SEMAPHORE = "semaphore";

    private final CuratorFramework client;
    private final String variant, root;
    private final Map<String, InterProcessLock> locks = new ConcurrentHashMap<>();
    private final Map<String, Lease> leases = new ConcurrentHashMap<>();

    public CuratorPeer(String variant, String at, long leaseMs)
            throws Exception {
        client = connect(at, leaseMs);
        this.variant = variant;
        root = rootOf(at);
    }

    static CuratorFramework connect(String at, long leaseMs)
            throws Exception {
        CuratorFramework made = CuratorFrameworkFactory.builder()
            .connectString(at.substring(0, at.indexOf('/')))
            .sessionTimeoutMs((int) leaseMs).connectionTimeoutMs(30000)
            .retryPolicy(new RetryNTimes(10, 100)).build();
        made.start();
        made.blockUntilConnected();
        return made;
    }

    static String rootOf(String at) {
        return at.substring(at.indexOf('/'));
    }

    private InterProcessLock of(String key) {
        return locks.computeIfAbsent(key, name -> {
            String path = root + "/" + name;
            if (variant.equals("mutex"))
                return new InterProcessMutex(client, path);
            InterProcessReadWriteLock both =
                new InterProcessReadWriteLock(client, path);
            return variant.equals("read") ? both.readLock() : both.writeLock();
        });
    }

    /* null: it takes locks. */
    private InterProcessSemaphoreV2 semaphore(String key) {
        return !variant.startsWith(SEMAPHORE) ? null
            : new InterProcessSemaphoreV2(
                  client, root + "/" + key,
                  Integer.parseInt(variant.substring(SEMAPHORE.length())));
    }

    @Override
    public String lock(String key) throws Exception {
        InterProcessSemaphoreV2 semaphore = semaphore(key);
        if (semaphore != null)
            leases.put(key, semaphore.acquire());
        else
            of(key).acquire();
        return "";
    }

    @Override
    public String tryLock(String key) throws Exception {
        InterProcessSemaphoreV2 semaphore = semaphore(key);
        if (semaphore == null)
            return of(key).acquire(500, TimeUnit.MILLISECONDS) ? "" : null;
        Lease lease = semaphore.acquire(500, TimeUnit.MILLISECONDS);
        if (lease != null)
            leases.put(key, lease);
        return lease == null ? null : "";
    }

    @Override
    public void unlock(String key) throws Exception {
        InterProcessSemaphoreV2 semaphore = semaphore(key);
        if (semaphore != null)
            semaphore.returnLease(Objects.requireNonNull(
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
        client.close();
    }
}
