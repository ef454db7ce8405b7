//! The terminal: keys in, pictures out. The sole user of crossterm.
//!
//! Whatever ends the demo, the terminal is given back as it was: on drop, and from the panic hook, which
//! comes first, so that the message is not lost with the picture.

use crate::input::{Key, Update};
use crate::picture::{self, Line};
use crate::scene::{Mood, Scene};
use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::event::{self, Event, KeyEvent, KeyModifiers};
use crossterm::style::{Attribute, Color, Print, ResetColor, SetAttribute, SetForegroundColor};
use crossterm::terminal::{
    self, BeginSynchronizedUpdate, Clear, ClearType, DisableLineWrap, EnableLineWrap,
    EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen,
};
use crossterm::{execute, queue};
use std::io::{self, BufWriter, Stdout, Write as _};
use std::{panic, thread};
use tokio::sync::mpsc::Sender;

#[derive(Debug)]
pub(crate) struct Screen {
    terminal: BufWriter<Stdout>,
    size: (u16, u16),
    shown: Vec<Line>,
}

impl Screen {
    /// Takes the terminal, and sends its keys.
    pub(crate) fn open(updates: Sender<Update>) -> io::Result<Self> {
        let report = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            give_back();
            report(panic);
        }));
        let mut screen =
            Self { terminal: BufWriter::new(io::stdout()), size: (0, 0), shown: vec![] };
        terminal::enable_raw_mode()?;
        execute!(screen.terminal, EnterAlternateScreen, Hide, DisableLineWrap)?;
        thread::spawn(move || send_keys(&updates));
        Ok(screen)
    }

    /// Draws what changed since the last time.
    pub(crate) fn show(&mut self, scene: &Scene<'_>) -> io::Result<()> {
        let size = terminal::size()?;
        queue!(self.terminal, BeginSynchronizedUpdate)?;
        if size != self.size {
            queue!(self.terminal, Clear(ClearType::All))?;
            self.size = size;
            self.shown.clear();
        }
        let lines = picture::draw(scene, size.0.into(), size.1.into());
        for (index, line) in lines.iter().enumerate() {
            if self.shown.get(index) != Some(line) {
                let row = u16::try_from(index).expect("a picture is as high as its terminal");
                queue!(self.terminal, MoveTo(0, row))?;
                line.iter()
                    .try_for_each(|span| print(&mut self.terminal, span.mood, &span.text))?;
            }
        }
        self.shown = lines;
        queue!(self.terminal, EndSynchronizedUpdate)?;
        self.terminal.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A second time would put the cursor back to where the panic's message begins.
        if !thread::panicking() {
            give_back();
        }
    }
}

/// Undoes everything that [`Screen::open`] did. Where it fails the terminal is gone.
fn give_back() {
    execute!(io::stdout(), ResetColor, EnableLineWrap, Show, LeaveAlternateScreen).ok();
    terminal::disable_raw_mode().ok();
}

fn print(terminal: &mut BufWriter<Stdout>, mood: Mood, text: &str) -> io::Result<()> {
    match mood {
        Mood::Plain => {}
        Mood::Faint => queue!(terminal, SetAttribute(Attribute::Dim))?,
        Mood::Strong => queue!(terminal, SetAttribute(Attribute::Bold))?,
        Mood::Good => queue!(terminal, SetForegroundColor(Color::Green))?,
        Mood::Warning => queue!(terminal, SetForegroundColor(Color::Yellow))?,
        Mood::Bad => queue!(terminal, SetForegroundColor(Color::Red))?,
    }
    queue!(terminal, Print(text), SetAttribute(Attribute::Reset))
}

/// Sends keys until nobody takes them. A terminal that has gone away is as good as a q.
fn send_keys(updates: &Sender<Update>) {
    loop {
        let key = match event::read() {
            Ok(Event::Key(press)) => named(press),
            Ok(_) => None,
            Err(_) => Some(Key::Quit),
        };
        if let Some(key) = key
            && (updates.blocking_send(Update::Key(key)).is_err() || matches!(key, Key::Quit))
        {
            return;
        }
    }
}

fn named(press: KeyEvent) -> Option<Key> {
    let letter = press.code.as_char()?;
    let held = press.modifiers.contains(KeyModifiers::CONTROL);
    if held { (letter == 'c').then_some(Key::Quit) } else { Key::named(letter) }
}
