//! Reads what the containers of this node write, as they write it: a Pod that is gone takes its logs with it.

use super::{Record, now, tell};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

/// Where kubelet has containers write: a folder a Pod, in it a folder a container, in it a file a run.
const LOGS: &str = "/var/log/pods";
/// How often to look.
const LOOK: Duration = Duration::from_millis(50);

/// Reads until the process is ended, and tells what was written after `since`.
pub(crate) fn watch(since: Duration) -> ! {
    let mut open: BTreeMap<PathBuf, Log> = BTreeMap::new();
    loop {
        for path in files(Path::new(LOGS), 3) {
            if !open.contains_key(&path)
                && let Some(log) = Log::open(&path)
            {
                open.insert(path, log);
            }
        }
        for log in open.values_mut() {
            log.tell_more(since);
        }
        open.retain(|path, _| path.exists());
        thread::sleep(LOOK);
    }
}

/// The files that lie so deep below a folder.
fn files(folder: &Path, depth: usize) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    if depth == 1 {
        entries.collect()
    } else {
        entries.flat_map(|folder| files(&folder, depth - 1)).collect()
    }
}

/// What one run of a container writes.
struct Log {
    namespace: String,
    pod: String,
    container: String,
    run: u32,
    file: File,
    /// The beginning of a line whose end is not there yet.
    rest: Vec<u8>,
}

impl Log {
    /// The path says whose it is: `NAMESPACE_POD_UID/CONTAINER/RUN.log`.
    fn open(path: &Path) -> Option<Self> {
        let run = path.file_stem()?.to_str()?.parse().ok()?;
        let container = path.parent()?.file_name()?.to_str()?.to_owned();
        let mut pod = path.parent()?.parent()?.file_name()?.to_str()?.split('_').map(str::to_owned);
        let (namespace, pod) = (pod.next()?, pod.next()?);
        // The cluster's own are nobody's concern here.
        (namespace != "kube-system").then_some(())?;
        Some(Self {
            namespace,
            pod,
            container,
            run,
            file: File::open(path).ok()?,
            rest: Vec::new(),
        })
    }

    fn tell_more(&mut self, since: Duration) {
        if self.file.read_to_end(&mut self.rest).is_err() {
            return; // what could be read is there, and the next look shows the rest
        }
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            if let Some((at, text)) =
                parsed(String::from_utf8_lossy(&line).trim_end()).filter(|(at, _)| *at > since)
            {
                let Self { namespace, pod, container, run, .. } = self;
                let (namespace, pod, container) =
                    (namespace.clone(), pod.clone(), container.clone());
                tell(&Record::Line { namespace, pod, container, run: *run, at, text });
            }
        }
    }
}

/// A line as the runtime writes it, `TIME STREAM TAG TEXT`, with its wall-clock time brought to ours.
fn parsed(line: &str) -> Option<(Duration, String)> {
    let mut parts = line.splitn(4, ' ');
    let written = humantime::parse_rfc3339(parts.next()?).ok()?;
    let text = parts.nth(2)?.to_owned();
    let age = SystemTime::now().duration_since(written).unwrap_or_default();
    Some((now().saturating_sub(age), text))
}
