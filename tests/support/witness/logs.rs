//! Reads the logs of this node's containers as they grow, since a Pod's logs are removed with it.

use super::{Record, now, print};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

/// The folder of container logs: a folder per Pod, in it a folder per container, in it a file per
/// run.
const LOGS: &str = "/var/log/pods";
/// How often to poll.
const POLL: Duration = Duration::from_millis(50);

/// Reads until the process ends, and prints every line written after `since`.
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
            log.print_new_lines(since);
        }
        open.retain(|path, _| path.exists());
        thread::sleep(POLL);
    }
}

/// The files at this depth below a folder.
fn files(folder: &Path, depth: usize) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    if depth == 1 {
        entries.collect()
    } else {
        entries.flat_map(|folder| files(&folder, depth - 1)).collect()
    }
}

/// The log of one run of a container.
struct Log {
    namespace: String,
    pod: String,
    container: String,
    run: u32,
    file: File,
    /// The start of an incomplete line.
    rest: Vec<u8>,
}

impl Log {
    /// Opens a log. Its path names its origin: `NAMESPACE_POD_UID/CONTAINER/RUN.log`.
    fn open(path: &Path) -> Option<Self> {
        let run = path.file_stem()?.to_str()?.parse().ok()?;
        let container = path.parent()?.file_name()?.to_str()?.to_owned();
        let mut pod = path.parent()?.parent()?.file_name()?.to_str()?.split('_').map(str::to_owned);
        let (namespace, pod) = (pod.next()?, pod.next()?);
        // The tests do not need the cluster's own logs.
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

    fn print_new_lines(&mut self, since: Duration) {
        if self.file.read_to_end(&mut self.rest).is_err() {
            return; // keeps what was read; the next poll reads the rest
        }
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            if let Some((at, text)) =
                parsed(String::from_utf8_lossy(&line).trim_end()).filter(|(at, _)| *at > since)
            {
                let Self { namespace, pod, container, run, .. } = self;
                let (namespace, pod, container) =
                    (namespace.clone(), pod.clone(), container.clone());
                print(&Record::Line { namespace, pod, container, run: *run, at, text });
            }
        }
    }
}

/// Parses a line of the container runtime, `TIME STREAM TAG TEXT`, and converts its wall-clock
/// time.
fn parsed(line: &str) -> Option<(Duration, String)> {
    let mut parts = line.splitn(4, ' ');
    let written = humantime::parse_rfc3339(parts.next()?).ok()?;
    let text = parts.nth(2)?.to_owned();
    let age = SystemTime::now().duration_since(written).unwrap_or_default();
    Some((now().saturating_sub(age), text))
}
