package baton.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class JsonTest {
    @Test
    void readsEveryKindOfValue() throws IOException {
        Map<String, String> expected = Map.of("text", "\"a\\\"\\\\\\/\\b\\f\\n\\r\\té\\u20aC\"",
                "number", "-1.5e+3", "yes", "true", "no", "false", "nothing", "null",
                "nested", "[ { \"a\" : 0 } , [ ] ]");
        assertEquals(expected, Json.object(
                " { \"text\" : \"a\\\"\\\\\\/\\b\\f\\n\\r\\té\\u20aC\",\r\n"
                + "\"number\":-1.5e+3,\"yes\":true,\"no\":false,\"nothing\":null,"
                + "\"nested\" : [ { \"a\" : 0 } , [ ] ] } \n"));
        assertEquals(Map.of(), Json.object("{}"));
    }

    @ParameterizedTest
    @ValueSource(strings = {
        "", " ", "null", "[]", "{", "}", "{}}", "{} x", "{,}", "{\"a\"}", "{\"a\":}", "{\"a\":1,}",
        "{\"a\":1 \"b\":2}", "{\"a\":1,\"a\":1}", "{a:1}", "{'a':1}", "{\"a\":01}", "{\"a\":+1}",
        "{\"a\":.5}", "{\"a\":1.}", "{\"a\":NaN}", "{\"a\":True}", "{\"a\":truex}", "{\"a\":\"b}",
        "{\"a\":\"\n\"}", "{\"a\":\"\\x\"}", "{\"a\":\"\\u12", "{\"a\":\"\\",
        "{\"a\":[1,]}", "{\"a\":[1}", "{\"a\":{\"b\":1,\"b\":2}}", "\uFEFF{}", "{\"a\":1}\0"
    })
    void refusesAllElse(String text) {
        assertThrows(IOException.class, () -> Json.object(text));
    }

    @Test
    void refusesDeepNestingWithoutAStackOverflow() {
        assertThrows(IOException.class, () -> Json.object("{\"a\":" + "[".repeat(60_000)));
    }
}
