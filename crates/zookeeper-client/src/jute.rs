//! Jute, ZooKeeper's serialization: big-endian numbers, and buffers with a length prefix.
//!
//! Pure. Start with [`Encoder`] and [`Decoder`]. Input is untrusted: a decoder never panics, and
//! never allocates memory for bytes that have not arrived.

use std::time::Duration;

/// Received bytes that violate the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// A record ends within a field.
    #[error("a record is too short")]
    TooShort,
    /// A length or count is out of range.
    #[error("invalid length: {0}")]
    Length(i32),
    /// A reply does not belong to the pending request.
    #[error("unexpected reply to request {0}")]
    UnexpectedReply(i32),
    /// A result in a transaction's reply belongs to another operation.
    #[error("unexpected result of operation {0}")]
    Operation(i32),
}

/// Writes a frame. [`Self::finish`] fills in the length at its start.
#[derive(Debug)]
pub struct Encoder(Vec<u8>);

impl Encoder {
    /// An empty frame.
    pub fn frame() -> Self {
        Self(vec![0; 4])
    }

    /// The complete frame.
    pub fn finish(mut self) -> Vec<u8> {
        let length = length_of(self.0.len() - 4);
        self.0[..4].copy_from_slice(&length.to_be_bytes());
        self.0
    }

    /// Appends a 32-bit number.
    pub fn int(&mut self, number: i32) -> &mut Self {
        self.bytes(&number.to_be_bytes())
    }

    /// Appends a 64-bit number.
    pub fn long(&mut self, number: i64) -> &mut Self {
        self.bytes(&number.to_be_bytes())
    }

    /// Appends a boolean.
    pub fn bool(&mut self, value: bool) -> &mut Self {
        self.bytes(&[value.into()])
    }

    /// Appends a buffer: its length, then its bytes.
    pub fn buffer(&mut self, bytes: &[u8]) -> &mut Self {
        self.int(length_of(bytes.len())).bytes(bytes)
    }

    /// Appends a string as UTF-8.
    pub fn text(&mut self, text: &str) -> &mut Self {
        self.buffer(text.as_bytes())
    }

    /// Appends a duration in milliseconds, at most `i32::MAX`.
    pub fn milliseconds(&mut self, duration: Duration) -> &mut Self {
        self.int(i32::try_from(duration.as_millis()).unwrap_or(i32::MAX))
    }

    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }
}

fn length_of(bytes: usize) -> i32 {
    i32::try_from(bytes).expect("a request is far below 2 GiB")
}

/// Reads a received record from its beginning.
#[derive(Debug)]
pub struct Decoder<'a>(&'a [u8]);

impl<'a> Decoder<'a> {
    /// A decoder of `record`.
    pub const fn new(record: &'a [u8]) -> Self {
        Self(record)
    }

    /// The bytes that have not been read.
    pub const fn rest(self) -> &'a [u8] {
        self.0
    }

    /// Reads a 32-bit number.
    pub fn int(&mut self) -> Result<i32, Malformed> {
        self.array().map(i32::from_be_bytes)
    }

    /// Reads a 64-bit number.
    pub fn long(&mut self) -> Result<i64, Malformed> {
        self.array().map(i64::from_be_bytes)
    }

    /// Reads a boolean.
    pub fn bool(&mut self) -> Result<bool, Malformed> {
        self.array().map(|[byte]| byte != 0)
    }

    /// Reads a buffer. A null buffer (length −1) is empty.
    pub fn buffer(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.length()?;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(Malformed::TooShort)?;
        self.0 = rest;
        Ok(bytes)
    }

    /// Reads a string. Servers refuse names that are not UTF-8; other bytes are replaced.
    pub fn text(&mut self) -> Result<String, Malformed> {
        self.buffer().map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    /// Reads a list, each item by `item`. A null list is empty.
    pub fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let length = self.length()?;
        // No `with_capacity`: the count is untrusted.
        let mut items = Vec::new();
        for _ in 0..length {
            items.push(item(self)?);
        }
        Ok(items)
    }

    fn length(&mut self) -> Result<usize, Malformed> {
        let length = self.int()?;
        if length == -1 {
            Ok(0)
        } else {
            usize::try_from(length).map_err(|_| Malformed::Length(length))
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (array, rest) = self.0.split_first_chunk().ok_or(Malformed::TooShort)?;
        self.0 = rest;
        Ok(*array)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoder_writes_what_decoder_reads() {
        let mut encoder = Encoder::frame();
        encoder
            .int(-2)
            .long(0x1_0000_0004)
            .bool(true)
            .text("é")
            .buffer(&[])
            .milliseconds(Duration::from_secs(15));
        let frame = encoder.finish();
        let expected = [
            &[0, 0, 0, 27][..],
            &[0xff, 0xff, 0xff, 0xfe],
            &[0, 0, 0, 1, 0, 0, 0, 4],
            &[1],
            &[0, 0, 0, 2, 0xc3, 0xa9],
            &[0, 0, 0, 0],
            &[0, 0, 0x3a, 0x98],
        ];
        assert_eq!(frame, expected.concat());

        let mut decoder = Decoder::new(&frame[4..]);
        assert_eq!(
            (decoder.int(), decoder.long(), decoder.bool()),
            (Ok(-2), Ok(0x1_0000_0004), Ok(true))
        );
        assert_eq!(
            (decoder.text(), decoder.buffer(), decoder.int()),
            (Ok("é".to_owned()), Ok(&[][..]), Ok(15_000))
        );
        assert_eq!((decoder.int(), decoder.rest()), (Err(Malformed::TooShort), &[][..]));
    }

    #[test]
    fn null_is_empty_and_invalid_length_fails() {
        let read = |bytes: [u8; 4]| Decoder::new(&bytes).buffer().map(<[u8]>::to_vec);
        assert_eq!(read([0xff; 4]), Ok(Vec::new()));
        assert_eq!(read([0xff, 0xff, 0xff, 0xfe]), Err(Malformed::Length(-2)));
        assert_eq!(read([0x7f, 0xff, 0xff, 0xff]), Err(Malformed::TooShort), "without allocating");
        let names = Decoder::new(&[0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 1, b'a']).list(Decoder::text);
        assert_eq!(names, Err(Malformed::TooShort));
    }
}
