//! Draws on the terminal and reads its keys. Only this file uses crossterm.
//!
//! The terminal is restored on drop and in the panic hook. The hook runs first, so that the panic
//! message remains visible. Start with [`Screen::open`].

use crate::input::{Key, Update};
use crate::layout::{self, Line};
use crate::view_model::{Style, ViewModel};
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
    drawn: Vec<Line>,
}

impl Screen {
    /// Takes over the terminal and starts to send its keys as updates.
    pub(crate) fn open(updates: Sender<Update>) -> io::Result<Self> {
        let previous_hook = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            restore_terminal();
            previous_hook(panic);
        }));
        let mut screen =
            Self { terminal: BufWriter::new(io::stdout()), size: (0, 0), drawn: vec![] };
        terminal::enable_raw_mode()?;
        execute!(screen.terminal, EnterAlternateScreen, Hide, DisableLineWrap)?;
        thread::spawn(move || send_keys(&updates));
        Ok(screen)
    }

    /// Draws the lines that changed since the last call.
    pub(crate) fn show(&mut self, view: &ViewModel<'_>) -> io::Result<()> {
        let size = terminal::size()?;
        queue!(self.terminal, BeginSynchronizedUpdate)?;
        if size != self.size {
            queue!(self.terminal, Clear(ClearType::All))?;
            self.size = size;
            self.drawn.clear();
        }
        let lines = layout::render(view, size.0.into(), size.1.into());
        for (index, line) in lines.iter().enumerate() {
            if self.drawn.get(index) != Some(line) {
                let row = u16::try_from(index).expect("there are no more lines than terminal rows");
                queue!(self.terminal, MoveTo(0, row))?;
                line.iter()
                    .try_for_each(|span| print(&mut self.terminal, span.style, &span.text))?;
            }
        }
        self.drawn = lines;
        queue!(self.terminal, EndSynchronizedUpdate)?;
        self.terminal.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // The panic hook has already restored it. A second time, the cursor would move over the
        // panic message.
        if !thread::panicking() {
            restore_terminal();
        }
    }
}

/// Undoes [`Screen::open`]. Errors mean that the terminal is gone.
fn restore_terminal() {
    execute!(io::stdout(), ResetColor, EnableLineWrap, Show, LeaveAlternateScreen).ok();
    terminal::disable_raw_mode().ok();
}

fn print(terminal: &mut BufWriter<Stdout>, style: Style, text: &str) -> io::Result<()> {
    match style {
        Style::Plain => {}
        Style::Faint => queue!(terminal, SetAttribute(Attribute::Dim))?,
        Style::Strong => queue!(terminal, SetAttribute(Attribute::Bold))?,
        Style::Good => queue!(terminal, SetForegroundColor(Color::Green))?,
        Style::Warning => queue!(terminal, SetForegroundColor(Color::Yellow))?,
        Style::Bad => queue!(terminal, SetForegroundColor(Color::Red))?,
    }
    queue!(terminal, Print(text), SetAttribute(Attribute::Reset))
}

/// Sends keys until the receiver is gone. A closed terminal counts as the quit key.
fn send_keys(updates: &Sender<Update>) {
    loop {
        let key = match event::read() {
            Ok(Event::Key(press)) => key(press),
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

fn key(press: KeyEvent) -> Option<Key> {
    let letter = press.code.as_char()?;
    let is_control = press.modifiers.contains(KeyModifiers::CONTROL);
    if is_control { (letter == 'c').then_some(Key::Quit) } else { Key::from_letter(letter) }
}
