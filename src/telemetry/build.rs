//! What was built: set by `build.rs` at the top of the repository.

/// The version, by semver.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The commit, or `unknown` outside a checkout.
pub const REVISION: &str = env!("BATON_BUILD_REVISION");
/// The compiler.
pub const RUSTC: &str = env!("BATON_BUILD_RUSTC");
