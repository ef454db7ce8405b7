//! An ensemble of ZooKeeper servers in a small world: what is agreed on, what a server that is cut off still knows, and what comes
//! of a request. Start with [`State::perform`].

use super::candidates::{Candidate, Terms};
use baton_election::queue::QueueElection;
use baton_election::queue::messages::{Announcement, QueueEvent, QueueRequest, SessionId};
use std::sync::Arc;
use std::time::Duration;

/// In seconds of the clock of the ensemble's leader.
pub(super) const TIMEOUT: u64 = 5;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct State {
    pub(super) step: u8,
    pub(super) candidates: Vec<Candidate<QueueElection, QueueRequest, QueueEvent>>,
    pub(super) connections: Vec<Connection>,
    /// What the clock of the ensemble's leader counts in a step, and what it shows.
    pub(super) rate: u64,
    pub(super) shows: u64,
    /// Until when each session surely lives, by number.
    pub(super) sessions: Vec<Option<u64>>,
    pub(super) tree: Arc<Tree>,
    pub(super) joined: u8,
    /// A request that nobody waits for any more, and its session.
    pub(super) late: Option<(usize, QueueRequest)>,
    pub(super) terms: Terms,
    pub(super) cuts: u8,
    pub(super) crashes: u8,
    pub(super) releases: u8,
    pub(super) deletions: u8,
}

/// What was agreed on.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Tree {
    pub(super) line: Vec<Znode>,
    pub(super) leader: Option<Announcement>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Znode {
    pub(super) name: String,
    pub(super) session: usize,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Connection {
    pub(super) session: Option<usize>,
    /// What its server knew when it was cut off.
    pub(super) cut: Option<Arc<Tree>>,
    /// Its server has heard of the session, and has not told the leader.
    pub(super) is_untold: bool,
    /// The znode that it watches, and whether that is gone, which is still to be told.
    pub(super) watch: Option<String>,
    pub(super) fires: bool,
}

impl Tree {
    fn stands(&self, name: &str) -> bool {
        self.line.iter().any(|znode| znode.name == name)
    }

    fn read(&self, request: &QueueRequest) -> Option<QueueEvent> {
        match request {
            QueueRequest::List => {
                Some(QueueEvent::Listed(self.line.iter().map(|znode| znode.name.clone()).collect()))
            }
            QueueRequest::Watch { name } => {
                let found = self.line.iter().find(|znode| znode.name == *name);
                let owner = |znode: &Znode| QueueEvent::Found { owner: Some(id(znode.session)) };
                Some(found.map_or(QueueEvent::Missing, owner))
            }
            QueueRequest::ReadLeader => Some(QueueEvent::Leader(self.leader.clone())),
            QueueRequest::Begin { .. }
            | QueueRequest::Resume { .. }
            | QueueRequest::Close
            | QueueRequest::MakePath
            | QueueRequest::Join { .. }
            | QueueRequest::Check { .. }
            | QueueRequest::Announce { .. } => None,
        }
    }
}

impl State {
    /// The session is over, or a stranger's deed: these znodes are gone, and whoever watches one is to be told.
    pub(super) fn remove(&mut self, is_gone: impl Fn(&Znode) -> bool) {
        for connection in self.connections.iter_mut().filter(|connection| connection.cut.is_none())
        {
            let watched = |znode: &&Znode| connection.watch.as_ref() == Some(&znode.name);
            if self.tree.line.iter().find(watched).is_some_and(&is_gone) {
                (connection.watch, connection.fires) = (None, true);
            }
        }
        Arc::make_mut(&mut self.tree).line.retain(|znode| !is_gone(znode));
    }

    pub(super) fn end(&mut self, session: usize) {
        self.sessions[session] = None;
        self.remove(|znode| znode.session == session);
        Arc::make_mut(&mut self.tree).leader.take_if(|leader| leader.owner == Some(id(session)));
    }

    /// What comes of `request` of `number`; `None` where its server can only wait.
    pub(super) fn perform(&mut self, number: usize, request: &QueueRequest) -> Option<QueueEvent> {
        if let QueueRequest::Begin { .. } | QueueRequest::Resume { .. } = request {
            return Some(self.connect(number, request));
        }
        let connection = &mut self.connections[number];
        let session = connection.session?;
        connection.is_untold = true;
        if let Some(reply) = connection.cut.as_ref().unwrap_or(&self.tree).read(request) {
            if let (QueueRequest::Watch { name }, QueueEvent::Found { .. }) = (request, &reply) {
                connection.watch = Some(name.clone());
            }
            return Some(reply);
        }
        if connection.cut.is_some() {
            return None;
        }
        Some(self.agree(session, request))
    }

    fn connect(&mut self, number: usize, request: &QueueRequest) -> QueueEvent {
        let lives = self.shows + TIMEOUT;
        let connection = &mut self.connections[number];
        *connection = Connection { session: connection.session, ..Connection::NONE };
        if let QueueRequest::Begin { .. } = request {
            self.sessions.push(Some(lives));
            connection.session = Some(self.sessions.len() - 1);
        }
        match connection.session {
            Some(session) if self.sessions[session].is_some() => {
                self.sessions[session] = Some(lives);
                QueueEvent::Connected {
                    session: id(session),
                    timeout: Duration::from_secs(TIMEOUT),
                }
            }
            Some(_) | None => QueueEvent::Expired,
        }
    }

    pub(super) fn agree(&mut self, session: usize, request: &QueueRequest) -> QueueEvent {
        if self.sessions[session].is_none() {
            return QueueEvent::Expired;
        }
        match request {
            QueueRequest::Close => {
                self.end(session);
                QueueEvent::Closed
            }
            QueueRequest::MakePath => QueueEvent::Made,
            QueueRequest::Join { prefix, .. } => {
                let name = format!("{prefix}{:010}", self.joined);
                self.joined += 1;
                Arc::make_mut(&mut self.tree).line.push(Znode { name: name.clone(), session });
                QueueEvent::Joined { name, czxid: self.joined.into() }
            }
            QueueRequest::Check { name } | QueueRequest::Announce { name, .. }
                if !self.tree.stands(name) =>
            {
                QueueEvent::Missing
            }
            QueueRequest::Announce { replaces, .. } if self.tree.leader.is_some() != *replaces => {
                QueueEvent::Changed
            }
            QueueRequest::Announce { text, .. } => {
                let owner = Some(id(session));
                Arc::make_mut(&mut self.tree).leader =
                    Some(Announcement { text: text.clone(), owner });
                QueueEvent::Announced
            }
            QueueRequest::Check { .. } => QueueEvent::Checked,
            QueueRequest::Begin { .. }
            | QueueRequest::Resume { .. }
            | QueueRequest::List
            | QueueRequest::Watch { .. }
            | QueueRequest::ReadLeader => QueueEvent::Unknown,
        }
    }

    /// Keeps what was given up, and may still change something, where it may come late.
    pub(super) fn abandon(&mut self, number: usize, request: Option<QueueRequest>, late: bool) {
        let (Some(request), Some(session), true) =
            (request, self.connections[number].session, late)
        else {
            return;
        };
        match request {
            QueueRequest::Close | QueueRequest::Join { .. } | QueueRequest::Announce { .. } => {
                self.late = Some((session, request));
            }
            QueueRequest::Begin { .. }
            | QueueRequest::Resume { .. }
            | QueueRequest::MakePath
            | QueueRequest::List
            | QueueRequest::Watch { .. }
            | QueueRequest::ReadLeader
            | QueueRequest::Check { .. } => {}
        }
    }

    /// Whether `number` stands in the line behind another, so that no claim can rest on its znode.
    pub(super) fn waits(&self, number: usize) -> bool {
        let session = self.connections[number].session;
        self.tree.line.iter().skip(1).any(|znode| Some(znode.session) == session)
    }
}

impl Connection {
    pub(super) const NONE: Self =
        Self { session: None, cut: None, is_untold: false, watch: None, fires: false };

    /// Whether its server has something to tell the leader, and can.
    pub(super) const fn has_news(&self) -> bool {
        self.cut.is_none() && self.is_untold
    }
}

fn id(session: usize) -> SessionId {
    SessionId(session as u64 + 1)
}
