//! The settings for looking up how the last run ended.
//!
//! Pure. Start with [`LastRunSettings`].

use super::{ElectionName, OnLost, non_empty};
use crate::cli::Settings;
use std::path::PathBuf;

/// The settings for looking up how the last run ended, valid even if others are not.
#[derive(Debug, Clone)]
pub struct LastRunSettings {
    /// The state directory.
    pub directory: PathBuf,
    /// The election's name.
    pub election: ElectionName,
    /// The reaction to lost leadership.
    pub on_lost: OnLost,
}

impl LastRunSettings {
    /// Returns `None` if the settings name no state directory or no valid election.
    pub fn new(settings: &Settings) -> Option<Self> {
        let directory = non_empty(settings.state_directory.as_ref())?.into();
        let election = non_empty(settings.election.as_ref())?.parse().ok()?;
        let stays = non_empty(settings.on_lost.as_ref()) == Some("stay");
        Some(Self { directory, election, on_lost: if stays { OnLost::Stay } else { OnLost::Exit } })
    }
}
