//! Cuts received bytes into frames, each preceded by its length in four bytes.
//!
//! Pure. Start with [`Frames`]. The bytes are untrusted: memory grows with what has arrived, not
//! with the announced length.

/// The longest accepted frame, in bytes: four times the longest request that servers accept, and
/// enough for the names of 50,000 children.
const MAX_FRAME_BYTES: usize = 4 << 20;

/// Bytes that have arrived and not been taken.
#[derive(Debug, Default)]
pub struct Frames(Vec<u8>);

/// An announced frame length that is negative or too large.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the server announced a frame of {0} bytes, and the limit is 4 MiB")]
pub struct InvalidFrameLength(i32);

impl Frames {
    /// Appends bytes that have arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Takes the body of the next frame, once it is complete.
    pub fn pop(&mut self) -> Result<Option<Vec<u8>>, InvalidFrameLength> {
        let Some((announced, rest)) = self.0.split_first_chunk() else {
            return Ok(None);
        };
        let announced = i32::from_be_bytes(*announced);
        let length = usize::try_from(announced)
            .ok()
            .filter(|length| *length <= MAX_FRAME_BYTES)
            .ok_or(InvalidFrameLength(announced))?;
        if rest.len() < length {
            return Ok(None);
        }
        let body = rest[..length].to_vec();
        self.0.drain(..4 + length);
        Ok(Some(body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_whole_however_bytes_arrive() {
        let bytes = [0, 0, 0, 2, b'a', b'b', 0, 0, 0, 0, 0, 0, 0, 1, b'c', 0];
        for step in 1..bytes.len() {
            let mut frames = Frames::default();
            let mut out = Vec::new();
            for part in bytes.chunks(step) {
                frames.push(part);
                out.extend(std::iter::from_fn(|| frames.pop().unwrap()));
            }
            assert_eq!(out, [&b"ab"[..], b"", b"c"], "in steps of {step}");
        }
    }

    #[test]
    fn invalid_length_fails_before_the_body_arrives() {
        for (announced, bytes) in [(-1, [0xff; 4]), (4 << 20 | 1, [0, 0x40, 0, 1])] {
            let mut frames = Frames::default();
            frames.push(&bytes);
            assert_eq!(frames.pop(), Err(InvalidFrameLength(announced)));
        }
    }
}
