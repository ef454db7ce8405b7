import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderLatchListener;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * A candidate that uses Curator's LeaderLatch, for tests of mixed ZooKeeper elections.
 *
 * <p>Its arguments are {@code name=value}: {@code servers}, {@code path}, {@code id}, {@code
 * session-timeout-ms}, {@code boottime-offset-ns}, and optionally {@code listen}, a port for an
 * application's requests. The offset converts {@code System.nanoTime()} to CLOCK_BOOTTIME, which
 * Java cannot read.
 *
 * <p>It writes one JSON object per line to standard output, each with the time on CLOCK_BOOTTIME:
 * {@code started_leading} and {@code work_cancelled} when the latch's listener reports them. After
 * SIGTERM it stops the work, closes the latch, and exits.
 */
final class Candidate implements LeaderLatchListener {
    /** The least time between two reads of the leader's name, to spare the servers. */
    private static final long LEADER_READ_INTERVAL_NANOS = 100_000_000;

    private final Map<String, String> flags;
    private final LeaderLatch latch;
    private boolean working;
    private boolean ending;
    private final ExecutorService leaderReader = Executors.newSingleThreadExecutor();
    private volatile String leader = "";
    private long leaderReadAt;

    public static void main(String[] arguments) throws Exception {
        var flags = Stream.of(arguments).map(argument -> argument.split("=", 2)).collect(
                Collectors.toMap(argument -> argument[0], argument -> argument[1]));
        // The retry policy in Curator's documentation, and its default connection timeout.
        var client = CuratorFrameworkFactory.newClient(
                flags.get("servers"), Integer.parseInt(flags.get("session-timeout-ms")), 15_000,
                new ExponentialBackoffRetry(1000, 3));
        var candidate = new Candidate(flags, new LeaderLatch(client, flags.get("path"), flags.get("id")));
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            candidate.end();
            client.close();
            Runtime.getRuntime().halt(0); // otherwise 143
        }));
        client.start();
        candidate.latch.addListener(candidate);
        candidate.latch.start();
        if (flags.containsKey("listen")) {
            candidate.answer(Integer.parseInt(flags.get("listen"))); // last, because Java is slow to answer while it starts
        }
        Thread.currentThread().join(); // until SIGTERM
    }

    private Candidate(Map<String, String> flags, LeaderLatch latch) {
        this.flags = flags;
        this.latch = latch;
    }

    @Override
    public synchronized void isLeader() {
        if (!ending) {
            report("started_leading", "");
            working = true;
        }
    }

    @Override
    public synchronized void notLeader() {
        if (working) {
            working = false;
            report("work_cancelled", "");
        }
    }

    /** Stops the work before it closes the latch, which releases the election. */
    private void end() {
        synchronized (this) {
            ending = true;
            notLeader();
        }
        try {
            latch.close();
        } catch (IOException error) {
            error.printStackTrace();
        }
    }

    /** Answers every GET as a sidecar would: 200 while this candidate leads, else 503. */
    private void answer(int port) throws IOException {
        var server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 0);
        server.createContext("/", exchange -> {
            boolean works = works();
            var body = "{\"leader\":\"%s\"}\n".formatted(works ? flags.get("id") : leader());
            var bytes = body.getBytes(StandardCharsets.UTF_8);
            exchange.sendResponseHeaders(works ? 200 : 503, bytes.length);
            try (var out = exchange.getResponseBody()) {
                out.write(bytes);
            }
        });
        server.start();
        var address = server.getAddress();
        report("listening", ",\"identity\":\"%s\",\"listen\":\"127.0.0.1:%d\"".formatted(flags.get("id"), address.getPort()));
    }

    private synchronized boolean works() {
        return working;
    }

    /** The leader's name as of an earlier request: answers never wait for the servers. */
    private String leader() {
        if (System.nanoTime() - leaderReadAt > LEADER_READ_INTERVAL_NANOS) {
            leaderReadAt = System.nanoTime();
            leaderReader.execute(() -> {
                try {
                    leader = latch.getLeader().getId();
                } catch (Exception noLeader) {
                    leader = "";
                }
            });
        }
        return leader;
    }

    /** Writes one event as a line. */
    private void report(String event, String more) {
        long now = System.nanoTime() + Long.parseLong(flags.get("boottime-offset-ns"));
        System.out.println("{\"boottime_ns\":%d,\"event\":\"%s\"%s}".formatted(now, event, more));
    }
}
