package baton.client;

import java.math.BigInteger;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;

/**
 * Asks a Baton sidecar whether this process leads, and runs work only while it does.
 *
 * <pre>{@code
 * Baton baton = Baton.create();
 * while (true) {
 *     baton.runWhileLeading(term -> {
 *         while (true) {
 *             term.check();                             // throws if no step may begin
 *             ledger.append(term.token(), nextLine());  // one step
 *         }
 *     });
 * }
 * }</pre>
 *
 * <p>A promise counts from before the request. Only an answer of the sidecar extends it: a refused
 * connection, a timeout, and anything unexpected mean that this process does not lead. A token that
 * is smaller than one seen before by the same object means so too.
 *
 * <p>One object may be used by several threads.
 */
public final class Baton {
    /**
     * Work that runs while this process leads.
     *
     * @param <E> the exception that it throws
     */
    @FunctionalInterface
    public interface Work<E extends Exception> {
        /**
         * Runs until it is interrupted, or returns before.
         *
         * @param term holds the fencing token, and checks the promise before each step
         * @throws E if the work fails
         * @throws InterruptedException if the work was canceled
         */
        void run(Term term) throws E, InterruptedException;
    }

    private static final int ASKER_BITS = 128;
    /** Separates two requests at least, whatever the sidecar answers. */
    private static final Duration MIN_PAUSE = Duration.ofMillis(20);
    /** Separates two requests at most while the work runs. */
    private static final Duration MAX_RENEWAL = Duration.ofSeconds(1);
    /** How long the sidecar may hold back an answer while nothing changes. */
    private static final Duration LONG_POLL = Duration.ofSeconds(30);

    private final Sidecar sidecar;
    private final Duration step;
    private final Duration timeout;
    private final Duration poll;
    private final SecureRandom random = new SecureRandom();
    private final AtomicBoolean hasWarned = new AtomicBoolean();

    private Baton(Builder builder) {
        sidecar = new Sidecar(builder.url);
        step = builder.step;
        timeout = builder.timeout;
        poll = builder.poll;
    }

    /**
     * Creates a client with the default settings.
     *
     * @return a client of the sidecar at {@code BATON_URL}, else {@code http://localhost:4040}
     */
    public static Baton create() {
        return builder().build();
    }

    /**
     * Starts a client with other settings.
     *
     * @return a builder that holds the default settings
     */
    public static Builder builder() {
        return new Builder();
    }

    /**
     * Asks once. The promise is never renewed.
     *
     * @return the term, or nothing if this process does not lead
     */
    public Optional<Term> ask() {
        return Optional.ofNullable(term(sidecar.ask("", timeout)));
    }

    /**
     * Waits until this process leads, runs {@code work} in a new thread, and returns after it.
     *
     * <p>The promise is renewed meanwhile. One step before it ends, the thread of the work is
     * interrupted. Work that ignores this and does not call {@link Term#check} goes on without a
     * promise. An interrupt of the calling thread interrupts the work too.
     *
     * @param <E> the exception that the work throws
     * @param work begins each step with {@link Term#check}
     * @return true if the work returned within the term, false if it was canceled
     * @throws E if the work threw it
     * @throws InterruptedException if the calling thread was interrupted
     */
    public <E extends Exception> boolean runWhileLeading(Work<E> work)
            throws E, InterruptedException {
        Objects.requireNonNull(work);
        String asker = asker();
        Term term = awaitTerm(asker);
        FutureTask<Boolean> result = new FutureTask<>(() -> {
            try {
                term.check(); // the thread may have started late
                work.run(term);
                return term.remainingNanos() > 0;
            } finally {
                term.end();
            }
        });
        Thread worker = new Thread(result, "baton-work");
        Thread canceling = daemon("baton-cancel", () -> {
            term.awaitEnd(Long.MAX_VALUE);
            worker.interrupt();
        });
        Thread asking = daemon("baton-ask", () -> renew(term, asker));
        // In a thread of its own, because an interrupt of the caller would close its connection.
        Thread done = daemon("baton-done", () -> sidecar.done(term.token(), asker, timeout));
        try {
            canceling.start();
            asking.start();
            worker.start(); // last: work never runs without the other two
        } catch (Throwable noThread) {
            term.end();
            throw noThread;
        }
        boolean wasInterrupted = endOf(worker, term);
        asking.interrupt(); // closes its connection
        wasInterrupted |= endOf(asking, term) | endOf(canceling, term);
        done.start();
        wasInterrupted |= endOf(done, term);
        if (wasInterrupted) {
            Thread.currentThread().interrupt();
        }
        boolean wasInTime = outcome(result);
        if (!wasInTime && Thread.interrupted()) {
            throw new InterruptedException();
        }
        return wasInTime;
    }

    /**
     * Tells when this process begins and ends to lead, until the calling thread is interrupted.
     *
     * <p>A change is news, not a license to act: call {@link Term#check} before each step. Both
     * listeners run in the calling thread, and should return at once. The promises are not voided
     * at the end of a term, because the work elsewhere may go on for one step.
     *
     * @param granted gets each new term
     * @param revoked gets it again when it is over
     * @throws InterruptedException if the calling thread was interrupted
     */
    public void followChanges(Consumer<Term> granted, Consumer<Term> revoked)
            throws InterruptedException {
        while (true) {
            String asker = asker();
            Term term = awaitTerm(asker);
            Thread asking = daemon("baton-ask", () -> renew(term, asker));
            asking.start();
            try {
                granted.accept(term);
                term.awaitEnd(Long.MAX_VALUE);
            } finally {
                term.end();
                asking.interrupt(); // closes its connection
                revoked.accept(term);
            }
        }
    }

    private String asker() {
        return new BigInteger(ASKER_BITS, random).toString(Character.MAX_RADIX);
    }

    /** Asks until this process leads. Where the sidecar can, it answers when something changes. */
    private Term awaitTerm(String asker) throws InterruptedException {
        boolean longPolls = true;
        Sidecar.Answer last = Sidecar.Answer.NONE;
        for (;;) {
            long from = System.nanoTime();
            boolean waits = longPolls && last.revision() >= 0 && last.token() == null;
            String query = waits ? "&wait=30s&after=" + last.revision() : "";
            Duration patience = waits ? timeout.plus(LONG_POLL) : timeout;
            Sidecar.Answer answer = sidecar.ask("?asker=" + asker + query, patience);
            Term term = term(answer);
            if (term != null) {
                return term;
            }
            boolean isNews = answer.revision() >= 0 && answer.revision() != last.revision();
            boolean wasHeld = System.nanoTime() - from >= poll.toNanos();
            if (waits && !isNews && answer.status() != 0 && answer.status() != 429 && !wasHeld) {
                longPolls = false; // this sidecar answers at once, or refuses the parameters
            }
            Thread.sleep((longPolls && isNews ? MIN_PAUSE : poll).toMillis());
            last = answer;
        }
    }

    private Term term(Sidecar.Answer answer) {
        if (answer.token() == null) {
            return null;
        }
        Term term = new Term(answer.token(), end(answer));
        return term.remainingNanos() > 0 ? term : null;
    }

    /** When the last step may begin. */
    private Deadline end(Sidecar.Answer answer) {
        long promise = answer.validForMillis();
        long stepMillis = step == null ? promise / 4 : step.toMillis();
        if (stepMillis >= promise && !hasWarned.getAndSet(true)) {
            System.getLogger("baton.client").log(System.Logger.Level.WARNING,
                    "a step of {0} ms does not fit a promise of {1} ms", stepMillis, promise);
        }
        return answer.sent().plusMillis(promise - stepMillis);
    }

    private void renew(Term term, String asker) throws InterruptedException {
        while (!term.awaitEnd(within(term.remainingNanos() / 3, MIN_PAUSE, MAX_RENEWAL))) {
            long patience = within(term.remainingNanos(), MIN_PAUSE, timeout);
            Sidecar.Answer answer = sidecar.ask("?asker=" + asker, Duration.ofNanos(patience));
            if (term.token().equals(answer.token())) {
                term.renew(end(answer));
            } else if (answer.token() != null || answer.status() == 503) {
                term.end(); // any other failure neither extends nor ends a promise
            }
        }
    }

    /** Waits for a thread, and returns whether the current one was interrupted meanwhile. */
    private static boolean endOf(Thread thread, Term term) {
        for (boolean interrupted = false;; interrupted = true) {
            try {
                thread.join();
                return interrupted;
            } catch (InterruptedException stop) {
                term.end();
            }
        }
    }

    @SuppressWarnings("unchecked")
    private static <E extends Exception> boolean outcome(FutureTask<Boolean> result)
            throws E, InterruptedException {
        try {
            return result.get();
        } catch (ExecutionException failure) {
            Throwable thrown = failure.getCause();
            if (thrown instanceof InterruptedException || thrown instanceof NotLeadingException) {
                return false;
            }
            if (thrown instanceof Error error) {
                throw error;
            }
            throw (E) thrown;
        }
    }

    private interface Task {
        void run() throws InterruptedException;
    }

    private static Thread daemon(String name, Task task) {
        Thread thread = new Thread(() -> {
            try {
                task.run();
            } catch (InterruptedException noLongerNeeded) {
                // Only the asking is interrupted, when its term is over.
            }
        }, name);
        thread.setDaemon(true);
        return thread;
    }

    private static long within(long nanos, Duration least, Duration most) {
        return Math.min(Math.max(nanos, least.toNanos()), most.toNanos());
    }

    /** The settings of a client. */
    public static final class Builder {
        private String url = System.getenv().getOrDefault("BATON_URL", "http://localhost:4040");
        private Duration step;
        private Duration timeout = Duration.ofMillis(500);
        private Duration poll = Duration.ofMillis(500);

        private Builder() {}

        /**
         * Sets where the sidecar listens.
         *
         * @param url {@code http://HOST:PORT}; default: {@code BATON_URL}
         * @return this builder
         */
        public Builder url(String url) {
            this.url = Objects.requireNonNull(url);
            return this;
        }

        /**
         * Sets how long a step takes at most. Work is canceled this long before a promise ends, so
         * it must be shorter than the sidecar's {@code --answer-validity}.
         *
         * @param step a duration; default: a quarter of each promise
         * @return this builder
         */
        public Builder step(Duration step) {
            this.step = positive(step);
            return this;
        }

        /**
         * Sets how long to wait for an answer.
         *
         * @param timeout a duration; default: 500 ms
         * @return this builder
         */
        public Builder timeout(Duration timeout) {
            this.timeout = positive(timeout);
            return this;
        }

        /**
         * Sets how long to pause between two requests while another process leads.
         *
         * @param poll a duration; default: 500 ms
         * @return this builder
         */
        public Builder poll(Duration poll) {
            this.poll = positive(poll);
            return this;
        }

        /**
         * Creates the client.
         *
         * @return a client with these settings
         * @throws IllegalArgumentException if the URL is not {@code http://HOST:PORT}
         */
        public Baton build() {
            return new Baton(this);
        }

        private static Duration positive(Duration duration) {
            if (duration.compareTo(MIN_PAUSE) < 0) {
                throw new IllegalArgumentException(
                        duration + " is too short: pass at least " + MIN_PAUSE);
            }
            return duration;
        }
    }
}
