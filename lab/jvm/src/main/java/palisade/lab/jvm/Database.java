package palisade.lab.jvm;

import java.io.File;
import java.io.IOException;
import java.math.BigDecimal;
import java.math.RoundingMode;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Comparator;
import java.util.Random;
import java.util.stream.Stream;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;
import org.openjdk.jmh.infra.ThreadParams;

/**
 * Apache Derby within the JVM, its files on disk: sums of products of long decimals, and transactions that change
 * them and are taken back. Each thread has a connection and a table of its own; one table of rates is shared.
 */
public class Database {
    /** The system property with the folder that databases are made in. */
    static final String SCRATCH = "palisade.scratch";

    private static final int CUSTOMERS = 20;
    private static final int ORDERS = 600;

    /** The database itself. */
    @State(Scope.Benchmark)
    public static class Folder {
        private Path folder;
        private String url;

        /** Makes it, with its table of rates. */
        @Setup
        public void create() throws IOException, SQLException {
            folder = Files.createTempDirectory(Path.of(System.getProperty(SCRATCH)), "derby-");
            System.setProperty("derby.system.home", folder.toString());
            // The work counts, not the disk: written to the page cache, and not waited for.
            System.setProperty("derby.system.durability", "test");
            url = "jdbc:derby:" + folder.resolve("orders");
            try (Connection connection = DriverManager.getConnection(url + ";create=true");
                    Statement statement = connection.createStatement()) {
                statement.execute("create table rate (customer int primary key, rate decimal(20, 15))");
                var random = new Random(CUSTOMERS);
                for (int customer = 0; customer < CUSTOMERS; customer++) {
                    var rate = BigDecimal.valueOf(random.nextInt(1_000_000_000), 15);
                    statement.execute("insert into rate values (" + customer + ", " + rate.toPlainString() + ")");
                }
            }
        }

        /**
         * Ends it and all connections, and leaves nothing behind. Threads do not end their own: JMH does not say that
         * they would do so before this.
         */
        @TearDown
        public void remove() throws IOException {
            try {
                DriverManager.getConnection(url + ";shutdown=true");
                throw new IllegalStateException("the database did not shut down");
            } catch (SQLException shutDown) {
                // How Derby says that it has.
            }
            try (Stream<Path> paths = Files.walk(folder)) {
                paths.sorted(Comparator.reverseOrder()).map(Path::toFile).forEach(File::delete);
            }
        }
    }

    /** One thread's. */
    @State(Scope.Thread)
    public static class Session {
        private Connection connection;
        private PreparedStatement sum;
        private PreparedStatement list;
        private PreparedStatement change;

        /** Connects, and fills a table of orders. */
        @Setup
        public void connect(Folder files, ThreadParams thread) throws SQLException {
            connection = DriverManager.getConnection(files.url);
            connection.setAutoCommit(false);
            String table = "orders_" + thread.getThreadIndex();
            try (Statement statement = connection.createStatement()) {
                statement.execute("create table " + table
                        + " (id int primary key, customer int, amount decimal(31, 10))");
                statement.execute("create index " + table + "_customer on " + table + " (customer)");
            }
            fill(table);
            connection.commit();
            sum = connection.prepareStatement("select customer, count(*), sum(amount) from " + table
                    + " group by customer order by customer");
            list = connection.prepareStatement("select o.id, o.amount, r.rate from " + table
                    + " o join rate r on o.customer = r.customer where o.customer = ? order by o.id");
            change = connection.prepareStatement("update " + table + " set amount = ? where id = ?");
        }

        private void fill(String table) throws SQLException {
            var random = new Random(ORDERS);
            try (PreparedStatement insert =
                    connection.prepareStatement("insert into " + table + " values (?, ?, ?)")) {
                for (int order = 0; order < ORDERS; order++) {
                    insert.setInt(1, order);
                    insert.setInt(2, random.nextInt(CUSTOMERS));
                    insert.setBigDecimal(3, BigDecimal.valueOf(random.nextLong() >>> 8, 10));
                    insert.executeUpdate();
                }
            }
        }
    }

    /** A season's interest for every order of a few customers, the sums before and after, and all of it undone. */
    @Benchmark
    public long derby(Session session) throws SQLException {
        long before = sum(session);
        long interest = 0;
        for (int customer = 0; customer < 5; customer++) {
            interest = interest * 31 + addInterest(session, customer);
        }
        long after = sum(session);
        session.connection.rollback();
        if (before != sum(session) || before == after) {
            throw new IllegalStateException("the transaction was not taken back");
        }
        session.connection.rollback();
        return Checksum.expect(5_698_300_163_529_666_773L, (before * 31 + interest) * 31 + after);
    }

    private static long sum(Session session) throws SQLException {
        long sum = 0;
        try (ResultSet rows = session.sum.executeQuery()) {
            while (rows.next()) {
                sum = sum * 31 + rows.getInt(1);
                sum = sum * 31 + rows.getInt(2);
                sum = sum * 31 + rows.getBigDecimal(3).unscaledValue().longValue();
            }
        }
        return sum;
    }

    private static long addInterest(Session session, int customer) throws SQLException {
        long sum = 0;
        session.list.setInt(1, customer);
        try (ResultSet rows = session.list.executeQuery()) {
            while (rows.next()) {
                BigDecimal amount = grown(rows.getBigDecimal(2), rows.getBigDecimal(3));
                session.change.setBigDecimal(1, amount);
                session.change.setInt(2, rows.getInt(1));
                session.change.executeUpdate();
                sum = sum * 31 + amount.unscaledValue().longValue();
            }
        }
        return sum;
    }

    /** Day by day. */
    private static BigDecimal grown(BigDecimal amount, BigDecimal rate) {
        BigDecimal daily = BigDecimal.ONE.add(rate);
        BigDecimal grown = amount;
        for (int day = 0; day < 100; day++) {
            grown = grown.multiply(daily).setScale(10, RoundingMode.HALF_EVEN);
        }
        return grown;
    }
}
