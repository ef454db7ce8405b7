//! Build information, which the package's `build.rs` sets.
//!
//! Pure. Start with [`VERSION`].

/// The semantic version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The commit, or `unknown` outside of a checkout.
pub const REVISION: &str = env!("BATON_BUILD_REVISION");
/// The compiler's version.
pub const RUSTC: &str = env!("BATON_BUILD_RUSTC");
