//! The program: parses, calls, returns an exit code. No logic, and nothing may import it.

use baton::cli::{Cli, Command, Surroundings};
use baton::config::Config;
use baton::exit::Exit;
use baton::{commands, supervisor};
use clap::Parser as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    let command = match Cli::try_parse() {
        Ok(cli) => cli.into_command(),
        Err(error) => return commands::usage(&error).into(),
    };
    let exit = match command {
        Command::Run(settings) => match Config::new(&settings, &Surroundings::read()) {
            Ok(config) => supervisor::run(&config),
            Err(mistakes) => {
                commands::mistakes(&mistakes);
                supervisor::cannot_run(&settings)
            }
        },
        Command::CheckConfig(settings) => commands::check_config(&settings, &Surroundings::read()),
        Command::Status(sidecar) => commands::status(&sidecar),
        Command::Probe { what, sidecar } => commands::probe(what, &sidecar),
        Command::Stopping(sidecar) => commands::stopping(&sidecar),
        Command::Inject(inject) => commands::inject(&inject),
        Command::Rbac(rbac) => commands::rbac(&rbac),
        Command::Version => commands::version(),
    };
    Exit::into(exit)
}
