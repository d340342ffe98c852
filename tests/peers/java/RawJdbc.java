/* RawJdbc.java - locks in a database without a library.
 *
 * AT is a JDBC URL.  The variant `forupdate` is a row that a transaction keeps
 * locked: it lives as long as its connection, and waits in the server; the
 * rows are in RAW_LOCK and stay.  `dlock` is what dlock says to PostgreSQL in
 * its own words, in its table DLCK; it never waits, so `lock` tries every 20
 * milliseconds.  Each thread has a connection of its own and its statements
 * prepared. */
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.locks.LockSupport;

public final class RawJdbc implements Peer.Client {
    private static final String FILL = "INSERT INTO RAW_LOCK (NAME) VALUES (?)";
    private static final String PEEK =
        "SELECT NAME FROM RAW_LOCK WHERE NAME = ?";
    private static final String ROW = PEEK + " FOR UPDATE";
    private static final String TAKE =
        "INSERT INTO \"DLCK\" (\"LCK_KEY\", \"LCK_HNDL_ID\","
        + " \"CREATED_TIME\", \"EXPIRE_SEC\") VALUES (?, ?,"
        + " CURRENT_TIMESTAMP, ?) ON CONFLICT DO NOTHING";
    private static final String LOOK =
        "SELECT \"LCK_HNDL_ID\", \"CREATED_TIME\" + \"EXPIRE_SEC\" *"
        + " interval '1 second' < CURRENT_TIMESTAMP FROM \"DLCK\""
        + " WHERE \"LCK_KEY\" = ?";
    private static final String DROP =
        "DELETE FROM \"DLCK\" WHERE \"LCK_HNDL_ID\" = ?";

    private final boolean dlock, postgres;
    private final int seconds;
    private final Map<String, String> handles = new ConcurrentHashMap<>();
    private final Set<String> made = ConcurrentHashMap.newKeySet();
    private final ThreadLocal<Own> own;

    /* What a thread has: a connection, and statements by their text. */
    private static final class Own {
        final Connection connection;
        final Map<String, PreparedStatement> statements = new HashMap<>();

        Own(String at, boolean each) {
            try {
                connection = DriverManager.getConnection(at);
                connection.setAutoCommit(each);
            } catch (SQLException problem) {
                throw new IllegalStateException(problem);
            }
        }

        PreparedStatement say(String text, String... words)
                throws SQLException {
            PreparedStatement s = statements.get(text);
            if (s == null) {
                s = connection.prepareStatement(text);
                statements.put(text, s);
            }
            for (int i = 0; i < words.length; i++)
                s.setString(i + 1, words[i]);
            return s;
        }
    }

    public RawJdbc(String variant, String at, long leaseMs) {
        dlock = variant.equals("dlock");
        postgres = at.startsWith("jdbc:postgresql");
        seconds = (int) Math.max(1, leaseMs / 1000);
        own = ThreadLocal.withInitial(() -> new Own(at, dlock));
    }

    /* Rows stay, so each is made once; not by those who lock it, since a row
     * that is looked for in vain is locked as a gap in MariaDB. */
    private void makeRow(String key) throws SQLException {
        Own mine = own.get();
        boolean there;
        try (ResultSet rows = mine.say(PEEK, key).executeQuery()) {
            there = rows.next();
        }
        if (!there)
            mine.say(postgres ? FILL + " ON CONFLICT DO NOTHING"
                              : FILL.replace("INSERT", "INSERT IGNORE"),
                     key).executeUpdate();
        mine.connection.commit();
        made.add(key);
    }

    private void lockRow(String key) throws SQLException {
        if (!made.contains(key))
            makeRow(key);
        try (ResultSet rows = own.get().say(ROW, key).executeQuery()) {
            if (!rows.next())
                throw new IllegalStateException("no row " + key);
        }
    }

    private boolean insert(String key) throws SQLException {
        String handle = UUID.randomUUID().toString();
        PreparedStatement take = own.get().say(TAKE, key, handle);
        take.setInt(3, seconds);
        if (take.executeUpdate() == 0)
            return false;
        handles.put(key, handle);
        return true;
    }

    private boolean take(String key) throws SQLException {
        if (insert(key))
            return true;
        String expired = null;
        try (ResultSet rows = own.get().say(LOOK, key).executeQuery()) {
            if (rows.next() && rows.getBoolean(2))
                expired = rows.getString(1);
        }
        if (expired == null)
            return false;
        own.get().say(DROP, expired).executeUpdate();
        return insert(key);
    }

    @Override
    public String lock(String key) throws Exception {
        if (!dlock)
            lockRow(key);
        else
            while (!take(key))
                LockSupport.parkNanos(20_000_000);
        return "";
    }

    @Override
    public String tryLock(String key) throws Exception {
        if (dlock)
            return take(key) ? "" : null;
        Own mine = own.get();
        if (!made.contains(key))
            makeRow(key);
        try (ResultSet rows =
                 mine.say(ROW + " SKIP LOCKED", key).executeQuery()) {
            if (rows.next())
                return "";
        }
        mine.connection.commit();
        return null;
    }

    @Override
    public void unlock(String key) throws Exception {
        if (!dlock)
            own.get().connection.commit();
        else
            own.get().say(DROP, handles.remove(key)).executeUpdate();
    }

    @Override
    public Boolean renew(String key) {
        return null;
    }

    @Override
    public void close() throws Exception {
        own.get().connection.close();
    }
}
