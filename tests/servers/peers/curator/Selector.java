import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * A candidate that uses Curator's LeaderSelector, for the torture beside the peers.
 *
 * <p>Its arguments are those of {@code Candidate}, without {@code listen}. The adapter that Curator
 * recommends cancels leadership when the connection is suspended or lost, and the selector requeues
 * itself: https://curator.apache.org/docs/recipes-leader-election.
 *
 * <p>It writes one JSON object per line to standard output, each with the time on CLOCK_BOOTTIME:
 * {@code started_leading}, and {@code work_cancelled} when the selector interrupts the work. After
 * SIGTERM it stops the work, closes the selector, and exits.
 */
final class Selector extends LeaderSelectorListenerAdapter {
    private final Map<String, String> flags;
    private final LeaderSelector selector;
    private boolean working;

    public static void main(String[] arguments) throws Exception {
        var flags = Stream.of(arguments).map(argument -> argument.split("=", 2)).collect(
                Collectors.toMap(argument -> argument[0], argument -> argument[1]));
        // The retry policy in Curator's documentation, and its default connection timeout.
        var client = CuratorFrameworkFactory.newClient(
                flags.get("servers"), Integer.parseInt(flags.get("session-timeout-ms")), 15_000,
                new ExponentialBackoffRetry(1000, 3));
        var candidate = new Selector(flags, client);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            candidate.end();
            client.close();
            Runtime.getRuntime().halt(0); // otherwise 143
        }));
        client.start();
        candidate.selector.start();
        Thread.currentThread().join(); // until SIGTERM
    }

    private Selector(Map<String, String> flags, CuratorFramework client) {
        this.flags = flags;
        this.selector = new LeaderSelector(client, flags.get("path"), this);
        selector.setId(flags.get("id"));
        selector.autoRequeue();
    }

    /** Works until the selector interrupts this thread, and releases the election by its return. */
    @Override
    public void takeLeadership(CuratorFramework client) {
        report("started_leading", true);
        try {
            new CountDownLatch(1).await();
        } catch (InterruptedException cancelled) {
            Thread.currentThread().interrupt();
        } finally {
            report("work_cancelled", false);
        }
    }

    /** Interrupts the work, and returns once it has stopped. */
    private synchronized void end() {
        selector.close();
        try {
            while (working) {
                wait();
            }
        } catch (InterruptedException impossible) {
            Thread.currentThread().interrupt();
        }
    }

    /** Writes one event as a line. */
    private synchronized void report(String event, boolean works) {
        long now = System.nanoTime() + Long.parseLong(flags.get("boottime-offset-ns"));
        System.out.println("{\"boottime_ns\":%d,\"event\":\"%s\"}".formatted(now, event));
        working = works;
        notifyAll();
    }
}
