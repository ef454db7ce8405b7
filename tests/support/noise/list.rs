//! Lists the repeated cases at the end of the test binary.
//!
//! libtest does not report its end to cases. So a shell waits for the end of its standard input,
//! which comes with the end of this process, and then prints the list. Start with [`report`].

use super::locked;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

/// Prints its standard input after a count of the cases, on standard error. `$0` is the number of
/// all cases.
const LIST: &str = r#"lines=$(cat)
again=$(printf '%s\n' "$lines" | cut -d ' ' -f 1 | sort -u | wc -l)
printf '\nnoise: %s of %s cases ran again:\n%s\n' "$again" "$0" "$lines" >&2"#;

/// Reports that a case runs again and why: now, past libtest's capture, and in the list at the end.
pub(crate) fn report(cases: usize, name: &str, why: &str) {
    static LISTER: Mutex<Option<Child>> = Mutex::new(None);

    // Standard error may be closed.
    drop(writeln!(io::stderr(), "noise: {name} runs again: {why}"));
    let mut lister = locked(&LISTER);
    let lister = lister.get_or_insert_with(|| begin(cases));
    let lines = lister.stdin.as_mut().expect("it is piped");
    writeln!(lines, "{name} {why}").expect("the shell reads until this process ends");
}

fn begin(cases: usize) -> Child {
    let mut shell = Command::new("sh");
    // A group of its own: Ctrl-C ends the tests, and the list is still printed.
    shell.args(["-c", LIST, &cases.to_string()]).process_group(0);
    shell.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("there is a shell")
}
