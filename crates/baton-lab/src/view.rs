//! A world as JSON, for the page.
//!
//! Pure. Start with [`write_view`].

use crate::resource::ResourceWrite;
use baton_election::identity::Identity;
use baton_sim::json::Json;
use baton_sim::world::{MessageKind, MessageView, NodeView, StoreView, WorldView};

/// Adds the members of `view` to an object.
pub(crate) fn write_view(json: &mut Json, view: &WorldView) {
    json.key("nodes").array(|json| {
        for node in &view.nodes {
            json.object(|json| write_node(json, node));
        }
    });
    json.key("messages").array(|json| {
        for message in &view.messages {
            json.object(|json| write_message(json, message));
        }
    });
    json.key("store").object(|json| write_store(json, &view.store));
}

/// Adds the writes to the fenced resource.
pub(crate) fn write_resource(json: &mut Json, writes: &[ResourceWrite]) {
    json.key("writes").array(|json| {
        for write in writes {
            json.object(|json| {
                json.key("at").moment(write.at).key("candidate").value(write.candidate);
                json.key("token").string(&write.token.to_string());
                json.key("stale").value(write.is_stale);
            });
        }
    });
}

fn write_node(json: &mut Json, node: &NodeView) {
    json.key("identity");
    write_identity(json, node.identity.as_ref());
    json.key("leader");
    write_identity(json, node.leader.as_ref());
    if let Some((token, until)) = node.claim {
        json.key("token").string(&token.to_string()).key("until").moment(until);
    }
    json.key("withdrawn").value(node.withdrawal.is_some());
    json.key("paused").value(node.is_paused).key("cut").value(node.is_link_impaired);
    json.key("clock").value(node.clock.as_secs_f64()).key("off").value(node.clock_off);
}

fn write_message(json: &mut Json, message: &MessageView) {
    let kind = match message.kind {
        MessageKind::Request => "request",
        MessageKind::Reply => "reply",
        MessageKind::WatchEvent => "watch",
    };
    json.key("kind").string(kind).key("candidate").value(message.candidate);
    json.key("sent").moment(message.sent).key("arrives").moment(message.arrives);
    json.key("text").string(&message.text);
}

fn write_store(json: &mut Json, store: &StoreView) {
    match store {
        StoreView::Record(None) => {
            json.key("kind").string("record");
        }
        StoreView::Record(Some(snapshot)) => {
            json.key("kind").string("record");
            json.key("version").string(&snapshot.version.number.to_string()).key("holder");
            write_identity(json, snapshot.record.holder.as_ref());
            let lease = snapshot.record.duration.map(|duration| duration.as_secs_f64());
            json.key("lease").option(lease);
            json.key("transitions").value(snapshot.record.transitions);
        }
        StoreView::Queue { znodes, watches, serving } => {
            json.key("kind").string("queue").key("znodes").array(|json| {
                for znode in znodes {
                    json.object(|json| {
                        json.key("sequence").value(znode.sequence).key("name").string(&znode.name);
                        json.key("identity").string(znode.identity.as_str());
                        json.key("owner").option(znode.owner);
                    });
                }
            });
            json.key("watches").array(|json| {
                for (candidate, name) in watches {
                    json.array(|json| {
                        json.value(candidate).string(name);
                    });
                }
            });
            json.key("serving").array(|json| {
                for serves in serving {
                    json.value(serves);
                }
            });
        }
    }
}

fn write_identity(json: &mut Json, identity: Option<&Identity>) {
    match identity {
        Some(identity) => json.string(identity.as_str()),
        None => json.option(None::<u8>),
    };
}
