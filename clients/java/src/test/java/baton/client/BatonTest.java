package baton.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.math.BigInteger;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(30)
class BatonTest {
    @Test
    void workIsInterruptedOneStepBeforeThePromiseEnds() throws Exception {
        String failure = FakeSidecar.response(500, "");
        try (FakeSidecar fake = FakeSidecar.of(FakeSidecar.leading("7", 6000), failure)) {
            long from = System.nanoTime();
            boolean returned = client(fake).runWhileLeading(term -> Thread.sleep(20_000));
            long took = System.nanoTime() - from;
            assertFalse(returned);
            assertTrue(took < 6_000_000_000L, "canceled after " + took);
        }
    }

    @Test
    void renewsWhileTheWorkRunsAndThenSaysThatItIsDone() throws Exception {
        String refused = FakeSidecar.response(404, "");
        try (FakeSidecar fake = new FakeSidecar(
                request -> request.startsWith("P") ? refused : FakeSidecar.leading("7", 6000))) {
            assertTrue(client(fake).runWhileLeading(term -> {
                for (int step = 0; step < 90; step++) {
                    term.check();
                    Thread.sleep(50);
                }
            }));
            int last = fake.requests.size() - 1;
            assertTrue(last >= 3, "asked " + last + " times");
            String asker = fake.requests.get(0).replaceAll(".*asker=(.*) .*", "$1");
            String done = "POST /done?token=7&asker=" + asker + " HTTP/1.1";
            assertEquals(done, fake.requests.get(last));
            assertTrue(fake.requests.subList(0, last).stream()
                    .allMatch(("GET /leader?asker=" + asker + " HTTP/1.1")::equals));
        }
    }

    @Test
    void workEndsAtOnceWhenTheSidecarFollows() throws Exception {
        String following = FakeSidecar.following();
        try (FakeSidecar fake = FakeSidecar.of(FakeSidecar.leading("7", 60_000), following)) {
            assertFalse(client(fake).runWhileLeading(term -> Thread.sleep(20_000)));
        }
    }

    @Test
    void changesTellOfEachTerm() throws Exception {
        List<String> heard = new ArrayList<>();
        try (FakeSidecar fake = FakeSidecar.of(FakeSidecar.leading("7", 60_000),
                FakeSidecar.following(), FakeSidecar.leading("8", 60_000))) {
            Thread caller = Thread.currentThread();
            assertThrows(InterruptedException.class, () -> client(fake).followChanges(
                    term -> {
                        heard.add("granted " + term.token());
                        if (heard.size() == 3) {
                            caller.interrupt();
                        }
                    },
                    term -> heard.add("revoked " + term.token())));
            assertEquals(List.of("granted 7", "revoked 7", "granted 8", "revoked 8"), heard);
            assertTrue(fake.requests.stream().allMatch(request -> request.startsWith("GET")));
        }
    }

    @Test
    void exceptionsOfTheWorkAreThrown() throws Exception {
        try (FakeSidecar fake = new FakeSidecar(request -> FakeSidecar.leading("7", 5000))) {
            IOException failure = new IOException("the disk is full");
            assertEquals(failure, assertThrows(IOException.class, () ->
                    client(fake).runWhileLeading(term -> {
                        throw failure;
                    })));
        }
    }

    @Test
    void anInterruptOfTheCallerCancelsTheWork() throws Exception {
        try (FakeSidecar fake = new FakeSidecar(request -> FakeSidecar.leading("7", 60_000))) {
            Thread caller = Thread.currentThread();
            assertThrows(InterruptedException.class, () ->
                    client(fake).runWhileLeading(term -> {
                        caller.interrupt();
                        Thread.sleep(20_000);
                    }));
        }
    }

    @Test
    void aTermOfAskIsOverAfterItsPromise() throws Exception {
        try (FakeSidecar fake = new FakeSidecar(request -> FakeSidecar.leading("7", 5000))) {
            Term term = client(fake).ask().orElseThrow();
            assertEquals(BigInteger.valueOf(7), term.token());
            term.check();
            Thread.sleep(3000);
            assertThrows(NotLeadingException.class, term::check);
        }
    }

    @Test
    void asksNoMoreOftenThanAllowed() throws Exception {
        try (FakeSidecar fake = new FakeSidecar(request -> FakeSidecar.following())) {
            Thread caller = Thread.currentThread();
            Thread stop = new Thread(() -> {
                try {
                    Thread.sleep(1000);
                } catch (InterruptedException never) {
                    return;
                }
                caller.interrupt();
            });
            stop.start();
            assertThrows(InterruptedException.class,
                    () -> client(fake).runWhileLeading(term -> {}));
            assertTrue(fake.requests.size() <= 7, fake.requests.toString());
            assertTrue(fake.requests.get(1).contains("&wait=30s&after=1 "));
        }
    }

    private static Baton client(FakeSidecar fake) {
        return Baton.builder().url(fake.url())
                .step(Duration.ofSeconds(2)).timeout(Duration.ofSeconds(5))
                .poll(Duration.ofMillis(200)).build();
    }
}
