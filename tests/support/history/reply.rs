//! What came back to `GET /leader`, word for word: whoever asked understands nothing of it, the judge does.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// The header of that name.
    pub(crate) fencing_token: Option<String>,
    pub(crate) body: String,
}
