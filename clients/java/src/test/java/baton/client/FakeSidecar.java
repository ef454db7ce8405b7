package baton.client;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;

/** Answers each request with a scripted text, on a free loopback port. */
final class FakeSidecar implements AutoCloseable {
    /** Turns a request line into a whole HTTP response. */
    interface Script {
        String answer(String request) throws InterruptedException;
    }

    final List<String> requests = new CopyOnWriteArrayList<>();
    private final ServerSocket listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
    private final Script script;
    private final long millisPerByte;

    FakeSidecar(Script script) throws IOException {
        this(script, 0);
    }

    /** Gives the answers in turn, and repeats the last one. */
    static FakeSidecar of(String... answers) throws IOException {
        AtomicInteger asked = new AtomicInteger();
        return new FakeSidecar(
                request -> answers[Math.min(asked.getAndIncrement(), answers.length - 1)]);
    }

    /** Sends the answer byte by byte, with a pause before each. */
    FakeSidecar(Script script, long millisPerByte) throws IOException {
        this.script = script;
        this.millisPerByte = millisPerByte;
        start(() -> {
            while (!listener.isClosed()) {
                Socket socket = listener.accept();
                start(() -> serve(socket));
            }
        });
    }

    static String leading(String token, long validForMillis) {
        return response(200, "{\"standing\":\"leading\",\"is_leader\":true,\"token\":\"" + token
                + "\",\"valid_for_ms\":" + validForMillis + ",\"revision\":2}\n");
    }

    static String following() {
        return response(503, "{\"standing\":\"following\",\"is_leader\":false,\"token\":null,"
                + "\"valid_for_ms\":0,\"revision\":1}\n");
    }

    static String response(int status, String body) {
        return "HTTP/1.1 " + status + " Scripted\r\nContent-Length: " + body.getBytes(UTF_8).length
                + "\r\n\r\n" + body;
    }

    String url() {
        return "http://127.0.0.1:" + listener.getLocalPort();
    }

    @Override
    public void close() throws IOException {
        listener.close();
    }

    private void serve(Socket socket) throws IOException, InterruptedException {
        try (socket) {
            BufferedReader lines =
                    new BufferedReader(new InputStreamReader(socket.getInputStream(), UTF_8));
            String request = lines.readLine();
            requests.add(request);
            while (!lines.readLine().isEmpty()) {
                // The headers say nothing new.
            }
            byte[] answer = script.answer(request).getBytes(UTF_8);
            OutputStream output = socket.getOutputStream();
            for (int at = 0; millisPerByte > 0 && at < answer.length; at++) {
                Thread.sleep(millisPerByte);
                output.write(answer[at]);
            }
            if (millisPerByte == 0) {
                output.write(answer);
            }
        }
    }

    private interface Task {
        void run() throws IOException, InterruptedException;
    }

    private static void start(Task task) {
        Thread thread = new Thread(() -> {
            try {
                task.run();
            } catch (IOException | InterruptedException closed) {
                // The client or the test has ended the connection.
            }
        });
        thread.setDaemon(true);
        thread.start();
    }
}
