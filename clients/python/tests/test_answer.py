"""What an answer means. Run by `python -m unittest discover tests`, with `src` in PYTHONPATH."""

import json
import unittest

from baton._answer import MAX_TOKEN, now, read

LEADING = {"standing": "leading", "is_leader": True, "token": "7", "valid_for_ms": 8000}


def body(**fields):
    return json.dumps(LEADING | fields).encode()


class AnswerTest(unittest.TestCase):
    def test_promise_counts_from_before_the_request(self):
        asked = now() - 4
        answer = read(200, body(), asked)
        self.assertEqual((answer.token, answer.until), (7, asked + 8))
        self.assertTrue(0 < answer.remaining() <= 4)
        self.assertFalse(read(200, body(), now() - 8).is_leading())

    def test_tokens_have_up_to_128_bits(self):
        self.assertEqual(read(200, body(token=str(MAX_TOKEN)), 0).token, MAX_TOKEN)
        for token in [str(MAX_TOKEN + 1), "", "-7", "+7", " 7", "7\n", "1_0", "\u0667", 7, None]:
            self.assertIsNone(read(200, body(token=token), 0).token, token)

    def test_anything_else_is_no_promise(self):
        for fields in [
            {"is_leader": "true"},
            {"is_leader": 1},
            {"standing": "resigning"},
            {"valid_for_ms": True},
            {"valid_for_ms": 0},
            {"valid_for_ms": 1.5},
        ]:
            self.assertIsNone(read(200, body(**fields), 0).token, fields)
        for text in [b"", b"{", b"null", b"[]", b"\xff", b"[" * 60000]:
            self.assertIsNone(read(200, text, 0).token, text[:10])

    def test_only_503_refuses(self):
        self.assertTrue(read(503, body(), 0).refuses)
        self.assertFalse(read(500, body(), 0).refuses)
        self.assertIsNone(read(503, body(), 0).token)


if __name__ == "__main__":
    unittest.main()
