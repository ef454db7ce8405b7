//! The flags of `baton inject`.
//!
//! Pure. Start with [`Inject`].

use clap::{Args, ValueEnum};

/// The image that `make image` builds.
const DEFAULT_IMAGE: &str = concat!("localhost/baton:", env!("CARGO_PKG_VERSION"));

/// The flags of `baton inject`.
#[derive(Debug, Clone, Args)]
pub struct Inject {
    /// Image of the sidecar
    #[arg(long, value_name = "IMAGE", default_value = DEFAULT_IMAGE)]
    pub image: String,
    /// Whether Kubernetes (1.36 or later) restarts all containers of a Pod that lost leadership;
    /// never by default with --kyverno
    #[arg(
        long,
        value_enum,
        value_name = "WHEN",
        default_value_t = RestartApplication::Always,
        default_value_if("kyverno", "true", "never")
    )]
    pub restart_application: RestartApplication,
    /// Prefix of the label and annotations: PREFIX/inject, PREFIX/election, PREFIX/config.FLAG
    #[arg(long, default_value = "baton")]
    pub prefix: String,
    /// Print nothing and exit with 2 if a template seems meant for a sidecar but gets none
    #[arg(long)]
    pub strict: bool,
    /// Read nothing, and print a Kyverno policy that adds the sidecar to labeled Pods
    #[arg(long, conflicts_with = "strict")]
    pub kyverno: bool,
}

/// Whether the application restarts when the sidecar loses leadership.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RestartApplication {
    /// Restart all containers of the Pod
    Always,
    /// Restart nothing: the application polls the sidecar and stops by itself
    Never,
}
