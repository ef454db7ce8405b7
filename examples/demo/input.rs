//! What the demo hears: from its children, from those who look at them, and from whoever sits in front of it.

use crate::onlooker::{Journal, Reading};
use std::io;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::Sender;
use tokio::task::JoinSet;

/// One thing heard.
#[derive(Debug)]
pub(crate) enum Update {
    Line(Source, String),
    Reading(usize, Option<Reading>),
    Journal(Journal),
    Key(Key),
}

/// Whose output a line is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Source {
    ZooKeeper,
    Ledger,
    Candidate(usize),
    Application(usize),
}

/// What somebody wants.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Key {
    ToLeader(Blow),
    Resume,
    Quit,
}

/// What can be done to the leader.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Blow {
    Kill,
    Pause,
    Stop,
}

impl Key {
    pub(crate) fn named(letter: char) -> Option<Self> {
        match letter {
            'k' => Some(Self::ToLeader(Blow::Kill)),
            'p' => Some(Self::ToLeader(Blow::Pause)),
            's' => Some(Self::ToLeader(Blow::Stop)),
            'r' => Some(Self::Resume),
            'q' => Some(Self::Quit),
            _ => None,
        }
    }
}

/// The signals that would end this program press q instead, so that nothing is left behind.
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
