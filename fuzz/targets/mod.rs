//! Whatever is read from outside, by where it comes from: each target takes any bytes, and asserts what has to hold.
//!
//! Start with [`ALL`]. The fuzzer (`fuzz/main.rs`) invents bytes without end; the tests (`tests/it/outside.rs`) replay those in
//! `fuzz/corpus`, and what lies near them. A target never looks at a clock to decide, and touches nothing but files and
//! sockets of its own.

mod credentials;
mod files;
mod flags;
mod http;
mod lease;
mod servers;
mod wire;
mod znodes;

/// Something that is read from outside.
pub(crate) struct Target {
    /// Its name, and that of its folder in `fuzz/corpus`.
    pub(crate) name: &'static str,
    /// Reads these bytes, and panics where something does not hold.
    pub(crate) read: fn(&[u8]),
    /// The most that reading may hold at a time, in bytes: so many, and so many for each byte that was read. A length
    /// that was merely told must not count.
    pub(crate) memory: (usize, usize),
}

/// All of them.
pub(crate) const ALL: [Target; 8] = [
    Target { name: "credentials", read: credentials::read, memory: (1 << 20, 64) },
    Target { name: "files", read: files::read, memory: (64 << 10, 64) },
    Target { name: "flags", read: flags::read, memory: (1 << 20, 256) },
    Target { name: "http", read: http::read, memory: (256 << 10, 64) },
    Target { name: "lease", read: lease::read, memory: (1 << 20, 256) },
    Target { name: "servers", read: servers::read, memory: (48 << 10, 64) },
    Target { name: "wire", read: wire::read, memory: (4 << 10, 64) },
    // An empty name is a byte that stands for all of ours.
    Target { name: "znodes", read: znodes::read, memory: (16 << 10, 256) },
];

/// The JSON that this is, also where what is no UTF-8 stands in a field that nobody reads.
fn json(bytes: &[u8]) -> Option<serde_json::Value> {
    serde_json::from_str(&String::from_utf8_lossy(bytes)).ok()
}
