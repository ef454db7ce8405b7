//! Output without a terminal: a line for each event, and the ledger's counts every few seconds.
//!
//! It reads keys from standard input, as letters. The end of standard input does not end the demo.
//! Start with [`Plain::open`].

use crate::input::{Key, Update};
use crate::view_model::ViewModel;
use std::io::{self, BufRead as _, Write as _};
use std::thread;
use std::time::Duration;
use tokio::sync::mpsc::Sender;

/// The time between two lines with the ledger's counts.
const COUNT_INTERVAL: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Plain {
    last_printed: usize,
    next_count: Duration,
}

impl Plain {
    /// Starts to send keys as updates.
    pub(crate) fn open(updates: Sender<Update>) -> Self {
        thread::spawn(move || send_keys(&updates));
        Self { last_printed: 0, next_count: COUNT_INTERVAL }
    }

    /// Prints everything new since the last call.
    pub(crate) fn show(&mut self, view: &ViewModel<'_>) -> io::Result<()> {
        for event in view.events.all().filter(|event| event.number > self.last_printed) {
            print(event.at, event.source, &event.text)?;
        }
        self.last_printed = view.events.all().next_back().map_or(0, |event| event.number);
        if view.at >= self.next_count {
            self.next_count += COUNT_INTERVAL;
            print(view.at, "ledger", &view.journal.to_string())?;
        }
        Ok(())
    }
}

fn print(at: Duration, source: &str, text: &str) -> io::Result<()> {
    writeln!(io::stdout(), "{:>7.1} s  {source:<6}  {text}", at.as_secs_f64())
}

fn send_keys(updates: &Sender<Update>) {
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        for key in line.chars().filter_map(Key::from_letter) {
            if updates.blocking_send(Update::Key(key)).is_err() {
                return;
            }
        }
    }
}
