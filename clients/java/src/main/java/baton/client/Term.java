package baton.client;

import java.math.BigInteger;
import java.time.Duration;
import java.util.concurrent.TimeUnit;

/**
 * A promise of the sidecar that this process leads. Safe for use by several threads.
 *
 * <p>While {@link Baton#runWhileLeading} runs, its term is renewed. A term of {@link Baton#ask} is
 * not. Once a term is over, it stays over.
 */
public final class Term {
    /** Waits look at the clocks this often: their own clock stops while a machine sleeps. */
    private static final long LOOK_NANOS = TimeUnit.MILLISECONDS.toNanos(100);

    private final BigInteger token;
    private Deadline end;
    private boolean isOver;

    /** A term whose last step may begin until {@code end}. */
    Term(BigInteger token, Deadline end) {
        this.token = token;
        this.end = end;
    }

    /**
     * The fencing token. Pass it to every resource that you write to, as a decimal string.
     *
     * @return a number of at most 128 bits, larger in each later term
     */
    public BigInteger token() {
        return token;
    }

    /**
     * How much longer a step may begin.
     *
     * @return the time until the promise ends, less one step; zero when the term is over
     */
    public Duration remaining() {
        return Duration.ofNanos(remainingNanos());
    }

    /**
     * Call this before each step. It reads the clock, so it is right even if the thread that
     * cancels the work came late.
     *
     * @throws NotLeadingException if the promise ends within one step, or the term is over
     */
    public void check() {
        if (remainingNanos() == 0) {
            throw new NotLeadingException(this);
        }
    }

    synchronized long remainingNanos() {
        long remaining = isOver ? 0 : Math.max(0, end.remainingNanos());
        isOver = remaining == 0;
        return remaining;
    }

    /** Extends the promise, unless the term is over. */
    synchronized void renew(Deadline later) {
        if (remainingNanos() > 0 && later.nanos() - end.nanos() > 0) {
            end = later;
        }
    }

    synchronized void end() {
        isOver = true;
        notifyAll();
    }

    /** Waits for {@code nanos}, or until the term is over, and returns whether it is. */
    synchronized boolean awaitEnd(long nanos) throws InterruptedException {
        long from = System.nanoTime();
        long wait = Math.min(nanos, remainingNanos());
        while (wait > 0) {
            TimeUnit.NANOSECONDS.timedWait(this, Math.min(wait, LOOK_NANOS));
            wait = Math.min(nanos - (System.nanoTime() - from), remainingNanos());
        }
        return remainingNanos() == 0;
    }
}
