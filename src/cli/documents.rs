//! Completion scripts and manual pages, generated from the flags.
//!
//! Touches standard output and error. Start with [`completions`]. Subcommands that only Baton itself
//! starts are left out.

use crate::cli::commands::{print_stderr, write_stdout};
use crate::cli::{Cli, Shell};
use crate::process::exit::Exit;
use crate::telemetry::build;
use clap::{Command, CommandFactory as _};
use clap_complete::shells::{Bash, Fish, Zsh};
use clap_mangen::Man;

/// Prints a script that completes subcommands and flags in `shell`.
pub fn completions(shell: Shell) -> Exit {
    let mut script = Vec::new();
    let command = &mut completed();
    match shell {
        Shell::Bash => clap_complete::generate(Bash, command, "baton", &mut script),
        Shell::Zsh => clap_complete::generate(Zsh, command, "baton", &mut script),
        Shell::Fish => clap_complete::generate(Fish, command, "baton", &mut script),
    }
    write_stdout(&script)
}

/// Prints the manual page of `subcommand`, or of baton itself.
pub fn man(subcommand: Option<&str>) -> Exit {
    let mut baton = Cli::command();
    baton.build();
    let shown = |command: &&Command| !command.is_hide_set();
    let page = match subcommand {
        None => Some(&baton),
        Some(name) => baton.find_subcommand(name).filter(shown),
    };
    let Some(page) = page else {
        let names: Vec<_> = baton.get_subcommands().filter(shown).map(Command::get_name).collect();
        print_stderr(&format_args!(
            "there is no subcommand {}: name one of {}",
            subcommand.unwrap_or_default(),
            names.join(", ")
        ));
        return Exit::Usage;
    };
    let source = format!("baton {}", build::VERSION);
    let mut text = Vec::new();
    // Writing to memory cannot fail.
    Man::new(page.clone()).source(source).render(&mut text).ok();
    write_stdout(&text)
}

/// The flags of `baton` and the subcommands that people use.
fn completed() -> Command {
    let baton = Cli::command();
    let subcommands = baton.get_subcommands().filter(|command| !command.is_hide_set());
    Command::new("baton").args(baton.get_arguments().cloned()).subcommands(subcommands.cloned())
}
