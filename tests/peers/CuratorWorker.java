/* CuratorWorker.java - Curator's part in mixed runs; quorum_worker.c says how.
 *
 *     CuratorWorker run HOSTS PATH TARGET LEAST FOLDER LOG
 *     CuratorWorker hold HOSTS PATH [mutex|read|write]
 *
 * Plain Curator as its guide shows it: one client, one recipe, no tuning. */
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Random;
import java.util.concurrent.locks.LockSupport;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.retry.RetryNTimes;

public final class CuratorWorker {
    private static final long MAX_NS = 200_000_000_000L;

    private static CuratorFramework connect(String hosts) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.builder()
            .connectString(hosts).sessionTimeoutMs(5000)
            .connectionTimeoutMs(30000).retryPolicy(new RetryNTimes(10, 100))
            .build();
        client.start();
        client.blockUntilConnected();
        return client;
    }

    private static InterProcessLock lockOf(CuratorFramework client, String path,
                                           String kind) {
        if (kind.equals("mutex"))
            return new InterProcessMutex(client, path);
        InterProcessReadWriteLock both =
            new InterProcessReadWriteLock(client, path);
        return kind.equals("read") ? both.readLock() : both.writeLock();
    }

    /* On Linux nanoTime reads the monotonic clock of the others. */
    private static String section(Path folder, long asked) throws Exception {
        long got = System.nanoTime();
        boolean alone = true;
        try {
            Files.createDirectory(folder.resolve("inside"));
        } catch (FileAlreadyExistsException crowded) {
            alone = false;
        }
        Files.write(folder.resolve("sections"), new byte[] {'x'},
                    StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        LockSupport.parkNanos(200_000);
        if (alone)
            Files.delete(folder.resolve("inside"));
        return asked + " " + got + " " + System.nanoTime() + " "
            + (alone ? 1 : 2) + "\n";
    }

    private static long count(Path folder) throws Exception {
        Path sections = folder.resolve("sections");
        return Files.exists(sections) ? Files.size(sections) : 0;
    }

    private static void run(String[] words, BufferedReader in)
            throws Exception {
        long target = Long.parseLong(words[3]);
        long least = Long.parseLong(words[4]);
        Path folder = Path.of(words[5]);
        StringBuilder log = new StringBuilder();
        Random chance = new Random();
        try (CuratorFramework client = connect(words[1])) {
            InterProcessLock lock = lockOf(client, words[2], "mutex");
            System.out.println("ready");
            if (in.readLine() == null)
                throw new IllegalStateException("nobody said go");
            long end = System.nanoTime() + MAX_NS;
            for (long own = 0; (count(folder) < target || own < least)
                     && System.nanoTime() < end; own++) {
                long asked = System.nanoTime();
                lock.acquire();
                log.append(section(folder, asked));
                lock.release();
                LockSupport.parkNanos(chance.nextInt(4_000_000));
            }
        }
        Files.writeString(Path.of(words[6]), log);
    }

    private static void hold(String[] words, BufferedReader in)
            throws Exception {
        try (CuratorFramework client = connect(words[1])) {
            InterProcessLock lock = lockOf(client, words[2],
                                           words.length > 3 ? words[3]
                                                            : "mutex");
            System.out.println("ready");
            for (String line; (line = in.readLine()) != null;) {
                if (line.equals("take")) {
                    lock.acquire();
                    System.out.println("held");
                } else {
                    lock.release();
                    System.out.println("given");
                }
            }
        }
    }

    public static void main(String[] words) throws Exception {
        BufferedReader in =
            new BufferedReader(new InputStreamReader(System.in));
        if (words[0].equals("run"))
            run(words, in);
        else
            hold(words, in);
        System.exit(0);
    }
}
