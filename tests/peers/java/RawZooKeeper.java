/* RawZooKeeper.java - one ephemeral node is the lock, without a recipe.
 *
 * AT is `HOST:PORT/ROOT`, the lease the session's time.  Who finds the node
 * there watches it, and all who watch try again when it goes. */
import java.util.concurrent.CountDownLatch;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;

public final class RawZooKeeper implements Peer.Client {
    private static final byte[] NOTHING = {};

    private final ZooKeeper client;
    private final String root;

    public RawZooKeeper(String variant, String at, long leaseMs)
            throws Exception {
        int slash = at.indexOf('/');
        CountDownLatch there = new CountDownLatch(1);
        client = new ZooKeeper(at.substring(0, slash), (int) leaseMs, event -> {
            if (event.getState() == KeeperState.SyncConnected)
                there.countDown();
        });
        there.await();
        root = at.substring(slash);
        create(root, CreateMode.PERSISTENT);
    }

    private boolean create(String path, CreateMode mode) throws Exception {
        try {
            client.create(path, NOTHING, Ids.OPEN_ACL_UNSAFE, mode);
            return true;
        } catch (KeeperException.NodeExistsException taken) {
            return false;
        }
    }

    @Override
    public String lock(String key) throws Exception {
        String path = root + "/" + key;
        while (!create(path, CreateMode.EPHEMERAL)) {
            CountDownLatch gone = new CountDownLatch(1);
            if (client.exists(path, event -> gone.countDown()) != null)
                gone.await();
        }
        return "";
    }

    @Override
    public String tryLock(String key) throws Exception {
        return create(root + "/" + key, CreateMode.EPHEMERAL) ? "" : null;
    }

    @Override
    public void unlock(String key) throws Exception {
        client.delete(root + "/" + key, -1);
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
