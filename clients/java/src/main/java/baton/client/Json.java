package baton.client;

import java.io.IOException;
import java.util.HashMap;
import java.util.Map;

/**
 * A reader of one JSON object (RFC 8259), because the JDK has none.
 *
 * <p>Values stay as they were written: a sidecar's answer needs no unescaping. Nested values are
 * checked too, because later sidecars may add some. Refused are text after the object, a name that
 * is written twice, and nesting beyond 16 levels.
 */
final class Json {
    private static final int MAX_DEPTH = 16;

    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    /** Reads {@code text}, which must hold one object and nothing else. */
    static Map<String, String> object(String text) throws IOException {
        Json json = new Json(text);
        Map<String, String> fields = json.members('{', '}', MAX_DEPTH);
        json.peek();
        json.require(json.at == text.length());
        return fields;
    }

    /** The members of an object by their names, or of an array by their positions. */
    private Map<String, String> members(char open, char close, int depth) throws IOException {
        require(depth > 0 && accept(open));
        Map<String, String> members = new HashMap<>();
        if (accept(close)) {
            return members;
        }
        do {
            String name = close == '}' ? string() : String.valueOf(members.size());
            require(close == ']' || accept(':'));
            require(members.put(name, value(depth)) == null);
        } while (accept(','));
        require(accept(close));
        return members;
    }

    private String value(int depth) throws IOException {
        char next = peek();
        int from = at;
        switch (next) {
            case '{' -> members('{', '}', depth - 1);
            case '[' -> members('[', ']', depth - 1);
            case '"' -> string();
            default -> word();
        }
        return text.substring(from, at);
    }

    private String string() throws IOException {
        require(accept('"'));
        int from = at;
        for (char next = character(); next != '"'; next = character()) {
            // The four digits of a Unicode escape are not checked.
            require(next >= ' ' && (next != '\\' || "\"\\/bfnrtu".indexOf(character()) >= 0));
        }
        return text.substring(from, at - 1);
    }

    /** A number, true, false, or null. */
    private void word() throws IOException {
        int from = at;
        while (at < text.length() && " \t\r\n,]}".indexOf(text.charAt(at)) < 0) {
            at++;
        }
        require(text.substring(from, at).matches(
                "true|false|null|-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][-+]?[0-9]+)?"));
    }

    private char character() throws IOException {
        require(at < text.length());
        return text.charAt(at++);
    }

    /** Skips white space, and returns the next character, or NUL at the end. */
    private char peek() {
        while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
        return at < text.length() ? text.charAt(at) : '\0';
    }

    private boolean accept(char expected) {
        boolean isNext = peek() == expected;
        at += isNext ? 1 : 0;
        return isNext;
    }

    private void require(boolean isJson) throws IOException {
        if (!isJson) {
            throw new IOException("this is no JSON object: refused at character " + at);
        }
    }
}
