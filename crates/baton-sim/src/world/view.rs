//! A world as a person may see it at one moment: processes, clocks, messages in flight, and the
//! store.
//!
//! Pure. Start with [`view`]. Nothing here is fed back into the run.

use crate::clock::{Clock, Moment};
use crate::process::Process;
use crate::store::Store;
use crate::trace_printer::Printable;
use crate::world::World;
use crate::world::network::{Message, Posted};
use crate::world::node::Node;
use baton_election::claim::{FencingToken, Standing};
use baton_election::identity::Identity;
use baton_election::machine::{Election, Withdrawal};
use baton_election::record::messages::Snapshot;
use std::time::Duration;

/// A world at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorldView {
    /// The candidates, by index.
    pub nodes: Vec<NodeView>,
    /// The messages in flight, in the order in which they arrive.
    pub messages: Vec<MessageView>,
    /// The content of the store.
    pub store: StoreView,
}

/// One candidate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeView {
    /// The identity of its process; `None` while none runs.
    pub identity: Option<Identity>,
    /// Its claim, and the true time of its end at the present rate of its clock.
    pub claim: Option<(FencingToken, Moment)>,
    /// The leader that it follows, as far as it knows.
    pub leader: Option<Identity>,
    /// Whether it makes no promises because it is about to release, or waits for an order to end.
    pub withdrawal: Option<Withdrawal>,
    /// Whether its process is suspended.
    pub is_paused: bool,
    /// Whether a fault impairs its link to the store.
    pub is_link_impaired: bool,
    /// The reading of its clock.
    pub clock: Duration,
    /// How far off its clock runs, in parts per million.
    pub clock_off: i64,
}

/// A message in flight between a candidate and the store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MessageView {
    /// Its direction and purpose.
    pub kind: MessageKind,
    /// The candidate at its one end.
    pub candidate: usize,
    /// When it was sent.
    pub sent: Moment,
    /// When it arrives.
    pub arrives: Moment,
    /// Its content.
    pub text: String,
}

/// The direction and purpose of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MessageKind {
    /// From a candidate to the store.
    Request,
    /// From the store, in reply to a request.
    Reply,
    /// From the store to a candidate that watches.
    WatchEvent,
}

/// The content of a store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StoreView {
    /// The record, if there is one.
    Record(Option<Snapshot>),
    /// The queue in ZooKeeper, as committed.
    Queue {
        /// The znodes of candidates, in the order of the queue.
        znodes: Vec<ZnodeView>,
        /// Each watch: the candidate that set it, and the name of the watched znode.
        watches: Vec<(usize, String)>,
        /// Whether each server of the ensemble serves clients.
        serving: Vec<bool>,
    },
}

/// The znode of a candidate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ZnodeView {
    /// Its sequence number.
    pub sequence: u32,
    /// Its name.
    pub name: String,
    /// The identity in its data.
    pub identity: Identity,
    /// The candidate whose present session owns it.
    pub owner: Option<usize>,
}

/// The world at `at`, which is not before its last event and not after its next one.
pub(crate) fn view<S, O>(world: &World<S, O>, at: Moment) -> WorldView
where
    S: Store<Election: Printable>,
{
    let mut in_flight: Vec<_> = world.in_flight.iter().collect();
    in_flight.sort_by_key(|(arrives, _)| *arrives);
    WorldView {
        nodes: world.nodes.iter().zip(&world.clocks).map(|it| node_view(it.0, it.1, at)).collect(),
        messages: in_flight
            .into_iter()
            .filter_map(|(arrives, posted)| message_view(arrives, posted))
            .collect(),
        store: world.store.view(),
    }
}

fn node_view<E: Election>(node: &Node<E>, clock: &Clock, at: Moment) -> NodeView {
    let process = node.process.as_ref();
    let now = clock.read(at);
    let leader = match process.map(Process::standing) {
        Some(Standing::Following { leader }) => leader,
        Some(Standing::Unknown | Standing::Leading(_) | Standing::Resigning(_)) | None => None,
    };
    NodeView {
        identity: process.map(|process| process.identity.clone()),
        claim: process
            .and_then(|process| process.claim(now))
            .map(|claim| (claim.token(), clock.when(claim.deadline()))),
        leader,
        withdrawal: process.and_then(|process| process.withdrawal),
        is_paused: node.is_paused,
        is_link_impaired: node.link.is_impaired(),
        clock: now.elapsed_since_boot(),
        clock_off: clock.rate().parts_per_million(),
    }
}

/// The message as seen from outside; `None` for a notice that has no sender, such as a broken
/// connection.
fn message_view<E: Printable>(arrives: Moment, posted: &Posted<E>) -> Option<MessageView> {
    let (kind, candidate, text) = match &posted.message {
        Message::Request(sent) => {
            (MessageKind::Request, sent.from, <E as Printable>::request("", &sent.request))
        }
        Message::Reply { to, event: Some(event), .. } => {
            (MessageKind::Reply, *to, <E as Printable>::event("", event))
        }
        Message::WatchEvent { to, event, .. } => {
            (MessageKind::WatchEvent, *to, <E as Printable>::event("", event))
        }
        Message::Reply { event: None, .. } | Message::FromGuard { .. } => return None,
    };
    Some(MessageView { kind, candidate, sent: posted.sent, arrives, text })
}
