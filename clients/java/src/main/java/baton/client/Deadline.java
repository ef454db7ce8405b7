package baton.client;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.TimeUnit;

/**
 * A moment on two clocks: {@link System#nanoTime}, which is precise but stops while a machine
 * sleeps, and the uptime, which Linux counts in steps of 10 ms and during suspend too. A deadline
 * has passed when either clock says so.
 *
 * <p>The uptime is read from a file that stays open, because a JVM without free file descriptors
 * must still see its deadlines pass. The file is no channel: an interrupt would close that.
 */
record Deadline(long nanos, long uptimeMillis) {
    /** The uptime lags by up to 10 ms. */
    private static final long UPTIME_STEP_MILLIS = 10;

    private static final RandomAccessFile UPTIME = openUptime();

    /**
     * Reads both clocks.
     *
     * @throws IOException if the system has an uptime but it cannot be read
     */
    static Deadline now() throws IOException {
        return new Deadline(System.nanoTime(), readUptime());
    }

    Deadline plusMillis(long millis) {
        return new Deadline(nanos + TimeUnit.MILLISECONDS.toNanos(millis), uptimeMillis + millis);
    }

    /** The nanoseconds until this deadline; zero or less if it has passed or no clock is there. */
    long remainingNanos() {
        try {
            Deadline now = now();
            long uptime = uptimeMillis - now.uptimeMillis - UPTIME_STEP_MILLIS;
            return Math.min(nanos - now.nanos, TimeUnit.MILLISECONDS.toNanos(uptime));
        } catch (IOException noClock) {
            return 0;
        }
    }

    private static RandomAccessFile openUptime() {
        try {
            return new RandomAccessFile("/proc/uptime", "r");
        } catch (FileNotFoundException notLinux) {
            return null;
        }
    }

    /** Without an uptime, that clock stands still and no deadline passes on it. */
    private static long readUptime() throws IOException {
        if (UPTIME == null) {
            return 0;
        }
        byte[] bytes = new byte[64];
        int length;
        synchronized (UPTIME) {
            UPTIME.seek(0);
            length = UPTIME.read(bytes);
        }
        String text = new String(bytes, 0, Math.max(length, 0), StandardCharsets.US_ASCII);
        try {
            return new BigDecimal(text.split(" ", 2)[0]).movePointRight(3).longValue();
        } catch (NumberFormatException garbled) {
            throw new IOException("/proc/uptime holds no uptime: " + text, garbled);
        }
    }
}
