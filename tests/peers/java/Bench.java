/* Bench.java - the line `bench` of peer.c: a loop that is measured.
 *
 * Knows nothing of libraries.  Instants are kept as numbers and written when
 * all is over, so that the loop does nothing but lock and unlock. */
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.concurrent.locks.LockSupport;

final class Bench {
    private static final int INSTANTS = 4;

    private Bench() {
    }

    private static void write(Path path, long[] log, int turns)
            throws Exception {
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < INSTANTS * turns; i++)
            text.append(log[i]).append((i + 1) % INSTANTS == 0 ? '\n' : ' ');
        Files.writeString(path, text);
    }

    /* LANE bench KEY KEYS MS TURNS HOLD_US LOG; how many turns were made. */
    static String run(Peer.Client client, String[] w) throws Exception {
        int keys = Integer.parseInt(w[3]), most = Integer.parseInt(w[5]);
        long ms = Long.parseLong(w[4]), hold = 1000 * Long.parseLong(w[6]);
        long end = System.nanoTime() + 1_000_000 * ms;
        long[] log = new long[INSTANTS * 1024];
        int turns = 0;
        while ((ms == 0 || System.nanoTime() < end)
               && (most == 0 || turns < most)) {
            String key = keys > 1 ? w[2] + "-" + turns % keys : w[2];
            int at = INSTANTS * turns++;
            if (at == log.length)
                log = Arrays.copyOf(log, 2 * at);
            log[at] = System.nanoTime();
            client.lock(key);
            log[at + 1] = System.nanoTime();
            if (hold > 0)
                LockSupport.parkNanos(hold);
            log[at + 2] = System.nanoTime();
            client.unlock(key);
            log[at + 3] = System.nanoTime();
        }
        if (!w[7].equals("-"))
            write(Path.of(w[7]), log, turns);
        return Integer.toString(turns);
    }
}
