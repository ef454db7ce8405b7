//! `baton doctor` without a server: flags, variables, and files.

use super::{baton, run};
use crate::rig::{Rig, Timing};

#[test]
fn each_check_has_a_line() {
    let rig = Rig::new(Timing::CALM);
    let leader = rig.start_leader("a");
    let directory = rig.store.directory().to_string_lossy().into_owned();
    let arguments = ["doctor", "--election=orders", "--backend=file", "--directory", &directory];
    let (code, lines, errors) = run(&mut baton(&arguments));
    assert_eq!((code, errors.as_str()), (0, ""), "{lines}");
    for words in ["ok       version", "ok       variables", "ok       settings ", "answers in"] {
        assert!(lines.contains(words), "{words} is not in {lines}");
    }
    assert!(lines.contains("names a, lease duration"), "{lines}");
    assert!(rig.has_standing(&leader, "leading"));
    rig.wait_for_answers();
}

#[test]
fn failures_name_the_remedy_and_decide_the_code() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_string_lossy().into_owned();
    let empty = ["doctor", "--election=orders", "--backend=file", "--directory", &path];
    assert_eq!(run(&mut baton(&empty)).0, 0);
    assert_eq!(std::fs::read_dir(&path).unwrap().count(), 0, "it created something");
    let missing = folder.path().join("missing").to_string_lossy().into_owned();
    let file = ["doctor", "--election=orders", "--backend=file", "--directory", &missing];
    let (code, lines, _) = run(&mut baton(&file));
    assert_eq!(code, 2, "{lines}");
    assert!(lines.contains("failure  files") && lines.contains("create it"), "{lines}");

    let short = ["doctor", "--election=orders", "--backend=lease", "--lease-duration=5s"];
    let (code, lines, _) = run(baton(&short).env("BATON_ELCTION", "orders"));
    assert_eq!(code, 2, "{lines}");
    assert!(lines.contains("failure  settings"), "{lines}");
    assert!(lines.contains("did you mean BATON_ELECTION?"), "{lines}");

    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let servers = format!("--zookeeper-servers={port}");
    let nobody = ["doctor", "--election=orders", "--backend=zookeeper", &servers];
    let (code, lines, _) = run(&mut baton(&nobody));
    assert_eq!(code, 69, "{lines}");
    assert!(lines.contains("failure  store") && lines.contains("refused"), "{lines}");
}
