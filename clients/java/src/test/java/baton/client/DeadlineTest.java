package baton.client;

import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.math.BigInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

class DeadlineTest {
    private static final long DAY_MILLIS = 86_400_000;

    @Test
    void passesWhenTheMonotonicClockSaysSo() throws IOException {
        Deadline now = Deadline.now();
        Deadline passed = new Deadline(now.nanos(), now.uptimeMillis() + DAY_MILLIS);
        assertTrue(passed.remainingNanos() <= 0);
    }

    /** As after a suspend, during which the monotonic clock stood still. */
    @Test
    void passesWhenTheUptimeSaysSo() throws IOException {
        Deadline now = Deadline.now();
        assumeTrue(now.uptimeMillis() > 0, "this system has an uptime");
        Deadline passed = new Deadline(now.nanos() + DAY_MILLIS * 1_000_000, now.uptimeMillis());
        assertTrue(passed.remainingNanos() <= 0);
    }

    /** As with a promise that was good for a day when the machine went to sleep. */
    @Test
    @Timeout(20)
    void endsATermWhenTheUptimeSaysSo() throws IOException, InterruptedException {
        Deadline now = Deadline.now();
        assumeTrue(now.uptimeMillis() > 0, "this system has an uptime");
        Term term = new Term(BigInteger.ONE,
                new Deadline(now.nanos() + DAY_MILLIS * 1_000_000, now.uptimeMillis() + 500));
        assertTrue(term.awaitEnd(Long.MAX_VALUE));
    }

    @Test
    void holdsUntilEitherClockSaysSo() throws IOException {
        long remaining = Deadline.now().plusMillis(DAY_MILLIS).remainingNanos();
        assertTrue(remaining > 0 && remaining <= DAY_MILLIS * 1_000_000);
    }
}
