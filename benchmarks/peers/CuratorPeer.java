/* CuratorPeer.java - Curator's InterProcessMutex as a peer; peer.h says how.
 *
 *     java CuratorPeer.java HOSTS PATH
 *
 * Plain Curator as its guide shows it: one client and one mutex a process, no
 * tuning.  On Linux nanoTime reads the monotonic clock of the others. */
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryNTimes;

public final class CuratorPeer {
    private static final int THREADS = 4;

    private static void say(String word, long at) {
        System.out.print(word + " " + at + "\n");
        System.out.flush();
    }

    private static void compete(InterProcessMutex mutex, int worker, long end,
                                StringBuilder log) {
        try {
            while (System.nanoTime() < end) {
                long asked = System.nanoTime();
                mutex.acquire();
                long got = System.nanoTime(), gave = System.nanoTime();
                mutex.release();
                log.append(worker).append(' ').append(asked).append(' ')
                    .append(got).append(' ').append(gave).append('\n');
            }
        } catch (Exception e) {
            e.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }

    private static void run(InterProcessMutex mutex, long end, String file)
            throws Exception {
        Thread[] threads = new Thread[THREADS];
        StringBuilder[] logs = new StringBuilder[THREADS];
        for (int i = 0; i < THREADS; i++) {
            int worker = i;
            StringBuilder log = logs[i] = new StringBuilder();
            threads[i] = new Thread(() -> compete(mutex, worker, end, log));
            threads[i].start();
        }
        for (Thread thread : threads)
            thread.join();
        Files.writeString(Path.of(file), String.join("", logs));
    }

    public static void main(String[] words) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.newClient(
            words[0], 30000, 30000, new RetryNTimes(10, 100));
        client.start();
        client.blockUntilConnected();
        InterProcessMutex mutex = new InterProcessMutex(client, words[1]);
        BufferedReader in =
            new BufferedReader(new InputStreamReader(System.in));
        say("ready", 0);
        for (String line; (line = in.readLine()) != null;) {
            String[] word = line.split(" ", 3);
            if (word[0].equals("take")) {
                mutex.acquire();
                say("held", System.nanoTime());
            } else if (word[0].equals("give")) {
                long at = System.nanoTime();
                mutex.release();
                say("given", at);
            } else {
                run(mutex, Long.parseLong(word[1]), word[2]);
                say("done", 0);
            }
        }
        System.exit(0);
    }
}
