//! The ensemble of the session model: the agreed state, the view of partitioned servers, and
//! requests. Start with [`State::perform`].

use super::candidates::{Candidate, Terms};
use baton_election::queue::QueueElection;
use baton_election::queue::messages::{Announcement, QueueEvent, QueueRequest, SessionId};
use std::sync::Arc;
use std::time::Duration;

/// The session timeout, in seconds of the clock of the ensemble's leader.
pub(super) const TIMEOUT: u64 = 5;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct State {
    pub(super) step: u8,
    pub(super) candidates: Vec<Candidate<QueueElection, QueueRequest, QueueEvent>>,
    pub(super) connections: Vec<Connection>,
    /// How far the clock of the ensemble's leader advances per step, and its reading.
    pub(super) rate: u64,
    pub(super) clock: u64,
    /// Until when each session is guaranteed to live; `None` once it has ended.
    pub(super) sessions: Vec<Option<u64>>,
    pub(super) tree: Arc<Tree>,
    pub(super) join_count: u8,
    /// An abandoned request in flight, and its session.
    pub(super) late_request: Option<(usize, QueueRequest)>,
    pub(super) terms: Terms,
    pub(super) partitions: u8,
    pub(super) crashes: u8,
    pub(super) releases: u8,
    pub(super) deletions: u8,
}

/// The agreed state.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Tree {
    pub(super) queue: Vec<Znode>,
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
    /// The state that its server knew when it was partitioned.
    pub(super) partition_view: Option<Arc<Tree>>,
    /// Whether its server has seen activity of the session that it has not reported.
    pub(super) has_unreported_activity: bool,
    /// The watched znode, and whether the watch has fired and its event is in flight.
    pub(super) watch: Option<String>,
    pub(super) watch_fired: bool,
}

impl Tree {
    fn contains(&self, name: &str) -> bool {
        self.queue.iter().any(|znode| znode.name == name)
    }

    fn read(&self, request: &QueueRequest) -> Option<QueueEvent> {
        match request {
            QueueRequest::List => Some(QueueEvent::Listed(
                self.queue.iter().map(|znode| znode.name.clone()).collect(),
            )),
            QueueRequest::Watch { name } => {
                let found = self.queue.iter().find(|znode| znode.name == *name);
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
    /// Removes znodes, and fires the watches of servers that are not partitioned.
    pub(super) fn remove(&mut self, is_gone: impl Fn(&Znode) -> bool) {
        for connection in
            self.connections.iter_mut().filter(|connection| connection.partition_view.is_none())
        {
            let watched = |znode: &&Znode| connection.watch.as_ref() == Some(&znode.name);
            if self.tree.queue.iter().find(watched).is_some_and(&is_gone) {
                (connection.watch, connection.watch_fired) = (None, true);
            }
        }
        Arc::make_mut(&mut self.tree).queue.retain(|znode| !is_gone(znode));
    }

    pub(super) fn end(&mut self, session: usize) {
        self.sessions[session] = None;
        self.remove(|znode| znode.session == session);
        Arc::make_mut(&mut self.tree).leader.take_if(|leader| leader.owner == Some(id(session)));
    }

    /// Processes `request` of candidate `number`; `None` if its server has to wait.
    pub(super) fn perform(&mut self, number: usize, request: &QueueRequest) -> Option<QueueEvent> {
        if let QueueRequest::Begin { .. } | QueueRequest::Resume { .. } = request {
            return Some(self.connect(number, request));
        }
        let connection = &mut self.connections[number];
        let session = connection.session?;
        connection.has_unreported_activity = true;
        if let Some(reply) = connection.partition_view.as_ref().unwrap_or(&self.tree).read(request)
        {
            if let (QueueRequest::Watch { name }, QueueEvent::Found { .. }) = (request, &reply) {
                connection.watch = Some(name.clone());
            }
            return Some(reply);
        }
        if connection.partition_view.is_some() {
            return None;
        }
        Some(self.agree(session, request))
    }

    fn connect(&mut self, number: usize, request: &QueueRequest) -> QueueEvent {
        let lives_until = self.clock + TIMEOUT;
        let connection = &mut self.connections[number];
        *connection = Connection { session: connection.session, ..Connection::NONE };
        if let QueueRequest::Begin { .. } = request {
            self.sessions.push(Some(lives_until));
            connection.session = Some(self.sessions.len() - 1);
        }
        match connection.session {
            Some(session) if self.sessions[session].is_some() => {
                self.sessions[session] = Some(lives_until);
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
                let name = format!("{prefix}{:010}", self.join_count);
                self.join_count += 1;
                Arc::make_mut(&mut self.tree).queue.push(Znode { name: name.clone(), session });
                QueueEvent::Joined { name, czxid: self.join_count.into() }
            }
            QueueRequest::Check { name } | QueueRequest::Announce { name, .. }
                if !self.tree.contains(name) =>
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

    /// Keeps an abandoned request that may still change something, if the model allows late
    /// requests.
    pub(super) fn abandon(
        &mut self,
        number: usize,
        request: Option<QueueRequest>,
        allows_late: bool,
    ) {
        let (Some(request), Some(session), true) =
            (request, self.connections[number].session, allows_late)
        else {
            return;
        };
        match request {
            QueueRequest::Close | QueueRequest::Join { .. } | QueueRequest::Announce { .. } => {
                self.late_request = Some((session, request));
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

    /// Whether the znode of candidate `number` is behind another one, so that no claim can rest on
    /// it.
    pub(super) fn is_behind_another(&self, number: usize) -> bool {
        let session = self.connections[number].session;
        self.tree.queue.iter().skip(1).any(|znode| Some(znode.session) == session)
    }
}

impl Connection {
    pub(super) const NONE: Self = Self {
        session: None,
        partition_view: None,
        has_unreported_activity: false,
        watch: None,
        watch_fired: false,
    };

    /// Whether its server must report activity to the leader, and can.
    pub(super) const fn must_report(&self) -> bool {
        self.partition_view.is_none() && self.has_unreported_activity
    }
}

pub(super) fn id(session: usize) -> SessionId {
    SessionId(session as u64 + 1)
}
