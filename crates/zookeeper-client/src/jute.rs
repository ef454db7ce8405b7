//! ZooKeeper's serialization: big-endian numbers, and buffers behind their lengths.
//!
//! Pure. What is read may be anything: a reader never panics, and never sets memory aside for a length that it was
//! merely told.

use std::time::Duration;

/// What was received is not what the protocol says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// A record ends within a field.
    #[error("a record ends too early")]
    TooShort,
    /// A count or a length that cannot be one.
    #[error("{0} is no length")]
    Length(i32),
    /// An answer to something that was not asked, or not yet.
    #[error("an answer to request {0}, which is not the one that waits for it")]
    Unasked(i32),
    /// Of several answers, one to something else.
    #[error("an answer to operation {0} where another one was asked for")]
    Operation(i32),
}

/// A frame in the making: its length first, known at the end.
#[derive(Debug)]
pub struct Writer(Vec<u8>);

impl Writer {
    /// An empty frame.
    pub fn frame() -> Self {
        Self(vec![0; 4])
    }

    /// The frame, whole.
    pub fn finish(mut self) -> Vec<u8> {
        let length = length_of(self.0.len() - 4);
        self.0[..4].copy_from_slice(&length.to_be_bytes());
        self.0
    }

    /// Appends a number of 32 bits.
    pub fn int(&mut self, number: i32) -> &mut Self {
        self.bytes(&number.to_be_bytes())
    }

    /// Appends a number of 64 bits.
    pub fn long(&mut self, number: i64) -> &mut Self {
        self.bytes(&number.to_be_bytes())
    }

    /// Appends a truth value.
    pub fn bool(&mut self, value: bool) -> &mut Self {
        self.bytes(&[value.into()])
    }

    /// Appends a length and as many bytes: a buffer, or a text in UTF-8.
    pub fn buffer(&mut self, bytes: &[u8]) -> &mut Self {
        self.int(length_of(bytes.len())).bytes(bytes)
    }

    /// Appends a text.
    pub fn text(&mut self, text: &str) -> &mut Self {
        self.buffer(text.as_bytes())
    }

    /// Appends a duration as the milliseconds that the protocol has room for.
    pub fn milliseconds(&mut self, duration: Duration) -> &mut Self {
        self.int(i32::try_from(duration.as_millis()).unwrap_or(i32::MAX))
    }

    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }
}

fn length_of(bytes: usize) -> i32 {
    i32::try_from(bytes).expect("what we send is far below 2 GiB")
}

/// A received record, read from its beginning.
#[derive(Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Reads `record`.
    pub const fn new(record: &'a [u8]) -> Self {
        Self(record)
    }

    /// The rest, unread.
    pub const fn rest(self) -> &'a [u8] {
        self.0
    }

    /// The next number of 32 bits.
    pub fn int(&mut self) -> Result<i32, Malformed> {
        self.array().map(i32::from_be_bytes)
    }

    /// The next number of 64 bits.
    pub fn long(&mut self) -> Result<i64, Malformed> {
        self.array().map(i64::from_be_bytes)
    }

    /// The next truth value.
    pub fn bool(&mut self) -> Result<bool, Malformed> {
        self.array().map(|[byte]| byte != 0)
    }

    /// The next buffer; an absent one (length −1) is empty.
    pub fn buffer(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.length()?;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(Malformed::TooShort)?;
        self.0 = rest;
        Ok(bytes)
    }

    /// The next text. Servers keep what is not UTF-8 out of names.
    pub fn text(&mut self) -> Result<String, Malformed> {
        self.buffer().map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    /// The next list, each item read by `item`; an absent one is empty.
    pub fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let length = self.length()?;
        // Not `with_capacity`: the count is only a claim until the items are there.
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
    fn a_frame_is_what_the_protocol_writes() {
        let mut writer = Writer::frame();
        writer
            .int(-2)
            .long(0x1_0000_0004)
            .bool(true)
            .text("é")
            .buffer(&[])
            .milliseconds(Duration::from_secs(15));
        let frame = writer.finish();
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

        let mut reader = Reader::new(&frame[4..]);
        assert_eq!(
            (reader.int(), reader.long(), reader.bool()),
            (Ok(-2), Ok(0x1_0000_0004), Ok(true))
        );
        assert_eq!(
            (reader.text(), reader.buffer(), reader.int()),
            (Ok("é".to_owned()), Ok(&[][..]), Ok(15_000))
        );
        assert_eq!((reader.int(), reader.rest()), (Err(Malformed::TooShort), &[][..]));
    }

    #[test]
    fn what_is_absent_is_empty_and_what_is_no_length_is_refused() {
        let read = |bytes: [u8; 4]| Reader::new(&bytes).buffer().map(<[u8]>::to_vec);
        assert_eq!(read([0xff; 4]), Ok(Vec::new()));
        assert_eq!(read([0xff, 0xff, 0xff, 0xfe]), Err(Malformed::Length(-2)));
        assert_eq!(
            read([0x7f, 0xff, 0xff, 0xff]),
            Err(Malformed::TooShort),
            "and nothing is set aside for it"
        );
        let names = Reader::new(&[0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 1, b'a']).list(Reader::text);
        assert_eq!(names, Err(Malformed::TooShort));
    }
}
