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
 * One real candidate of Curator's LeaderLatch, for the tests to put before, behind and beside the sidecar.
 *
 * <p>Its arguments are {@code name=value}: {@code servers}, {@code path}, {@code id}, {@code session-timeout-ms}, {@code
 * boottime-offset-ns} (what makes a time on CLOCK_BOOTTIME of {@code System.nanoTime()}, which no Java can read), and
 * {@code listen}, a port where an application may ask.
 *
 * <p>It writes one JSON object a line to standard output, each with the time on CLOCK_BOOTTIME: {@code started_leading} and
 * {@code work_cancelled} when the latch's listener says so. After SIGTERM it stops the work, closes the latch and ends.
 */
final class Candidate implements LeaderLatchListener {
    /** Whoever asks often must not keep the servers busy with it. */
    private static final long BETWEEN_LOOKS_NANOS = 100_000_000;

    private final Map<String, String> flags;
    private final LeaderLatch latch;
    private boolean working;
    private boolean ending;
    private final ExecutorService looking = Executors.newSingleThreadExecutor();
    private volatile String leader = "";
    private long looked;

    public static void main(String[] arguments) throws Exception {
        var flags = Stream.of(arguments).map(argument -> argument.split("=", 2)).collect(
                Collectors.toMap(argument -> argument[0], argument -> argument[1]));
        // The retries that Curator's documentation shows, and the time-out that it has for connections.
        var client = CuratorFrameworkFactory.newClient(
                flags.get("servers"), Integer.parseInt(flags.get("session-timeout-ms")), 15_000,
                new ExponentialBackoffRetry(1000, 3));
        var candidate = new Candidate(flags, new LeaderLatch(client, flags.get("path"), flags.get("id")));
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            candidate.end();
            client.close();
            Runtime.getRuntime().halt(0); // else it is 143
        }));
        client.start();
        candidate.latch.addListener(candidate);
        candidate.latch.start();
        if (flags.containsKey("listen")) {
            candidate.answer(Integer.parseInt(flags.get("listen"))); // last: a Java that starts is slow to answer
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
            tell("started_leading", "");
            working = true;
        }
    }

    @Override
    public synchronized void notLeader() {
        if (working) {
            working = false;
            tell("work_cancelled", "");
        }
    }

    /** Who closes the latch while the work goes on gives the election away first. */
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

    /** Says to every GET what an application beside this candidate could learn: with 200 while it leads, else with 503. */
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
        tell("listening", ",\"identity\":\"%s\",\"listen\":\"127.0.0.1:%d\"".formatted(flags.get("id"), address.getPort()));
    }

    private synchronized boolean works() {
        return working;
    }

    /** The other leader's name, as it was when somebody asked before: no answer waits for the servers. */
    private String leader() {
        if (System.nanoTime() - looked > BETWEEN_LOOKS_NANOS) {
            looked = System.nanoTime();
            looking.execute(() -> {
                try {
                    leader = latch.getLeader().getId();
                } catch (Exception nobodyKnown) {
                    leader = "";
                }
            });
        }
        return leader;
    }

    /** Writes one line at once. */
    private void tell(String event, String more) {
        long now = System.nanoTime() + Long.parseLong(flags.get("boottime-offset-ns"));
        System.out.println("{\"boottime_ns\":%d,\"event\":\"%s\"%s}".formatted(now, event, more));
    }
}
