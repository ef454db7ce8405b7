//! Bytes as they arrive, cut into frames: each is as long as the four bytes before it say.
//!
//! Pure. What arrives may be anything, and nothing is set aside for a length that was merely told.

/// The longest frame that is read, in bytes: four times what servers accept, and room for the names of 50,000
/// candidates.
const LONGEST: usize = 4 << 20;

/// What has arrived and was not yet taken.
#[derive(Debug, Default)]
pub struct Frames(Vec<u8>);

/// A length that no frame has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the server announces a frame of {0} bytes, and none is longer than 4 MiB")]
pub struct NoFrame(i32);

impl Frames {
    /// Takes in what has arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// The next frame's body, once all of it is there.
    pub fn pop(&mut self) -> Result<Option<Vec<u8>>, NoFrame> {
        let Some((told, behind)) = self.0.split_first_chunk() else {
            return Ok(None);
        };
        let told = i32::from_be_bytes(*told);
        let length =
            usize::try_from(told).ok().filter(|length| *length <= LONGEST).ok_or(NoFrame(told))?;
        if behind.len() < length {
            return Ok(None);
        }
        let body = behind[..length].to_vec();
        self.0.drain(..4 + length);
        Ok(Some(body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_whole_however_they_arrive() {
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
    fn a_length_that_cannot_be_is_refused_before_the_rest_arrives() {
        for (told, bytes) in [(-1, [0xff; 4]), (4 << 20 | 1, [0, 0x40, 0, 1])] {
            let mut frames = Frames::default();
            frames.push(&bytes);
            assert_eq!(frames.pop(), Err(NoFrame(told)));
        }
    }
}
