package baton.client;

import java.io.IOException;
import java.util.HashMap;
import java.util.Map;

/**
 * A strict reader of one JSON object (RFC 8259), because the JDK has none.
 *
 * <p>Strings become {@link String}, numbers {@link Number}, true and false {@link Boolean}, and
 * null stays null. Nested values, which later sidecars may add, are checked and become maps. All
 * else is refused: text after the object, a name that occurs twice, nesting beyond 16 levels.
 */
final class Json {
    /** A number as it was written. */
    record Number(String text) {}

    private static final int MAX_DEPTH = 16;

    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    /** Reads {@code text}, which must hold one object and nothing else. */
    static Map<String, Object> object(String text) throws IOException {
        Json json = new Json(text);
        json.expect('{');
        Map<String, Object> fields = json.members('}', 1);
        json.peek();
        json.require(json.at == text.length());
        return fields;
    }

    private Object value(int depth) throws IOException {
        require(depth <= MAX_DEPTH);
        if (accept('{')) {
            return members('}', depth);
        }
        if (accept('[')) {
            return members(']', depth);
        }
        return peek() == '"' ? string() : word();
    }

    /** The members of an object, or of an array by their position. */
    private Map<String, Object> members(char close, int depth) throws IOException {
        Map<String, Object> members = new HashMap<>();
        if (accept(close)) {
            return members;
        }
        do {
            String name = String.valueOf(members.size());
            if (close == '}') {
                name = string();
                expect(':');
            }
            require(!members.containsKey(name));
            members.put(name, value(depth + 1));
        } while (accept(','));
        expect(close);
        return members;
    }

    private String string() throws IOException {
        expect('"');
        StringBuilder string = new StringBuilder();
        for (char next = character(); next != '"'; next = character()) {
            require(next >= ' ');
            string.append(next == '\\' ? escaped() : next);
        }
        return string.toString();
    }

    private char escaped() throws IOException {
        char next = character();
        if (next != 'u') {
            int known = "\"\\/bfnrt".indexOf(next);
            require(known >= 0);
            return "\"\\/\b\f\n\r\t".charAt(known);
        }
        int unit = 0;
        for (int i = 0; i < 4; i++) {
            int digit = "0123456789abcdef".indexOf(Character.toLowerCase(character()));
            require(digit >= 0);
            unit = unit * 16 + digit;
        }
        return (char) unit;
    }

    /** A number, true, false, or null. */
    private Object word() throws IOException {
        int from = at;
        while (at < text.length() && " \t\r\n,]}".indexOf(text.charAt(at)) < 0) {
            at++;
        }
        String word = text.substring(from, at);
        if (word.equals("true") || word.equals("false") || word.equals("null")) {
            return word.equals("null") ? null : word.equals("true");
        }
        require(word.matches("-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][-+]?[0-9]+)?"));
        return new Number(word);
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

    private void expect(char expected) throws IOException {
        require(accept(expected));
    }

    private void require(boolean isJson) throws IOException {
        if (!isJson) {
            throw new IOException("this is no JSON object: refused at character " + at);
        }
    }
}
