//! What `make run` shows, over each backend: its keys, a leader that is killed and succeeded, and what the ledger saw of it.
//!
//! The demo's ports are fixed, so each runs in a network of its own, which needs no root.

use std::env;
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;

/// Becomes the program `$@`, which ends with the thread that started it. What it complains of is part of what it says.
const ENTER: &str = r#"exec 2>&1 && ip link set lo up && exec setpriv --pdeathsig KILL "$@""#;

/// When the demo ends by itself, so that nothing is waited for without end.
const SECONDS: &str = "120";

struct Demo {
    process: Child,
    keys: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    /// All that it has said.
    told: String,
    /// Who led last, and in which term.
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
        Self { process, keys, lines, told: String::new(), leader: None }
    }

    fn press(&mut self, key: &str) {
        writeln!(self.keys, "{key}").expect("it reads until it ends");
    }

    /// Who is said to do one of these next, and the words: a line is like `    2.1 s  a       leading, token 17`.
    #[track_caller]
    fn hear(&mut self, awaited: &[&str]) -> (String, String) {
        loop {
            let line = self.lines.next().and_then(Result::ok);
            let line =
                line.unwrap_or_else(|| panic!("nobody does any of {awaited:?} in:\n{}", self.told));
            self.told += &line;
            self.told.push('\n');
            if let Some((_, said)) = line.split_once(" s  ")
                && let Some((who, words)) = said.split_once(' ')
            {
                let heard = (who.to_owned(), words.trim_start().to_owned());
                if heard.1.starts_with("leading") {
                    self.leader = Some(heard.clone());
                }
                if awaited.iter().any(|awaited| heard.1.starts_with(awaited)) {
                    return heard;
                }
            }
        }
    }
}

/// The demo, built as `make run` builds it: tests of examples do not build the examples.
fn built() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let mut cargo = Command::new(env!("CARGO"));
        // What cargo says of this test would have some crates built anew, and the programs replaced under the other tests.
        let said = env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        for name in said.filter(|name| {
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
        // Neither fails for a child that we alone wait for.
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

fn shows_a_leader_its_end_and_its_successor(backend: &str) {
    let mut demo = Demo::start(backend);
    while demo.hear(&["lines "]).1.starts_with("lines 0,") {}
    let killed = loop {
        demo.press("k");
        // What is shown of a candidate is a quarter of a second old.
        let (who, what) = demo.hear(&["killed", "no candidate leads"]);
        if what == "killed" {
            break who;
        }
    };
    let (old, term) = demo.leader.clone().expect("who works was told to lead");
    assert_eq!(killed, old, "{}", demo.told);
    let (_, next) = demo.hear(&["leading"]);
    assert_ne!(next, term, "a new term has a token of its own:\n{}", demo.told);
    demo.press("q");
    let last =
        demo.lines.by_ref().map_while(Result::ok).last().expect("it says what the ledger saw");
    let told = format!("{}{last}", demo.told);
    assert!(demo.process.wait().expect("it is our child").success(), "{told}");
    assert!(last.starts_with("The ledger's journal: ") && last.ends_with("conflicts 0"), "{told}");
}

#[test]
fn the_demo_shows_a_succession_over_files() {
    shows_a_leader_its_end_and_its_successor("file");
}

#[test]
fn the_demo_shows_a_succession_over_a_zookeeper_server_of_its_own() {
    shows_a_leader_its_end_and_its_successor("zookeeper");
}
