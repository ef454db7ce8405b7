//! The `baton` binary: parses the command line and runs the subcommand.

use baton::cli::{self, commands};
use baton::cli::{Cli, Command, Environment, OutputFormat, unknown_variables};
use baton::compat;
use baton::config::Config;
use baton::doctor;
use baton::exec::{guard, trampoline};
use baton::observe;
use baton::process::exit::Exit;
use baton::process::memory;
use baton::supervisor;
use std::process::ExitCode;

fn main() -> ExitCode {
    memory::keep_private();
    let command = match Cli::read() {
        Ok(command) => command,
        Err(error) => return commands::print_usage(&error).into(),
    };
    let exit = match command {
        Command::Run(settings) => {
            let environment = Environment::read();
            match Config::new(&settings, &environment) {
                Ok(config) => supervisor::run(&config),
                Err(errors) => {
                    commands::print_config_errors(&errors);
                    supervisor::refuse_settings(&settings, &environment)
                }
            }
        }
        Command::Exec(exec) => {
            let environment = Environment::read();
            match Config::for_command(&exec, &environment) {
                Ok(config) => supervisor::run(&config),
                Err(errors) => commands::print_config_errors(&errors),
            }
        }
        Command::Observe(observe) => {
            let environment = Environment::read();
            match Config::new(&observe.settings, &environment) {
                Ok(config) => observe::observe(&config, OutputFormat::or_default(observe.output)),
                Err(errors) => commands::print_config_errors(&errors),
            }
        }
        Command::Guard(guard) => guard::run(&guard),
        Command::Trampoline(trampoline) => trampoline::run(&trampoline),
        Command::CheckConfig(settings) => {
            commands::check_config(&settings, &Environment::read(), &unknown_variables())
        }
        Command::Doctor(settings) => {
            doctor::doctor(&settings, &Environment::read(), &unknown_variables())
        }
        Command::Status { output, sidecar } => commands::status(output, &sidecar),
        Command::Probe { probe, sidecar } => commands::probe(probe, &sidecar),
        Command::Stopping(sidecar) => commands::stopping(&sidecar),
        Command::Resign { hold_off, sidecar } => commands::resign(hold_off.as_deref(), &sidecar),
        Command::Inject(inject) => commands::inject(&inject),
        Command::Rbac(rbac) => commands::rbac(&rbac),
        Command::Install { directory } => commands::install(&directory),
        Command::Compat { sidecar } => compat::compat(&sidecar, &Environment::read()),
        Command::Completions { shell } => cli::completions(shell),
        Command::Man { subcommand } => cli::man(subcommand.as_deref()),
        Command::Version => commands::version(),
    };
    Exit::into(exit)
}
