/* Peer.java - the lines that peer.c describes, for every library on a JVM.
 *
 * Knows lanes, instants and storms, and nothing of any library: KIND is
 * `Class:variant`, and the class that has that name makes the lane's client
 * from the variant, where the store is, and the lease. */
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.locks.LockSupport;

public final class Peer implements Runnable {
    /* What a library must be able to do.  Each is called by one thread, but
     * for those that others join. */
    interface Client {
        String lock(String key) throws Exception; /* its token, or "" */
        String tryLock(String key) throws Exception; /* null: busy */
        void unlock(String key) throws Exception; /* throws: refused */
        Boolean renew(String key) throws Exception; /* null: it cannot */
        void close() throws Exception;
    }

    private static final long STORM_NS = 300_000_000_000L;
    private static final PrintStream OUT = System.out;
    private static final Map<String, Peer> LANES = new ConcurrentHashMap<>();

    private final String name;
    private final LinkedBlockingQueue<String[]> lines =
        new LinkedBlockingQueue<>();
    private volatile Client client;

    private Peer(String name) {
        this.name = name;
    }

    private void answer(String word, long asked, String text) {
        String line = name + " " + word + " " + asked + " " + System.nanoTime()
            + " " + text.replace('\n', ' ').replace('\r', ' ');
        synchronized (OUT) {
            OUT.println(line);
            OUT.flush();
        }
    }

    private static String why(Throwable problem) {
        StringBuilder text = new StringBuilder();
        for (Throwable t = problem; t != null; t = t.getCause())
            text.append(t.getClass().getSimpleName()).append(": ")
                .append(t.getMessage()).append("; ");
        return text.toString();
    }

    /* Whether it is measured: then libraries have the settings that their
     * guides give, and not those that spare a machine with many of them. */
    static boolean isMeasured() {
        return System.getenv("PEER_MEASURED") != null;
    }

    private static Client make(String kind, String at, long leaseMs)
            throws Exception {
        String[] parts = kind.split(":");
        return (Client) Class.forName(parts[0])
            .getDeclaredConstructor(String.class, String.class, long.class)
            .newInstance(parts.length > 1 ? parts[1] : "", at, leaseMs);
    }

    /* On Linux nanoTime reads the monotonic clock of the others. */
    private static String section(Path folder, int places, long asked)
            throws Exception {
        long got = System.nanoTime();
        Path mine = null;
        for (int i = 0; i < places && mine == null; i++) {
            try {
                mine = Files.createDirectory(folder.resolve("inside" + i));
            } catch (FileAlreadyExistsException taken) {
                mine = null;
            }
        }
        Files.write(folder.resolve("sections"), new byte[] {'x'},
                    StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        LockSupport.parkNanos(200_000);
        if (mine != null)
            Files.delete(mine);
        return asked + " " + got + " " + System.nanoTime() + " "
            + (mine != null ? 1 : 2) + "\n";
    }

    private static long count(Path folder) throws Exception {
        Path sections = folder.resolve("sections");
        return Files.exists(sections) ? Files.size(sections) : 0;
    }

    private void storm(String[] w, long begun) throws Exception {
        long target = Long.parseLong(w[3]), least = Long.parseLong(w[4]);
        Path folder = Path.of(w[5]);
        int places = Integer.parseInt(w[7]);
        StringBuilder log = new StringBuilder();
        Random chance = new Random();
        long own = 0;
        while ((count(folder) < target || own < least)
               && System.nanoTime() < begun + STORM_NS) {
            long asked = System.nanoTime();
            client.lock(w[2]);
            log.append(section(folder, places, asked));
            client.unlock(w[2]);
            own++;
            LockSupport.parkNanos(chance.nextInt(4_000_000));
        }
        Files.writeString(Path.of(w[6]), log);
        answer("done", begun, Long.toString(own));
    }

    private void unlock(String key, long asked) {
        try {
            client.unlock(key);
        } catch (Exception refused) {
            answer("refused", asked, why(refused));
            return;
        }
        answer("given", asked, "released");
    }

    private void obey(String[] w) throws Exception {
        long asked = System.nanoTime();
        switch (w[1]) {
        case "open":
            client = make(w[2], w[3], Long.parseLong(w[4]));
            answer("opened", asked, w[2]);
            break;
        case "lock":
            answer("held", asked, client.lock(w[2]));
            break;
        case "try":
            String token = client.tryLock(w[2]);
            answer(token == null ? "busy" : "held", asked,
                   token == null ? "" : token);
            break;
        case "renew":
            Boolean done = client.renew(w[2]);
            answer(done == null ? "none" : done ? "renewed" : "refused", asked,
                   "");
            break;
        case "unlock":
            unlock(w[2], asked);
            break;
        case "storm":
            storm(w, asked);
            break;
        case "join":
            client = LANES.get(w[2]).client;
            answer("joined", asked, w[2]);
            break;
        case "bench":
            answer("done", asked, Bench.run(client, w));
            break;
        case "close":
            client.close();
            client = null;
            answer("closed", asked, "");
            break;
        default:
            answer("failed", asked, "no such verb: " + w[1]);
        }
    }

    @Override
    public void run() {
        for (;;) {
            long asked = System.nanoTime();
            try {
                obey(lines.take());
            } catch (Throwable problem) {
                answer("failed", asked, why(problem));
            }
        }
    }

    public static void main(String[] args) throws Exception {
        // Libraries that log to the standard output must not speak in between.
        System.setOut(System.err);
        BufferedReader in =
            new BufferedReader(new InputStreamReader(System.in));
        OUT.println("ready");
        OUT.flush();
        for (String line; (line = in.readLine()) != null;) {
            String[] w = line.split(" ");
            if (w[1].equals("crash"))
                Runtime.getRuntime().halt(137);
            LANES.computeIfAbsent(w[0], name -> {
                Peer lane = new Peer(name);
                Thread thread = new Thread(lane, name);
                thread.setDaemon(true);
                thread.start();
                return lane;
            }).lines.put(w);
        }
        Runtime.getRuntime().halt(0);
    }
}
