//! Fuzz targets for every parser of untrusted input. A target takes arbitrary bytes and asserts
//! invariants.
//!
//! A target never decides by a clock, and touches only its own files and sockets. The fuzzer
//! (`fuzz/main.rs`) generates inputs; the tests (`tests/it/outside.rs`) replay `fuzz/corpus` and
//! mutations of it. Start reading at [`ALL`].

mod credentials;
mod etcd;
mod files;
mod flags;
mod http;
mod lease;
mod servers;
mod wire;
mod znodes;

/// One source of untrusted input.
pub(crate) struct Target {
    /// The name of the target and of its folder in `fuzz/corpus`.
    pub(crate) name: &'static str,
    /// Parses the bytes and panics if an invariant does not hold.
    pub(crate) read: fn(&[u8]),
    /// The memory limit in bytes: a fixed amount, and an amount for each byte of input. A length
    /// field in the input must not cause an allocation of that length.
    pub(crate) memory: (usize, usize),
}

/// All targets.
pub(crate) const ALL: [Target; 9] = [
    Target { name: "credentials", read: credentials::read, memory: (1 << 20, 64) },
    Target { name: "etcd", read: etcd::read, memory: (64 << 10, 64) },
    Target { name: "files", read: files::read, memory: (64 << 10, 64) },
    Target { name: "flags", read: flags::read, memory: (1 << 20, 256) },
    Target { name: "http", read: http::read, memory: (256 << 10, 64) },
    Target { name: "lease", read: lease::read, memory: (1 << 20, 256) },
    Target { name: "servers", read: servers::read, memory: (48 << 10, 64) },
    Target { name: "wire", read: wire::read, memory: (4 << 10, 64) },
    // One byte, an empty name, expands to the candidate's whole name.
    Target { name: "znodes", read: znodes::read, memory: (16 << 10, 256) },
];

/// Parses JSON; replaces invalid UTF-8, which may occur in fields that Baton ignores.
fn json(bytes: &[u8]) -> Option<serde_json::Value> {
    serde_json::from_str(&String::from_utf8_lossy(bytes)).ok()
}
