//! Writes the log on a thread of its own, so that a full pipe on standard error stops nothing else.
//!
//! Touches standard error and a thread. Start with [`LogWriter::start`]. Under `baton exec` the
//! command shares standard error, and a reader that hangs must not stop renewals.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::thread;
use std::time::Duration;
use tracing_subscriber::fmt::MakeWriter;

/// How many lines wait for a slow reader. Later ones are dropped and counted.
const MAX_LINES: usize = 1024;
/// How long the end of the process waits for the last lines.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(200);
/// How often the end of the process tries to queue behind a full queue.
const FLUSH_TRIES: u32 = 20;

/// The end that accepts lines, and never blocks.
#[derive(Debug, Clone)]
pub(super) struct LogWriter {
    lines: SyncSender<Job>,
    dropped: Arc<AtomicU64>,
}

/// Waits at its end until the log is written, for a short time.
#[derive(Debug)]
pub struct FlushOnDrop(Option<LogWriter>);

enum Job {
    Write(Vec<u8>),
    Flush(Sender<()>),
}

impl LogWriter {
    /// Starts the thread.
    pub(super) fn start() -> io::Result<Self> {
        let (lines, jobs) = sync_channel(MAX_LINES);
        let dropped = Arc::new(AtomicU64::new(0));
        let writer = Self { lines, dropped: Arc::clone(&dropped) };
        thread::Builder::new().name("log".to_owned()).spawn(move || write(&jobs, &dropped))?;
        Ok(writer)
    }

    /// Waits for the last lines when dropped.
    pub(super) fn flush_on_drop(this: Option<Self>) -> FlushOnDrop {
        FlushOnDrop(this)
    }
}

fn write(jobs: &Receiver<Job>, dropped: &AtomicU64) {
    for job in jobs {
        match job {
            // A closed standard error has no reader to miss anything.
            Job::Write(line) => drop(io::stderr().write_all(&line)),
            Job::Flush(done) => drop(done.send(())),
        }
        let lines = dropped.swap(0, Ordering::Relaxed);
        if lines > 0 {
            tracing::warn!(
                event = "log_lines_dropped",
                lines,
                "{lines} log lines were dropped: the reader of standard error is too slow"
            );
        }
    }
}

impl Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match self.lines.try_send(Job::Write(line.to_vec())) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for LogWriter {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

impl Drop for FlushOnDrop {
    fn drop(&mut self) {
        let Some(writer) = &self.0 else { return };
        let (done, flushed) = channel();
        let mut job = Job::Flush(done);
        for _ in 0..FLUSH_TRIES {
            job = match writer.lines.try_send(job) {
                Ok(()) => {
                    // After the timeout, the last lines are lost with the process.
                    flushed.recv_timeout(FLUSH_TIMEOUT).ok();
                    return;
                }
                Err(TrySendError::Disconnected(_)) => return,
                Err(TrySendError::Full(job)) => job,
            };
            thread::sleep(FLUSH_TIMEOUT / FLUSH_TRIES);
        }
    }
}
