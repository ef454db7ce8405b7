//! The state of one EndpointSlice as of the last reply.
//!
//! Pure. Start with [`Known`].

use super::plan::Call;
use crate::kubernetes::endpoint_slice::{Content, SliceObject};
use baton_election::claim::FencingToken;
use std::net::IpAddr;

/// The slice as of the last reply.
#[derive(Debug, Clone)]
pub(super) enum Known {
    Absent,
    Slice(Box<SliceObject>),
}

/// The state that a write replaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Over {
    Absent,
    Version(String),
}

impl Known {
    pub(super) fn state(&self) -> Over {
        match self {
            Self::Absent => Over::Absent,
            Self::Slice(slice) => Over::Version(slice.version().to_owned()),
        }
    }

    /// The call that writes `content` over this state.
    pub(super) fn replaced_by(&self, content: Content) -> Call {
        match self {
            Self::Absent => Call::Create(content),
            Self::Slice(slice) => Call::Replace(slice.clone(), content),
        }
    }

    /// Whether the slice leads to one of `addresses`, written in the term of `token` or an earlier
    /// one.
    pub(super) fn holds(&self, token: FencingToken, addresses: &[IpAddr]) -> bool {
        match self {
            Self::Absent => false,
            Self::Slice(slice) => {
                let Content { token: found, addresses: endpoints, .. } = &slice.content;
                found.is_some_and(|found| found <= token)
                    && endpoints.iter().flatten().any(|found| addresses.contains(found))
            }
        }
    }
}
