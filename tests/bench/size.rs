//! The size of the program.

use crate::Result;
use crate::server::BATON;
use crate::table::{Row, Unit};
use std::fs;

pub(crate) fn measure() -> Result<Vec<Row>> {
    let bytes = u32::try_from(fs::metadata(BATON)?.len())?;
    Ok(vec![
        Row::new("size of the stripped program", Unit::Megabytes, f64::from(bytes) / 1e6)
            .target(7.0),
    ])
}
