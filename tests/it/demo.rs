//! The demo of `make run` over files, ZooKeeper, and etcd: its keys, a killed leader and its successor,
//! and the ledger's journal.
//!
//! The demo's ports are fixed, so each demo runs in its own network namespace, which needs no root.

use std::env;
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;

/// Runs the program `$@`, which ends with the thread that started it, with stderr as part of
/// stdout.
const ENTER: &str = r#"exec 2>&1 && ip link set lo up && exec setpriv --pdeathsig KILL "$@""#;

/// When the demo exits by itself, so that no test waits forever.
const SECONDS: &str = "120";

struct Demo {
    process: Child,
    keys: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    /// All output so far.
    output: String,
    /// The last leader's name, and its line.
    leader: Option<(String, String)>,
}

impl Demo {
    fn start(backend: &str) -> Self {
        let mut command = Command::new("unshare");
        command.args(["-rn", "sh", "-c", ENTER, "sh"]).arg(built()).args([
            "--backend",
            backend,
            "--seconds",
            SECONDS,
        ]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("util-linux has unshare");
        let keys = process.stdin.take().expect("it is piped");
        let lines = BufReader::new(process.stdout.take().expect("it is piped")).lines();
        Self { process, keys, lines, output: String::new(), leader: None }
    }

    fn press(&mut self, key: &str) {
        writeln!(self.keys, "{key}").expect("it reads until it ends");
    }

    /// Reads until a candidate does one of these: its name, and the rest of the line. A line is
    /// like
    /// `    2.1 s  a       leading, token 17`.
    #[track_caller]
    fn read_until(&mut self, awaited: &[&str]) -> (String, String) {
        loop {
            let line = self.lines.next().and_then(Result::ok);
            let line = line.unwrap_or_else(|| panic!("none of {awaited:?} in:\n{}", self.output));
            self.output += &line;
            self.output.push('\n');
            if let Some((_, shown)) = line.split_once(" s  ")
                && let Some((name, event)) = shown.split_once(' ')
            {
                let found = (name.to_owned(), event.trim_start().to_owned());
                if found.1.starts_with("leading") {
                    self.leader = Some(found.clone());
                }
                if awaited.iter().any(|awaited| found.1.starts_with(awaited)) {
                    return found;
                }
            }
        }
    }
}

/// The demo's path, built as `make run` builds it: testing an example does not build it.
fn built() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let mut cargo = Command::new(env!("CARGO"));
        // Cargo's variables for this test would rebuild some crates and replace programs that other
        // tests run.
        let variables = env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        for name in variables.filter(|name| {
            name.starts_with("CARGO_") && name != "CARGO_TARGET_DIR" || name == "OUT_DIR"
        }) {
            cargo.env_remove(name);
        }
        cargo.args([
            "build",
            "--locked",
            "--offline",
            "--quiet",
            "--bin",
            "baton",
            "--example",
            "ledger",
        ]);
        let status =
            cargo.args(["--example", "demo"]).current_dir(env!("CARGO_MANIFEST_DIR")).status();
        assert!(status.expect("cargo is there").success(), "the demo can be built");
        env::current_exe().expect("it has a path").with_file_name("../examples/demo")
    })
}

impl Drop for Demo {
    fn drop(&mut self) {
        // Neither fails for a child that nothing else waits for.
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

fn assert_shows_a_succession(backend: &str) {
    let mut demo = Demo::start(backend);
    while demo.read_until(&["lines "]).1.starts_with("lines 0,") {}
    let killed = loop {
        demo.press("k");
        // The state that the demo knows of a candidate is up to a quarter of a second old.
        let (name, event) = demo.read_until(&["killed", "no candidate leads"]);
        if event == "killed" {
            break name;
        }
    };
    let (old, term) = demo.leader.clone().expect("a leader was shown");
    assert_eq!(killed, old, "{}", demo.output);
    let (_, next) = demo.read_until(&["leading"]);
    assert_ne!(next, term, "a new term has a token of its own:\n{}", demo.output);
    demo.press("q");
    let last =
        demo.lines.by_ref().map_while(Result::ok).last().expect("it shows the ledger's journal");
    let output = format!("{}{last}", demo.output);
    assert!(demo.process.wait().expect("it is our child").success(), "{output}");
    assert!(
        last.starts_with("The ledger's journal: ") && last.ends_with("conflicts 0"),
        "{output}"
    );
}

#[test]
fn demo_shows_a_succession_over_files() {
    assert_shows_a_succession("file");
}

#[test]
fn demo_shows_a_succession_over_a_zookeeper_server() {
    assert_shows_a_succession("zookeeper");
}

#[test]
fn demo_shows_a_succession_over_an_etcd_server() {
    assert_shows_a_succession("etcd");
}
