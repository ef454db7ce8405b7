//! One direction of a proxied connection: reads bytes, and handles them as the [`Flow`] says.
//!
//! Start with [`Pump::run`].

use super::{Direction, Flow, POLL, Shared};
use crate::rig::lock;
use socket2::SockRef;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::mem::take;
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// How late bytes are under [`Flow::Delay`], at least: less than a call may take.
pub(super) const DELAY: Duration = Duration::from_millis(150);

/// How often a pump checks for the server's answer to a late request.
const ANSWER_POLLS: u32 = 1_000;

/// The record that announces the end of TLS 1.3: its first bytes, and its length.
pub(super) const CLOSE_NOTIFY: (&[u8], usize) = (&[0x17, 3, 3, 0, 19], 24);

/// One direction of one connection.
pub(super) struct Pump {
    pub(super) from: TcpStream,
    pub(super) to: TcpStream,
    pub(super) direction: Direction,
    /// The chunks in the order read; an empty one is the end of the stream.
    pub(super) waiting: VecDeque<Vec<u8>>,
    /// How many of its bytes are counted as held.
    pub(super) counted: usize,
    /// How often the server has answered on this connection.
    pub(super) answers: Arc<AtomicUsize>,
    /// How many cuts and blackholes there were before this connection.
    pub(super) since: (usize, usize),
    pub(super) shared: Arc<Shared>,
}

impl Pump {
    pub(super) fn run(mut self) {
        if !matches!(self.pass_until_the_end(), Ok(true)) {
            let abrupt = lock(&self.shared.orders).abrupt;
            for stream in [&self.from, &self.to] {
                // The sockets may be closed already. Closing with a zero linger sends a reset.
                if abrupt {
                    SockRef::from(stream).set_linger(Some(Duration::ZERO)).ok();
                } else {
                    stream.shutdown(Shutdown::Both).ok();
                }
            }
        }
        while self.pop().is_some() {}
    }

    /// Returns whether the other direction may continue without this one.
    fn pass_until_the_end(&mut self) -> io::Result<bool> {
        let (mut ended, mut late, mut lost) = (false, false, false);
        loop {
            if ended {
                thread::sleep(POLL);
            } else if let Some(bytes) = self.read() {
                ended = bytes.is_empty();
                if self.direction == Direction::Requests {
                    lock(&self.shared.orders).apply_hold_at(&bytes);
                }
                self.waiting.push_back(bytes);
            }
            match self.order() {
                Flow::Hold => {
                    self.count_held();
                    late = true;
                }
                Flow::Lose => {
                    while self.pop().is_some() {
                        lost = true;
                        self.count_affected(1);
                    }
                }
                Flow::Close => {
                    self.count_affected(1);
                    return Ok(false);
                }
                Flow::Truncate => {
                    if let Some(bytes) = self.pop() {
                        self.count_affected(1);
                        self.to.write_all(&bytes[..bytes.len() / 2])?;
                        return Ok(false);
                    }
                }
                Flow::Pass | Flow::Delay if lost => return Ok(false),
                flow @ (Flow::Pass | Flow::Delay) => {
                    if flow == Flow::Delay && !self.waiting.is_empty() {
                        self.count_affected(1);
                        thread::sleep(DELAY);
                    }
                    self.deliver(late)?;
                    late = false;
                    if ended && self.waiting.is_empty() {
                        self.to.shutdown(Shutdown::Write)?;
                        return Ok(true);
                    }
                }
            }
        }
    }

    /// Delivers a late request as if its sender were still connected. A server abandons a request
    /// whose connection ends, so the end of the stream, and the TLS record that announces it, wait
    /// for an answer.
    fn deliver(&mut self, late: bool) -> io::Result<()> {
        let answers = self.answers.load(Ordering::Relaxed);
        let mut has_request = false;
        while matches!(self.order(), Flow::Pass | Flow::Delay)
            && let Some(bytes) = self.pop()
        {
            let (request, close_notify) = bytes.split_at(close_notify_in(&bytes));
            self.to.write_all(request)?;
            has_request |= !request.is_empty();
            let is_over = bytes.is_empty() || !close_notify.is_empty();
            if late && self.direction == Direction::Requests && is_over && take(&mut has_request) {
                self.await_more_than(answers);
            }
            self.to.write_all(close_notify)?;
        }
        Ok(())
    }

    fn await_more_than(&self, answers: usize) {
        for _ in 0..ANSWER_POLLS {
            if self.answers.load(Ordering::Relaxed) > answers || self.order() == Flow::Close {
                return;
            }
            thread::sleep(POLL);
        }
    }

    fn order(&self) -> Flow {
        let orders = lock(&self.shared.orders);
        let (cuts, blackholes) = self.since;
        if orders.over || orders.cuts != cuts {
            Flow::Close
        } else if orders.blackholes != blackholes {
            Flow::Lose
        } else {
            orders.flows[self.direction as usize]
        }
    }

    fn read(&mut self) -> Option<Vec<u8>> {
        let mut buffer = [0; 16 * 1024];
        match self.from.read(&mut buffer) {
            Ok(length) => {
                self.shared.carried.fetch_add(length, Ordering::Relaxed);
                self.answers
                    .fetch_add((self.direction == Direction::Replies).into(), Ordering::Relaxed);
                Some(buffer[..length].to_vec())
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                None
            }
            Err(_) => Some(Vec::new()), // the sender has gone, for whatever reason
        }
    }

    fn count_held(&mut self) {
        let waiting = self.waiting.iter().map(Vec::len).sum::<usize>();
        self.shared.held[self.direction as usize]
            .fetch_add(waiting - self.counted, Ordering::Relaxed);
        self.count_affected(waiting - self.counted);
        self.counted = waiting;
    }

    fn count_affected(&self, count: usize) {
        self.shared.affected.fetch_add(count, Ordering::Relaxed);
    }

    fn pop(&mut self) -> Option<Vec<u8>> {
        let bytes = self.waiting.pop_front()?;
        // The counted bytes are at the front of the queue, so a chunk is counted entirely or not at
        // all.
        if self.counted > 0 {
            self.counted -= bytes.len();
            self.shared.held[self.direction as usize].fetch_sub(bytes.len(), Ordering::Relaxed);
        }
        Some(bytes)
    }
}

/// The index of the closing record at the end of these bytes; their length if there is none.
fn close_notify_in(bytes: &[u8]) -> usize {
    let (begins, length) = CLOSE_NOTIFY;
    let at = bytes.len().saturating_sub(length);
    if bytes[at..].len() == length && bytes[at..].starts_with(begins) { at } else { bytes.len() }
}
