/* CuratorSemaphore.java - Curator's part in mixed runs of permits;
 * permit_worker.c says how.
 *
 *     CuratorSemaphore run HOSTS PATH PLACES TARGET LEAST FOLDER LOG
 *     CuratorSemaphore hold HOSTS PATH PLACES
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
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.retry.RetryNTimes;

public final class CuratorSemaphore {
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

    /* On Linux nanoTime reads the monotonic clock of the others. */
    private static String section(Path folder, int places, long asked)
            throws Exception {
        long got = System.nanoTime();
        Path mine = null;
        for (int i = 0; i < places && mine == null; i++) {
            try {
                mine = Files.createDirectory(folder.resolve("inside-" + i));
            } catch (FileAlreadyExistsException taken) {
                mine = null;
            }
        }
        Files.write(folder.resolve("sections"), new byte[] {'x'},
                    StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        LockSupport.parkNanos(500_000);
        if (mine != null)
            Files.delete(mine);
        return asked + " " + got + " " + System.nanoTime() + " "
            + (mine != null ? 1 : 2) + "\n";
    }

    private static long count(Path folder) throws Exception {
        Path sections = folder.resolve("sections");
        return Files.exists(sections) ? Files.size(sections) : 0;
    }

    private static void run(String[] words, BufferedReader in)
            throws Exception {
        int places = Integer.parseInt(words[3]);
        long target = Long.parseLong(words[4]);
        long least = Long.parseLong(words[5]);
        Path folder = Path.of(words[6]);
        StringBuilder log = new StringBuilder();
        Random chance = new Random();
        try (CuratorFramework client = connect(words[1])) {
            InterProcessSemaphoreV2 semaphore =
                new InterProcessSemaphoreV2(client, words[2], places);
            System.out.println("ready");
            if (in.readLine() == null)
                throw new IllegalStateException("nobody said go");
            long end = System.nanoTime() + MAX_NS;
            for (long own = 0; (count(folder) < target || own < least)
                     && System.nanoTime() < end; own++) {
                long asked = System.nanoTime();
                Lease lease = semaphore.acquire();
                log.append(section(folder, places, asked));
                semaphore.returnLease(lease);
                LockSupport.parkNanos(chance.nextInt(2_000_000));
            }
        }
        Files.writeString(Path.of(words[7]), log);
    }

    private static void hold(String[] words, BufferedReader in)
            throws Exception {
        try (CuratorFramework client = connect(words[1])) {
            InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(
                client, words[2], Integer.parseInt(words[3]));
            Lease lease = null;
            System.out.println("ready");
            for (String line; (line = in.readLine()) != null;) {
                if (line.equals("take")) {
                    lease = semaphore.acquire();
                    System.out.println("held");
                } else {
                    semaphore.returnLease(lease);
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
