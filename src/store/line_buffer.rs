//! The received part of a stream of lines.
//!
//! Pure. Start with [`LineBuffer::take_line`]. A server may send many lines at once, or a line in
//! many pieces, so a line is copied once, and its bytes are searched once.

/// Bytes received and not returned yet.
#[derive(Debug, Default)]
pub(super) struct LineBuffer {
    bytes: Vec<u8>,
    /// Where the next line starts.
    start: usize,
    /// Where the search for its end continues.
    searched: usize,
}

impl LineBuffer {
    /// The next complete line with its newline, if there is one.
    pub(super) fn take_line(&mut self) -> Option<Vec<u8>> {
        let unsearched = &self.bytes[self.searched..];
        let Some(length) = unsearched.iter().position(|byte| *byte == b'\n') else {
            self.searched = self.bytes.len();
            return None;
        };
        let end = self.searched + length + 1;
        let line = self.bytes[self.start..end].to_vec();
        (self.start, self.searched) = (end, end);
        Some(line)
    }

    /// Appends received bytes.
    pub(super) fn extend(&mut self, received: &[u8]) {
        self.bytes.drain(..self.start);
        self.searched -= self.start;
        self.start = 0;
        self.bytes.extend_from_slice(received);
    }

    /// How many bytes wait to be returned.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// The bytes that wait to be returned.
    pub(super) fn take_rest(&mut self) -> Vec<u8> {
        let rest = self.bytes.split_off(self.start);
        *self = Self::default();
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(buffer: &mut LineBuffer) -> Vec<String> {
        let lines = std::iter::from_fn(|| buffer.take_line());
        lines.map(|line| String::from_utf8(line).expect("the tests send text")).collect()
    }

    #[test]
    fn lines_are_the_same_however_they_arrive() {
        let sent = b"a\n\nbcd\ne";
        for length in 1..=sent.len() {
            let mut buffer = LineBuffer::default();
            let mut received = Vec::new();
            for piece in sent.chunks(length) {
                buffer.extend(piece);
                received.extend(lines(&mut buffer));
            }
            assert_eq!(received, ["a\n", "\n", "bcd\n"], "in pieces of {length} bytes");
            assert_eq!((buffer.len(), buffer.take_rest()), (1, b"e".to_vec()));
            assert_eq!(buffer.len(), 0);
        }
    }
}
