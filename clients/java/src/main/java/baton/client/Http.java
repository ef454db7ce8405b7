package baton.client;

import static java.nio.charset.StandardCharsets.ISO_8859_1;

import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.net.UnknownHostException;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import java.util.Arrays;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A minimal HTTP/1.1 client for one server: no proxy, no redirect, no chunks. Start with
 * {@link #send}.
 *
 * <p>Each request has a connection of its own, which is closed after the answer, a timeout, or an
 * interrupt of the thread. So a late answer is never read as the next one. The JDK's clients do not
 * suffice: the timeout of {@code java.net.http} covers only the head of an answer, and the one of
 * {@link java.net.HttpURLConnection} starts anew with each byte.
 */
final class Http {
    /** A whole response, and when its request was sent. */
    record Response(Deadline sent, int status, byte[] body) {}

    private record Head(int status, int bodyStart, int bodyEnd) {}

    private static final int MAX_HEAD_BYTES = 16 << 10;
    private static final int MAX_BODY_BYTES = 64 << 10;
    private static final Pattern URL =
            Pattern.compile("http://([^/?#@:\\[]+|\\[[0-9a-fA-F:.]+])(?::([0-9]{1,5}))?/?");
    private static final int MAX_PORT = 65535;
    private static final Pattern STATUS = Pattern.compile("HTTP/1\\.[01] ([1-5][0-9]{2})(?= |\r)");
    private static final Pattern LENGTH =
            Pattern.compile("(?im)^content-length:[ \t]*([0-9]{1,9})[ \t]*$");

    private final String host;
    private final int port;

    /** Accepts {@code http://HOST[:PORT]}. */
    Http(String url) {
        Matcher origin = URL.matcher(url);
        boolean isUrl = origin.matches();
        port = !isUrl || origin.group(2) == null ? 80 : Integer.parseInt(origin.group(2));
        if (!isUrl || port > MAX_PORT) {
            throw new IllegalArgumentException(
                    "not the URL of a sidecar: " + url + ": write http://HOST:PORT (BATON_URL)");
        }
        host = origin.group(1);
    }

    /** Sends a request without a body, and reads the whole response within {@code timeout}. */
    Response send(String method, String target, Duration timeout) throws IOException {
        long until = System.nanoTime() + timeout.toNanos();
        String head = method + " " + target + " HTTP/1.1\r\n"
                + "Host: " + host + ":" + port + "\r\n"
                + "Connection: close\r\n"
                + (method.equals("POST") ? "Baton-Request: 1\r\nContent-Length: 0\r\n" : "")
                + "\r\n";
        try (Socket socket = connect(until)) {
            Deadline sent = Deadline.now();
            socket.getOutputStream().write(head.getBytes(ISO_8859_1));
            return read(socket, until, sent);
        }
    }

    /** Tries each address: {@code localhost} has two, and a sidecar may listen on one of them. */
    private Socket connect(long until) throws IOException {
        IOException refusal = new UnknownHostException(host);
        for (InetAddress address : InetAddress.getAllByName(host)) {
            // The socket of a channel, because an interrupt of this thread closes it.
            Socket socket = SocketChannel.open().socket();
            try {
                socket.connect(new InetSocketAddress(address, port), millisUntil(until));
                return socket;
            } catch (IOException error) {
                socket.close();
                refusal = error;
            }
        }
        throw refusal;
    }

    private static Response read(Socket socket, long until, Deadline sent)
            throws IOException {
        InputStream input = socket.getInputStream();
        byte[] bytes = new byte[MAX_HEAD_BYTES + MAX_BODY_BYTES];
        int length = 0;
        Head head = null;
        while (head == null || length < head.bodyEnd) {
            socket.setSoTimeout(millisUntil(until));
            int read = input.read(bytes, length, bytes.length - length);
            if (read <= 0) {
                throw new IOException("the answer is cut off, or its head is too long");
            }
            length += read;
            head = head == null ? head(new String(bytes, 0, length, ISO_8859_1)) : head;
        }
        byte[] body = Arrays.copyOfRange(bytes, head.bodyStart, head.bodyEnd);
        return new Response(sent, head.status, body);
    }

    /** Reads the head, or returns null if it has not arrived as a whole. */
    private static Head head(String text) throws IOException {
        int end = text.indexOf("\r\n\r\n");
        if (end < 0) {
            return null;
        }
        Matcher status = STATUS.matcher(text);
        Matcher length = LENGTH.matcher(text.substring(0, end));
        // A body of unknown length counts as empty: if it were cut off, it would look whole.
        int bodyLength = length.find() ? Integer.parseInt(length.group(1)) : 0;
        if (!status.lookingAt() || end > MAX_HEAD_BYTES || bodyLength > MAX_BODY_BYTES) {
            throw new IOException("the answer is not HTTP as a sidecar speaks it");
        }
        return new Head(Integer.parseInt(status.group(1)), end + 4, end + 4 + bodyLength);
    }

    /** At least one: zero would mean no timeout. */
    private static int millisUntil(long until) throws SocketTimeoutException {
        long millis = TimeUnit.NANOSECONDS.toMillis(until - System.nanoTime());
        if (millis < 1) {
            throw new SocketTimeoutException("no answer in time");
        }
        return (int) Math.min(millis, Integer.MAX_VALUE);
    }
}
