import static java.nio.charset.StandardCharsets.US_ASCII;

import baton.client.Baton;
import baton.client.NotLeadingException;
import baton.client.Term;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;

/** Works by the protocol of {@code clients/testing/README.md}, for the tests of the library. */
final class Worker {
    private static final long CLOCK_OFFSET =
            Long.parseLong(System.getenv("BATON_WORKER_CLOCK_OFFSET_NS"));

    private final FileOutputStream log;
    private final Map<String, Long> options = new HashMap<>();
    private final Baton baton;

    private Worker(String[] arguments) throws IOException {
        log = new FileOutputStream(arguments[1], true);
        for (int i = 2; i < arguments.length; i++) {
            String[] option = arguments[i].split("=", 2);
            options.put(option[0], Long.valueOf(option[1]));
        }
        Baton.Builder builder = Baton.builder();
        duration("step_ms").ifPresent(builder::step);
        duration("timeout_ms").ifPresent(builder::timeout);
        duration("poll_ms").ifPresent(builder::poll);
        baton = builder.build();
    }

    public static void main(String[] arguments) throws IOException {
        Worker worker = new Worker(arguments);
        Thread main = Thread.currentThread();
        Thread stop = new Thread(() -> {
            main.interrupt();
            join(main);
            Runtime.getRuntime().halt(0); // and not the code of a signal
        });
        Runtime.getRuntime().addShutdownHook(stop);
        try {
            switch (arguments[0]) {
                case "run" -> worker.run();
                case "ask" -> worker.ask();
                case "changes" -> worker.changes();
                default -> throw new IllegalArgumentException("unknown mode: " + arguments[0]);
            }
        } catch (InterruptedException stopped) {
            return;
        } catch (RuntimeException failure) {
            failure.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }

    private void run() throws InterruptedException {
        for (long terms = option("terms", Long.MAX_VALUE); terms > 0; terms--) {
            baton.runWhileLeading(this::work);
        }
    }

    private void work(Term term) {
        boolean obeys = option("signal", 1) == 1;
        boolean checks = option("check", 0) == 1;
        long busy = option("busy_ms", 0);
        long until = options.containsKey("work_ms") ? now() + nanos("work_ms") : Long.MAX_VALUE;
        act(term, "start", now());
        while (now() < until) {
            long at = now();
            if (checks && !passes(term)) {
                write(term, "cancel", now());
                break;
            }
            act(term, "beat", at);
            spin(busy);
            busy = 0;
            if (isInterruptedWithin(10) && obeys) {
                write(term, "cancel", now());
                break;
            }
        }
        for (long end = now() + nanos("linger_ms"); now() < end;) {
            isInterruptedWithin(10);
        }
        write(term, "stop", now());
    }

    private void ask() throws InterruptedException {
        for (long asks = option("asks", 1); asks > 0; asks--) {
            Optional<Term> term = baton.ask();
            long at = now();
            // The library counts less one step.
            long until = at + term.map(t -> t.remaining().toNanos()).orElse(0L) + nanos("step_ms");
            append(term.map(t -> t.token() + " ask " + at + " " + until)
                    .orElse("- ask " + at + " 0"));
            Thread.sleep(option("poll_ms", 0));
        }
    }

    private void changes() throws InterruptedException {
        baton.followChanges(
                term -> write(term, "granted", now()), term -> write(term, "revoked", now()));
    }

    private static boolean passes(Term term) {
        try {
            term.check();
            return true;
        } catch (NotLeadingException over) {
            return false;
        }
    }

    private static boolean isInterruptedWithin(long millis) {
        try {
            Thread.sleep(millis);
            return false;
        } catch (InterruptedException interrupted) {
            return true;
        }
    }

    private static void spin(long millis) {
        for (long until = now() + millis * 1_000_000; now() < until;) {
            Thread.onSpinWait();
        }
    }

    private static void join(Thread thread) {
        try {
            thread.join();
        } catch (InterruptedException never) {
            throw new AssertionError(never);
        }
    }

    private static long now() {
        return System.nanoTime() + CLOCK_OFFSET;
    }

    private void write(Term term, String event, long at) {
        append(term.token() + " " + event + " " + at);
    }

    /** Writes a start or a beat, and until when the library allows it. */
    private void act(Term term, String event, long at) {
        long now = now();
        long left = term.remaining().toNanos();
        long until = left > 0 ? now + left : 0;
        append(term.token() + " " + event + " " + at + " " + until);
    }

    private void append(String line) {
        try {
            log.write((line + "\n").getBytes(US_ASCII));
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private long option(String name, long otherwise) {
        return options.getOrDefault(name, otherwise);
    }

    private long nanos(String name) {
        return option(name, 0) * 1_000_000;
    }

    private Optional<Duration> duration(String name) {
        return Optional.ofNullable(options.get(name)).map(Duration::ofMillis);
    }
}
