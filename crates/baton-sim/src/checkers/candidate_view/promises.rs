//! The promises to the workers of one application.
//!
//! Pure. Start with [`Promises::add`].

use crate::clock::Moment;
use crate::trace::Worker;
use baton_election::instant::Instant;

/// The number of workers of an application.
const WORKERS: usize = 4;
const NAMED: usize = 0;
const ANONYMOUS: usize = 1;
const WAITING: usize = 2;
const FILE_READER: usize = 3;

/// The promises to the workers of one application.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Promises {
    /// For each worker, when the last promise expires, and when the write that backs it was
    /// applied.
    latest: [Option<(Instant, Option<Moment>)>; WORKERS],
    /// For each worker, when the last promise of this process expires.
    own: [Option<Instant>; WORKERS],
    /// How many pieces of work the named worker has finished.
    finished_pieces: u32,
    /// When it finished the last one, which may make promises end early.
    finished_at: Option<Instant>,
}

impl Promises {
    /// The promises after a restart of the process: its workers live on.
    pub(super) fn of_restarted(self) -> Self {
        Self { own: [None; WORKERS], ..self }
    }

    /// The longest promise: when it expires, and when the write that backs it was applied.
    pub(super) fn longest(&self) -> Option<(Instant, Option<Moment>)> {
        self.latest.iter().copied().flatten().max_by_key(|(until, _)| *until)
    }

    /// When the named worker last finished a piece of work.
    pub(super) const fn finished_at(&self) -> Option<Instant> {
        self.finished_at
    }

    /// When the last promise of this process expires.
    pub(super) fn own(&self) -> Option<Instant> {
        self.own.into_iter().max().flatten()
    }

    /// Adds a promise until `until`, which a write backs that was applied at `applied_at`. A worker
    /// ignores it if its piece of work is finished.
    pub(super) fn add(&mut self, worker: Worker, until: Instant, applied_at: Option<Moment>) {
        let worker = match worker {
            Worker::Named(piece) if piece < self.finished_pieces => return,
            Worker::Named(_) => NAMED,
            Worker::Anonymous => ANONYMOUS,
            Worker::Waiting => WAITING,
            Worker::FileReader => FILE_READER,
        };
        if self.latest[worker].is_none_or(|(other, _)| other < until) {
            self.latest[worker] = Some((until, applied_at));
        }
        self.own[worker] = self.own[worker].max(Some(until));
    }

    /// The named worker has finished this piece of work, and acts no more on its promises.
    pub(super) const fn finish_work(&mut self, piece: u32, at: Instant) {
        (self.finished_pieces, self.finished_at) = (piece + 1, Some(at));
        (self.latest[NAMED], self.own[NAMED]) = (None, None);
    }
}
