//! The names that the workers of one application poll under.
//!
//! Pure. Start with [`AskerNames::name`].

use crate::trace::Worker;
use baton_election::leadership::Asker;

/// The name of the last named worker. It lasts for a whole piece of work, so it is not formatted
/// for each poll.
#[derive(Clone, Default, Debug)]
pub(crate) struct AskerNames {
    last: Option<(u32, Asker)>,
}

impl AskerNames {
    /// The name that `worker` polls under; `None` for the anonymous one.
    pub(crate) fn name(&mut self, worker: Worker) -> Option<&Asker> {
        let Worker::Named(piece) = worker else { return None };
        if self.last.as_ref().is_none_or(|(last, _)| *last != piece) {
            self.last = Asker::parse(&piece.to_string()).ok().map(|name| (piece, name));
        }
        self.last.as_ref().map(|(_, name)| name)
    }
}
