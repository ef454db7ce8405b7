package baton.client;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.IOException;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Map;

/** The sidecar's endpoints, and the reading of its answers. Start with {@link #ask}. */
final class Sidecar {
    /**
     * An answer to {@link #ask}.
     *
     * @param status the HTTP status
     * @param token the fencing token, or null if this process does not lead
     * @param sent when the request was sent, or null
     * @param validForMillis how long the promise is good from then on
     * @param revision the sidecar's count of changes, or -1
     */
    record Answer(int status, BigInteger token, Deadline sent, long validForMillis, long revision) {
        /** No answer in time, or one that is not HTTP. */
        static final Answer NONE = new Answer(0, null, null, 0, -1);
    }

    private static final int MAX_TOKEN_BITS = 128;

    /** How long no sidecar may answer before a warning, and before another one. */
    private static final long WARN_AFTER_NANOS = Duration.ofSeconds(5).toNanos();
    private static final long WARN_AGAIN_NANOS = Duration.ofMinutes(1).toNanos();

    private final String url;
    private final Http http;

    /** When the silence of the sidecar began, or null if its last answer came. */
    private Long silentSince;
    private Long warned;

    /** The largest token seen. A smaller one comes from a sidecar or a store that went back. */
    private BigInteger newest = BigInteger.ZERO;

    Sidecar(String url) {
        this.url = url;
        http = new Http(url);
    }

    /** Asks whether this process leads. {@code query} is empty or begins with a question mark. */
    Answer ask(String query, Duration timeout) {
        try {
            Answer answer = read(http.send("GET", "/leader" + query, timeout));
            warnIfSilent(answer, "status " + answer.status());
            return answer;
        } catch (IOException notLeading) {
            warnIfSilent(Answer.NONE, notLeading.toString());
            return Answer.NONE;
        }
    }

    private synchronized void warnIfSilent(Answer answer, String cause) {
        long now = System.nanoTime();
        if (answer.revision() >= 0) {
            silentSince = null;
            return;
        }
        silentSince = silentSince == null ? Long.valueOf(now) : silentSince;
        boolean isDue = warned == null || now - warned >= WARN_AGAIN_NANOS;
        if (isDue && now - silentSince >= WARN_AFTER_NANOS) {
            warned = now;
            System.getLogger("baton.client").log(System.Logger.Level.WARNING,
                    "no sidecar answers at " + url + " (" + cause
                            + "): start baton, or set BATON_URL");
        }
    }

    private Answer read(Http.Response response) {
        Map<String, String> body = fields(response.body());
        boolean leads = response.status() == 200
                && "true".equals(body.get("is_leader"))
                && "\"leading\"".equals(body.get("standing"));
        long validFor = leads ? count(body.get("valid_for_ms")) : 0;
        BigInteger token = validFor > 0 ? admit(token(body.get("token"))) : null;
        long revision = count(body.get("revision"));
        return new Answer(response.status(), token, response.sent(), validFor, revision);
    }

    /** Tells the sidecar that {@code asker} acts no more. Without success, its promises expire. */
    void done(BigInteger token, String asker, Duration timeout) {
        try {
            http.send("POST", "/done?token=" + token + "&asker=" + asker, timeout);
        } catch (IOException unheard) {
            // Only a stop or a resignation takes longer.
        }
    }

    /** Returns no fields for a body that is not Baton's. */
    private static Map<String, String> fields(byte[] body) {
        try {
            return Json.object(UTF_8.newDecoder().decode(ByteBuffer.wrap(body)).toString());
        } catch (IOException notJson) {
            return Map.of();
        }
    }

    /** Returns null for a token that is smaller than one seen before. */
    private synchronized BigInteger admit(BigInteger token) {
        if (token == null || token.compareTo(newest) < 0) {
            return null;
        }
        newest = token;
        return token;
    }

    private static BigInteger token(String field) {
        if (field == null || !field.matches("\"[0-9]{1,39}\"")) {
            return null;
        }
        BigInteger token = new BigInteger(field.substring(1, field.length() - 1));
        return token.bitLength() > MAX_TOKEN_BITS ? null : token;
    }

    /** A whole number, or -1. Nine digits suffice: no promise is good for eleven days. */
    private static long count(String field) {
        return field != null && field.matches("[0-9]{1,9}") ? Long.parseLong(field) : -1;
    }
}
