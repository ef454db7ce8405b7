//! The program: parses, calls, returns an exit code. No logic, and nothing may import it.

use baton::cli::commands;
use baton::cli::{Cli, Command, Surroundings, unknown_variables};
use baton::config::Config;
use baton::process::exit::Exit;
use baton::supervisor;
use std::process::ExitCode;

fn main() -> ExitCode {
    let command = match Cli::read() {
        Ok(command) => command,
        Err(error) => return commands::usage(&error).into(),
    };
    let exit = match command {
        Command::Run(settings) => {
            let surroundings = Surroundings::read();
            match Config::new(&settings, &surroundings) {
                Ok(config) => supervisor::run(&config),
                Err(mistakes) => {
                    commands::mistakes(&mistakes);
                    supervisor::cannot_run(&settings, &surroundings)
                }
            }
        }
        Command::CheckConfig(settings) => {
            commands::check_config(&settings, &Surroundings::read(), &unknown_variables())
        }
        Command::Status(sidecar) => commands::status(&sidecar),
        Command::Probe { what, sidecar } => commands::probe(what, &sidecar),
        Command::Stopping(sidecar) => commands::stopping(&sidecar),
        Command::Inject(inject) => commands::inject(&inject),
        Command::Rbac(rbac) => commands::rbac(&rbac),
        Command::Version => commands::version(),
    };
    Exit::into(exit)
}
