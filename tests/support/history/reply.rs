//! The unparsed response to `GET /leader`; the checker parses it.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// The `fencing-token` header.
    pub(crate) fencing_token: Option<String>,
    pub(crate) body: String,
}
