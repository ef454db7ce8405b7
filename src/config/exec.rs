//! The settings of `baton exec`.
//!
//! Pure. Start with [`Config::for_command`]. A command must have time to stop before its claim ends,
//! and to be renewed before it is stopped.

use super::{Config, ConfigError, ErrorCollector, OnLost, StoreConfig, non_empty};
use crate::cli::{Environment, Exec};
use baton_election::command::KILL_MARGIN;
use baton_election::timing::Timing;
use std::ffi::OsString;
use std::time::Duration;

/// A command that runs only while this candidate leads.
#[derive(Debug, Clone)]
pub struct ExecConfig {
    /// The command and its arguments: never empty.
    pub command: Vec<OsString>,
    /// How long before the claim ends the command gets SIGTERM.
    pub kill_after: Duration,
    /// How long the command may take to stop on request.
    pub stop_timeout: Duration,
    /// Added to the niceness of the command.
    pub nice: i32,
}

const DEFAULT_KILL_AFTER: Duration = Duration::from_secs(2);
const DEFAULT_STOP_TIMEOUT: Duration = Duration::from_secs(20);
const DEFAULT_NICE: i32 = 5;

impl Config {
    /// Checks the settings of `baton exec` in this `environment`, and returns every error.
    pub fn for_command(exec: &Exec, environment: &Environment) -> Result<Self, Vec<ConfigError>> {
        let mut errors = ErrorCollector::default();
        let config = Self::new(&exec.settings, environment);
        let kill_after = errors
            .duration("kill-after", non_empty(exec.kill_after.as_ref()))
            .unwrap_or(DEFAULT_KILL_AFTER);
        let stop_timeout = errors
            .duration("stop-timeout", non_empty(exec.stop_timeout.as_ref()))
            .unwrap_or(DEFAULT_STOP_TIMEOUT);
        let nice = non_empty(exec.nice.as_ref()).map_or(Ok(DEFAULT_NICE), nice);
        let nice = errors.check(nice).unwrap_or(DEFAULT_NICE);
        if exec.command.first().is_none_or(|program| program.is_empty()) {
            errors.0.push(ConfigError::NoCommand);
        }
        if non_empty(exec.settings.require_polling.as_ref()).is_some() {
            errors.0.push(ConfigError::PolledCommand);
        }
        if non_empty(exec.settings.fit_url.as_ref()).is_some() {
            errors.0.push(ConfigError::CommandWithFitness);
        }
        if kill_after < KILL_MARGIN {
            errors.0.push(ConfigError::KillAfterTooShort { kill_after, least: KILL_MARGIN });
        }
        match config {
            Ok(config) => {
                let most = config.longest_kill_after();
                if kill_after > most {
                    errors.0.push(ConfigError::KillAfterTooLong { kill_after, most });
                }
                if !errors.0.is_empty() {
                    return Err(errors.0);
                }
                let command = exec.command.clone();
                let exec = ExecConfig { command, kill_after, stop_timeout, nice };
                Ok(Self { exec: Some(exec), ..config })
            }
            Err(mut found) => {
                found.extend(errors.0);
                Err(found)
            }
        }
    }

    /// The action on lost leadership that decides whether the last run may have left its application
    /// running: the command of `baton exec` never outlives its run.
    pub const fn outlived_by_application(&self) -> OnLost {
        if self.exec.is_some() { OnLost::Stay } else { self.on_lost }
    }

    /// The timing that the store is expected to grant.
    pub fn expected_timing(&self) -> Timing {
        match &self.store {
            StoreConfig::ZooKeeper(zookeeper) => zookeeper.timing.expected().0,
            StoreConfig::Lease { .. } | StoreConfig::Etcd(_) | StoreConfig::File { .. } => {
                self.timing
            }
        }
    }

    /// The longest `--kill-after` that leaves time for two tries to renew the claim.
    fn longest_kill_after(&self) -> Duration {
        let timing = self.expected_timing();
        let renewals = timing.retry_period() * 2;
        timing.renew_deadline().saturating_sub(renewals)
    }
}

fn nice(text: &str) -> Result<i32, ConfigError> {
    let number = text.parse().ok().filter(|number| (0..=19).contains(number));
    number.ok_or_else(|| ConfigError::Nice(text.to_owned()))
}
