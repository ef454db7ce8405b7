//! Writes JSON, for the lab's page and for trace files.
//!
//! Pure. Start with [`Json`]. Moments are whole nanoseconds, which a page reads exactly for the
//! first 104 days of a run.

use crate::clock::Moment;
use crate::rng::nanos;
use std::fmt::{Display, Write as _};

/// A JSON text that grows from left to right.
#[derive(Debug, Default)]
pub struct Json {
    text: String,
    needs_comma: bool,
}

impl Json {
    /// The text so far.
    pub fn into_text(self) -> String {
        self.text
    }

    /// An object with the members that `write` adds.
    pub fn object(&mut self, write: impl FnOnce(&mut Self)) -> &mut Self {
        self.nested('{', '}', write)
    }

    /// An array with the elements that `write` adds.
    pub fn array(&mut self, write: impl FnOnce(&mut Self)) -> &mut Self {
        self.nested('[', ']', write)
    }

    /// The key of the next value.
    pub fn key(&mut self, key: &str) -> &mut Self {
        self.string(key);
        self.text.push(':');
        self.needs_comma = false;
        self
    }

    /// A string.
    pub fn string(&mut self, value: &str) -> &mut Self {
        self.separate();
        self.text.push('"');
        for character in value.chars() {
            match character {
                '"' | '\\' => self.text.extend(['\\', character]),
                '\n' => self.text.push_str("\\n"),
                control if control < ' ' => {
                    write!(self.text, "\\u{:04x}", u32::from(control))
                        .expect("writing to a string cannot fail");
                }
                other => self.text.push(other),
            }
        }
        self.text.push('"');
        self
    }

    /// A number, a boolean, or anything else whose `Display` is JSON.
    pub fn value(&mut self, value: impl Display) -> &mut Self {
        self.separate();
        write!(self.text, "{value}").expect("writing to a string cannot fail");
        self
    }

    /// `value`, or `null`.
    pub fn option(&mut self, value: Option<impl Display>) -> &mut Self {
        match value {
            Some(value) => self.value(value),
            None => self.value("null"),
        }
    }

    /// A moment in nanoseconds; `null` for [`Moment::NEVER`].
    pub fn moment(&mut self, moment: Moment) -> &mut Self {
        let known = Some(moment).filter(|moment| *moment != Moment::NEVER);
        self.option(known.map(|moment| nanos(moment.since(Moment::START))))
    }

    fn nested(&mut self, open: char, close: char, write: impl FnOnce(&mut Self)) -> &mut Self {
        self.separate();
        self.text.push(open);
        self.needs_comma = false;
        write(self);
        self.text.push(close);
        self.needs_comma = true;
        self
    }

    fn separate(&mut self) {
        if self.needs_comma {
            self.text.push(',');
        }
        self.needs_comma = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn nested_values_are_separated_and_escaped() {
        let mut json = Json::default();
        json.object(|json| {
            json.key("a\"\n\u{1}").array(|json| {
                json.value(1).value(true).option(None::<u8>);
                json.moment(Moment::START + Duration::from_micros(2)).moment(Moment::NEVER);
            });
            json.key("b").object(|_| {}).key("c").array(|_| {});
        });
        let expected = r#"{"a\"\n\u0001":[1,true,null,2000,null],"b":{},"c":[]}"#;
        assert_eq!(json.into_text(), expected);
    }
}
