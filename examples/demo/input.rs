//! The demo's input: output of its children, observations over HTTP, and keys.
//!
//! It touches tokio's signals and channels. Start with [`Update`].

use crate::observer::{Journal, Observation};
use std::io;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::Sender;
use tokio::task::JoinSet;

/// One input.
#[derive(Debug)]
pub(crate) enum Update {
    /// A line of a child's output.
    Line(Source, String),
    /// The latest observation of a candidate, or `None` if it did not answer.
    Observation(usize, Option<Observation>),
    Journal(Journal),
    Key(Key),
}

/// The child that wrote a line.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Source {
    Server,
    Ledger,
    Candidate(usize),
    Application(usize),
}

/// A key that the demo understands.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Key {
    Leader(Action),
    Resume,
    Quit,
}

/// An action on the leader.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Action {
    Kill,
    Pause,
    Stop,
}

impl Key {
    pub(crate) fn from_letter(letter: char) -> Option<Self> {
        match letter {
            'k' => Some(Self::Leader(Action::Kill)),
            'p' => Some(Self::Leader(Action::Pause)),
            's' => Some(Self::Leader(Action::Stop)),
            'r' => Some(Self::Resume),
            'q' => Some(Self::Quit),
            _ => None,
        }
    }
}

/// Turns the signals that would end the demo into the quit key, so that it stops its children
/// first.
pub(crate) fn quit_on_signals(tasks: &mut JoinSet<()>, updates: &Sender<Update>) -> io::Result<()> {
    for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
        let mut signal = signal(kind)?;
        let updates = updates.clone();
        tasks.spawn(async move {
            signal.recv().await;
            updates.send(Update::Key(Key::Quit)).await.ok();
        });
    }
    Ok(())
}
