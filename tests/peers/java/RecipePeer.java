/* RecipePeer.java - ZooKeeper's own recipe, WriteLock.
 *
 * AT is `HOST:PORT/ROOT`; the lease is the session's time.  It does not wait by
 * itself but calls back, so `lock` here waits for that call. */
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.recipes.lock.LockListener;
import org.apache.zookeeper.recipes.lock.WriteLock;

public final class RecipePeer implements Peer.Client {
    private final ZooKeeper client;
    private final String root;
    private final Map<String, WriteLock> held = new ConcurrentHashMap<>();

    public RecipePeer(String variant, String at, long leaseMs)
            throws Exception {
        int slash = at.indexOf('/');
        root = at.substring(slash);
        client = new ZooKeeper(at.substring(0, slash), (int) leaseMs,
                               event -> { });
        try {
            client.create(root, new byte[0], ZooDefs.Ids.OPEN_ACL_UNSAFE,
                          CreateMode.PERSISTENT);
        } catch (KeeperException.NodeExistsException there) {
            // Another lane was quicker.
        }
    }

    private WriteLock take(String key, CountDownLatch got) throws Exception {
        WriteLock lock = new WriteLock(client, root + "/" + key, null,
                                       new LockListener() {
            @Override
            public void lockAcquired() {
                got.countDown();
            }

            @Override
            public void lockReleased() {
            }
        });
        lock.lock();
        return lock;
    }

    @Override
    public String lock(String key) throws Exception {
        CountDownLatch got = new CountDownLatch(1);
        WriteLock lock = take(key, got);
        got.await();
        held.put(key, lock);
        return "";
    }

    @Override
    public String tryLock(String key) throws Exception {
        WriteLock lock = take(key, new CountDownLatch(1));
        if (lock.isOwner()) {
            held.put(key, lock);
            return "";
        }
        lock.unlock();
        return null;
    }

    @Override
    public void unlock(String key) {
        held.remove(key).unlock();
    }

    @Override
    public Boolean renew(String key) {
        return null; // its session does
    }

    @Override
    public void close() throws Exception {
        client.close();
    }
}
