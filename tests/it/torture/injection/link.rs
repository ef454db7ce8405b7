//! Faults of one link to the store, injected by its proxy.
//!
//! A fault has acted if the proxy has affected any bytes or connections. Start with [`on_link`].

use super::super::fault::Fault;
use super::process::Undo;
use super::proven;
use crate::rig::{Direction, Flow, Proxy};
use std::sync::Arc;

/// Begins a fault; `None` if the fault does not affect a link.
pub(in super::super) fn on_link(proxy: &Arc<Proxy>, fault: Fault) -> Option<Undo> {
    use Direction::{Replies, Requests};
    match fault {
        Fault::Partition => Some(flow(proxy, &[Requests, Replies], Flow::Hold)),
        Fault::HoldRequests => Some(flow(proxy, &[Requests], Flow::Hold)),
        Fault::HoldReplies => Some(flow(proxy, &[Replies], Flow::Hold)),
        Fault::LoseReplies => Some(flow(proxy, &[Replies], Flow::Lose)),
        Fault::Delay => Some(flow(proxy, &[Requests, Replies], Flow::Delay)),
        Fault::Truncate => Some(flow(proxy, &[Replies], Flow::Truncate)),
        Fault::Refuse => Some(flow(proxy, &[Requests, Replies], Flow::Close)),
        Fault::Cut => Some(once(proxy, Proxy::cut)),
        Fault::Reset => Some(once(proxy, Proxy::reset)),
        Fault::Blackhole => Some(once(proxy, Proxy::blackhole)),
        Fault::Kill
        | Fault::Restart
        | Fault::Terminate
        | Fault::Interrupt
        | Fault::HangUp
        | Fault::TerminateTwice
        | Fault::Pause
        | Fault::Freeze
        | Fault::Starve
        | Fault::Resign
        | Fault::Stopping
        | Fault::Descriptors
        | Fault::DiskErrors
        | Fault::StorePaused
        | Fault::StoreKilled
        | Fault::SlowDisk
        | Fault::FullDisk
        | Fault::Rights
        | Fault::Label
        | Fault::Usurp
        | Fault::Delete => None,
    }
}

fn flow(proxy: &Arc<Proxy>, directions: &'static [Direction], flow: Flow) -> Undo {
    let proxy = Arc::clone(proxy);
    let before = proxy.affected();
    let set = move |flow| {
        for direction in directions {
            proxy.set(*direction, flow);
        }
        proxy.affected()
    };
    set(flow);
    Box::new(move || proven(set(Flow::Pass) > before, "nothing was on the link"))
}

fn once(proxy: &Arc<Proxy>, order: fn(&Proxy)) -> Undo {
    let proxy = Arc::clone(proxy);
    let before = proxy.affected();
    order(&proxy);
    Box::new(move || proven(proxy.affected() > before, "nothing was on the link"))
}
