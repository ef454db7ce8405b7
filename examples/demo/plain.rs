//! Plain lines, for where standard output is no terminal: one for each event, and a count now and then.
//! The keys are read from standard input, as letters; that it ends ends nothing.

use crate::input::{Key, Update};
use crate::scene::Scene;
use std::io::{self, BufRead as _, Write as _};
use std::thread;
use std::time::Duration;
use tokio::sync::mpsc::Sender;

/// How often the ledger's counts are printed.
const COUNTING: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Plain {
    told: usize,
    count_at: Duration,
}

impl Plain {
    pub(crate) fn open(updates: Sender<Update>) -> Self {
        thread::spawn(move || send_keys(&updates));
        Self { told: 0, count_at: COUNTING }
    }

    /// Prints what is new since the last time.
    pub(crate) fn show(&mut self, scene: &Scene<'_>) -> io::Result<()> {
        for event in scene.events.all().filter(|event| event.number > self.told) {
            print(event.at, event.who, &event.what)?;
        }
        self.told = scene.events.all().next_back().map_or(0, |event| event.number);
        if scene.at >= self.count_at {
            self.count_at += COUNTING;
            print(scene.at, "ledger", &scene.journal.to_string())?;
        }
        Ok(())
    }
}

fn print(at: Duration, who: &str, what: &str) -> io::Result<()> {
    writeln!(io::stdout(), "{:>7.1} s  {who:<6}  {what}", at.as_secs_f64())
}

fn send_keys(updates: &Sender<Update>) {
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        for key in line.chars().filter_map(Key::named) {
            if updates.blocking_send(Update::Key(key)).is_err() {
                return;
            }
        }
    }
}
