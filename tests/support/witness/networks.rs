//! Asks in the network of every Pod of this node: one thread a Pod, which has moved into it.
//!
//! Only the node is needed for that: no API server, no Pod network between nodes, no shell in the Pod's image. A Pod in
//! which nobody has ever answered has no sidecar, and is not told of.

use super::Record;
use super::question::{agent, ask};
use super::{now, tell};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Where the runtime keeps a Pod's network for as long as the Pod lives.
const NETWORKS: &str = "/run/netns";
/// How often to look for new Pods.
const LOOK: Duration = Duration::from_millis(50);

/// Asks until the process is ended.
pub(crate) fn watch(every: Duration, port: u16) -> ! {
    let (gone, ended) = mpsc::channel();
    let mut asked = BTreeSet::new();
    loop {
        let found =
            fs::read_dir(NETWORKS).into_iter().flatten().flatten().map(|entry| entry.path());
        for network in found {
            if asked.insert(network.clone()) {
                let gone = gone.clone();
                thread::spawn(move || {
                    // What cannot be entered is not there yet, or not any more: the next look shows.
                    drop(ask_in(&network, every, port));
                    drop(gone.send(network));
                });
            }
        }
        while let Ok(network) = ended.try_recv() {
            asked.remove(&network);
        }
        thread::sleep(LOOK);
    }
}

/// Asks in one network for as long as it is there.
fn ask_in(network: &Path, every: Duration, port: u16) -> io::Result<()> {
    move_into_link_name_space(File::open(network)?.as_fd(), Some(LinkNameSpaceType::Network))?;
    let name = network.file_name().map(PathBuf::from).unwrap_or_default().display().to_string();
    let (agent, url) = (agent(), format!("http://127.0.0.1:{port}/leader"));
    let mut heard = false;
    while network.exists() {
        let asked = now();
        let reply = ask(&agent, &url);
        let answered = now();
        heard |= reply.is_ok();
        if heard {
            tell(&Record::Answer { network: name.clone(), asked, answered, reply });
        }
        thread::sleep(every);
    }
    Ok(())
}
