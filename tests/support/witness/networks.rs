//! Polls `GET /leader` inside the network of every Pod on this node: one thread per Pod, moved into
//! its network namespace.
//!
//! That works without the API server, the network between nodes, and a shell in the Pod's image. A
//! Pod that never answers has no sidecar, and is not reported.

use super::Record;
use super::question::{agent, ask};
use super::{now, print};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// The folder of the Pods' network namespaces.
const NETWORKS: &str = "/run/netns";
/// How often to look for new Pods.
const POLL: Duration = Duration::from_millis(50);

/// Polls until the process ends.
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
                    // A namespace that cannot be entered is too new or gone; the next poll tells.
                    drop(ask_in(&network, every, port));
                    drop(gone.send(network));
                });
            }
        }
        while let Ok(network) = ended.try_recv() {
            asked.remove(&network);
        }
        thread::sleep(POLL);
    }
}

/// Polls in one network namespace while it exists.
fn ask_in(network: &Path, every: Duration, port: u16) -> io::Result<()> {
    move_into_link_name_space(File::open(network)?.as_fd(), Some(LinkNameSpaceType::Network))?;
    let name = network.file_name().map(PathBuf::from).unwrap_or_default().display().to_string();
    let (agent, url) = (agent(), format!("http://127.0.0.1:{port}/leader"));
    let mut has_answered = false;
    while network.exists() {
        let asked = now();
        let reply = ask(&agent, &url);
        let answered = now();
        has_answered |= reply.is_ok();
        if has_answered {
            print(&Record::Answer { network: name.clone(), asked, answered, reply });
        }
        thread::sleep(every);
    }
    Ok(())
}
