package baton.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.math.BigInteger;
import java.time.Duration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class SidecarTest {
    private static final Duration TIMEOUT = Duration.ofSeconds(10);

    @Test
    void countsAPromiseFromBeforeTheRequest() throws IOException {
        try (FakeSidecar fake = new FakeSidecar(request -> {
            Thread.sleep(500);
            return FakeSidecar.leading("7", 5000);
        })) {
            Sidecar.Answer answer = new Sidecar(fake.url()).ask("", TIMEOUT);
            assertEquals(BigInteger.valueOf(7), answer.token());
            Deadline until = answer.sent().plusMillis(answer.validForMillis());
            assertTrue(until.remainingNanos() <= 4_500_000_000L);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {
        "", "x", "-1", "+1", "1.0", " 1", "340282366920938463463374607431768211456"
    })
    void refusesWhatIsNoToken(String token) throws IOException {
        try (FakeSidecar fake = new FakeSidecar(request -> FakeSidecar.leading(token, 1000))) {
            assertNull(new Sidecar(fake.url()).ask("", TIMEOUT).token());
        }
    }

    @Test
    void neverGoesBackToASmallerToken() throws IOException {
        String largest = "340282366920938463463374607431768211455";
        try (FakeSidecar fake = new FakeSidecar(
                request -> FakeSidecar.leading(request.contains("new") ? largest : "9", 1000))) {
            Sidecar sidecar = new Sidecar(fake.url());
            assertNotNull(sidecar.ask("?old", TIMEOUT).token());
            assertNotNull(sidecar.ask("?new", TIMEOUT).token());
            assertNull(sidecar.ask("?old", TIMEOUT).token());
        }
    }

    @Test
    void boundsTheWholeExchange() throws IOException {
        String answer = FakeSidecar.leading("7", 60_000);
        try (FakeSidecar fake = new FakeSidecar(request -> answer, 100)) {
            long from = System.nanoTime();
            assertNull(new Sidecar(fake.url()).ask("", Duration.ofMillis(600)).token());
            assertTrue(System.nanoTime() - from < 8_000_000_000L);
        }
    }

    @Test
    void refusesOtherUrls() {
        for (String url : new String[] {"https://localhost:4040", "localhost:4040", "http://a/b",
            "http://a?b", "http://a:65536", "http://u@a", "ftp://a", ""}) {
            assertThrows(IllegalArgumentException.class, () -> new Sidecar(url), url);
        }
    }
}
