//! Znodes that were open before a team had credentials, and znodes that all teams share.

use super::{PATIENCE, messages};
use crate::rig::{Candidate, ELECTION, Ensemble, Rig, Start, Store as _, Znodes, eventually};
use std::fs;
use std::sync::Arc;
use std::time::Duration;
use zookeeper_client::wire::Code;

/// The credentials of a team.
const SHOP: &str = "digest:shop:secret";

/// A path with a parent that belongs to this election alone.
const DEEP: &str = "/deep/er/orders";

const ALL: i32 = 31;
const READ: i32 = 1;
const CREATE: i32 = 4;
/// To read, to create and to delete, but not to set the access list.
const USE: i32 = 1 + 4 + 8;

/// A candidate that is about to be started with these credentials.
fn with<'a>(rig: &'a Rig<Znodes>, name: &str, credentials: &str) -> Start<'a, Znodes> {
    let file = rig.folder().join(name);
    fs::write(&file, format!("{credentials}\n")).unwrap();
    rig.candidate(name).flag("--zookeeper-auth-file", file.to_str().expect("it is UTF-8"))
}

/// Makes a znode and what is above it, as `zkCli create` does: open to everybody.
fn make(rig: &Rig<Znodes>, path: &str) -> String {
    for (at, _) in path.match_indices('/').skip(1) {
        rig.store.admin.create(&rig.store.below(&path[..at]), "").ok();
    }
    rig.store.admin.create(&rig.store.below(path), "").unwrap()
}

/// The znode that stands first below a path.
fn first(rig: &Rig<Znodes>, path: &str) -> String {
    let mut names = rig.store.admin.children(path).unwrap();
    names.sort_by_key(|name| name[name.len() - 10..].to_owned());
    format!("{path}/{}", names[0])
}

/// Waits for the refusal, and returns the command that would help: a path, and a list.
fn told_command(candidate: &Arc<Candidate>) -> (String, String) {
    eventually(PATIENCE, "it says what to do", || {
        messages(candidate, "store_refuses").iter().any(|message| message.contains("setAcl "))
    });
    let told = messages(candidate, "store_refuses").join("\n");
    assert_eq!(candidate.exit_code(), 77);
    let command = told
        .split("`setAcl ")
        .nth(1)
        .and_then(|rest| rest.split('`').next())
        .expect("it is in backticks");
    let (path, list) = command.split_once(' ').expect("a path and a list");
    (path.to_owned(), list.to_owned())
}

/// Does what zkCli does with a `setAcl` whose list names us and the world.
fn paste(rig: &Rig<Znodes>, ensemble: &Ensemble, path: &str, list: &str) {
    assert_eq!(list, "auth::cdrwa,world:anyone:r");
    let team = ensemble.admin_with(SHOP);
    team.set_access(path, &[(31, "auth", ""), (READ, "world", "anyone")]).unwrap();
    assert!(rig.store.admin.access(path).unwrap().ends_with("world:anyone:r"));
}

#[test]
fn open_path_is_closed_before_a_team_stands_there() {
    let rig = Rig::over(Znodes::fresh(), Znodes::CALM);
    let path = rig.store.make_path(ELECTION);
    let leader = with(&rig, "a", SHOP).start();
    assert_eq!(rig.leader().identity, leader.identity);
    let own = first(&rig, &path);
    assert_eq!(
        rig.store.admin.delete(&own),
        Err(Code::NoAuth),
        "a stranger deletes the leader's znode"
    );
    assert_eq!(rig.store.admin.stand_in_line(&format!("{path}/x")), Err(Code::NoAuth));
    let follower = with(&rig, "b", SHOP).start();
    eventually(PATIENCE, "it follows", || rig.stands(&follower, "following"));
    assert_eq!(messages(&leader, "access_list_closed").len(), 1);
    assert_eq!(messages(&follower, "access_list_closed"), [""; 0]);
    assert_eq!(
        messages(&leader, "shared_parent").len(),
        1,
        "its parent is /baton, which all teams share"
    );
    rig.hear_enough();
}

#[test]
fn closing_a_path_drops_planted_entries_and_names_them() {
    let rig = Rig::over(Znodes::fresh(), Znodes::CALM);
    let path = rig.store.make_path(ELECTION);
    let open = [(ALL, "world", "anyone"), (ALL, "digest", "evil:hash")];
    rig.store.admin.set_access(&path, &open).unwrap();
    let leader = with(&rig, "a", SHOP).start();
    assert_eq!(rig.leader().identity, leader.identity);
    let list = Ensemble::shared().admin_with(SHOP).access(&path).unwrap();
    assert!(list.starts_with("digest:shop:") && list.ends_with(":cdrwa,world:anyone:r"), "{list}");
    assert!(!list.contains("evil"), "{list}");
    let told = messages(&leader, "access_list_closed").join("\n");
    assert!(told.contains("digest:evil") && !told.contains("digest:shop"), "{told}");
    assert_eq!(messages(&leader, "other_administrators"), [""; 0]);
    rig.hear_enough();
}

#[test]
fn other_identities_with_rights_are_named_once() {
    let rig = Rig::over(Znodes::fresh(), Znodes::CALM);
    let path = rig.store.make_path(ELECTION);
    let team = Ensemble::shared().admin_with(SHOP);
    let prepared = [(ALL, "auth", ""), (CREATE, "digest", "ops:hash"), (READ, "world", "anyone")];
    team.set_access(&path, &prepared).unwrap();
    let leader = with(&rig, "a", SHOP).start();
    assert_eq!(rig.leader().identity, leader.identity);
    eventually(PATIENCE, "it names them", || !messages(&leader, "other_administrators").is_empty());
    let told = messages(&leader, "other_administrators");
    assert!(told[0].contains("digest:ops") && !told[0].contains("digest:shop"), "{told:?}");
    assert_eq!(told.len(), 1, "{told:?}");
    rig.hear_enough();
}

#[test]
fn reopened_path_is_closed_again_around_our_own() {
    let rig = Rig::over(Znodes::fresh(), Znodes::CALM);
    let leader = with(&rig, "a", SHOP).start();
    assert_eq!(rig.leader().identity, leader.identity);
    let path = rig.store.below(&format!("/baton/{ELECTION}"));
    let team = Ensemble::shared().admin_with(SHOP);
    team.set_access(&path, &[(ALL, "world", "anyone")]).unwrap();
    let follower = with(&rig, "b", SHOP).start();
    eventually(PATIENCE, "it follows", || rig.stands(&follower, "following"));
    assert_eq!(messages(&follower, "access_list_closed").len(), 1);
    assert_eq!(rig.store.admin.delete(&first(&rig, &path)), Err(Code::NoAuth));
    rig.hear_enough();
}

#[test]
fn open_path_of_contenders_with_other_credentials_is_refused() {
    let rig = Rig::over(Znodes::fresh(), Znodes::CALM);
    let path = rig.store.make_path(ELECTION);
    let curator = Ensemble::shared().admin_with("digest:curator:own");
    let contender = curator.create(&format!("{path}/_c_0-latch-0000000000"), "").unwrap();
    curator.set_access(&contender, &[(ALL, "auth", ""), (READ, "world", "anyone")]).unwrap();
    let (told_path, list) = told_command(&with(&rig, "a", SHOP).start());
    assert_eq!((told_path, &*list), (path.clone(), "auth::cdrwa,world:anyone:r"));
    assert_eq!(rig.store.admin.access(&path).unwrap(), "world:anyone:cdrwa", "they can join again");
    assert_eq!(rig.store.admin.children(&path).unwrap().len(), 1, "it has not joined");
    rig.store.admin.delete(&contender).unwrap();
    let leader = with(&rig, "b", SHOP).start();
    assert_eq!(rig.leader().identity, leader.identity);
    rig.hear_enough();
}

#[test]
fn candidates_without_credentials_lead_on_in_a_closed_path() {
    let rig = Rig::over(Znodes::fresh(), Znodes::CALM);
    let old = rig.start_leader("old");
    let [waiting] = rig.start_followers(["waiting"]);
    let path = rig.store.below(&format!("/baton/{ELECTION}"));
    let before = rig.store.admin.access(&path).unwrap();
    let (told_path, list) = told_command(&with(&rig, "refused", SHOP).start());
    assert_eq!(told_path, path);
    assert_eq!(rig.store.admin.access(&path).unwrap(), before, "others stand there");
    paste(&rig, Ensemble::shared(), &told_path, &list);
    let new = with(&rig, "new", SHOP).start();
    eventually(PATIENCE, "it follows", || rig.stands(&new, "following"));
    let handoff = Duration::from_millis(1100) + Znodes::NOISE;
    for (leaves, succeeds) in [(&old, &waiting), (&waiting, &new)] {
        let asked = leaves.terminate();
        assert_eq!(leaves.exit_code(), 0);
        assert_eq!(rig.successor(leaves, asked, handoff).0.identity, succeeds.identity);
    }
    let stranger = rig.start("stranger");
    eventually(PATIENCE, "it says what it lacks", || {
        messages(&stranger, "store_refuses")
            .iter()
            .any(|message| message.contains("--zookeeper-auth-file"))
    });
    assert_eq!(stranger.exit_code(), 77);
    rig.hear_enough();
    assert_eq!(rig.tokens(ELECTION).len(), 3);
}

#[test]
fn open_parent_is_refused_with_the_command_that_closes_it() {
    let ensemble = Ensemble::shared();
    let rig = Rig::over(Znodes::fresh(), Znodes::CALM);
    let path = make(&rig, DEEP);
    let parent = path.rsplit_once('/').expect("it has one").0.to_owned();
    let (told_path, list) =
        told_command(&with(&rig, "a", SHOP).flag("--zookeeper-path", DEEP).start());
    assert_eq!(told_path, parent);
    assert_eq!(rig.store.admin.children(&path), Ok(Vec::new()), "nobody stands there");
    paste(&rig, ensemble, &told_path, &list);
    let leader = with(&rig, "b", SHOP).flag("--zookeeper-path", DEEP).start();
    assert_eq!(rig.leader().identity, leader.identity);
    let acknowledgement = format!("{path}_leader");
    eventually(PATIENCE, "it is acknowledged", || rig.store.admin.read(&acknowledgement).is_ok());
    for znode in [first(&rig, &path), acknowledgement] {
        assert_eq!(rig.store.admin.delete(&znode), Err(Code::NoAuth), "{znode}");
    }
    rig.hear_enough();
}

#[test]
fn open_path_of_another_administrator_is_refused() {
    let ensemble = Ensemble::shared();
    let rig = Rig::over(Znodes::fresh(), Znodes::CALM);
    let path = rig.store.make_path(ELECTION);
    let owner = ensemble.admin_with("digest:owner:own");
    owner.set_access(&path, &[(31, "auth", ""), (USE, "world", "anyone")]).unwrap();
    let before = rig.store.admin.access(&path).unwrap();
    let refused = with(&rig, "a", SHOP).start();
    let (told_path, list) = told_command(&refused);
    assert_eq!((told_path, &*list), (path.clone(), "auth::cdrwa,world:anyone:r"));
    assert_eq!(rig.store.admin.access(&path).unwrap(), before, "it is as the owner left it");
    let told = messages(&refused, "store_refuses").join("\n");
    assert!(told.contains("an administrator's credentials"), "{told}");
    assert!(told.contains("the servers hide from us: digest:owner"), "{told}");
    let leader = with(&rig, "b", "digest:owner:own").start();
    assert_eq!(rig.leader().identity, leader.identity);
    assert_eq!(
        rig.store.admin.delete(&first(&rig, &path)),
        Err(Code::NoAuth),
        "the owner may close it"
    );
    rig.hear_enough();
}

#[test]
fn first_team_with_credentials_leaves_the_shared_parent_open() {
    let rig = Rig::over(Znodes::fresh(), Znodes::CALM);
    let path = |team: &str| format!("/baton/{team}/orders");
    let shop = with(&rig, "shop", SHOP).flag("--zookeeper-path", path("shop")).start();
    assert_eq!(rig.leader().identity, shop.identity);
    let bank = with(&rig, "bank", "digest:bank:vault")
        .flag("--zookeeper-path", path("bank"))
        .election("bank")
        .start();
    eventually(PATIENCE, "another team elects beside it", || rig.stands(&bank, "leading"));
    assert_eq!(rig.store.admin.access(&rig.store.below("/baton")).unwrap(), "world:anyone:cdrwa");
    for team in ["shop", "bank"] {
        let path = rig.store.below(&path(team));
        assert_eq!(rig.store.admin.delete(&format!("{path}_leader")), Err(Code::NoAuth), "{team}");
        assert_eq!(rig.store.admin.delete(&first(&rig, &path)), Err(Code::NoAuth), "{team}");
    }
    assert_eq!(messages(&shop, "shared_parent"), [""; 0]);
    rig.hear_enough();
}

#[test]
fn digest_without_tls_warns_once() {
    let rig = Rig::over(Znodes::fresh(), Znodes::CALM);
    let leader = with(&rig, "a", SHOP).start();
    assert_eq!(rig.leader().identity, leader.identity);
    let told = messages(&leader, "password_in_clear");
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("--zookeeper-ca-file") && !told[0].contains("secret"), "{told:?}");
    rig.hear_enough();
}

#[test]
fn empty_file_of_credentials_is_refused_at_start() {
    let rig = Rig::over(Znodes::fresh(), Znodes::CALM);
    let (code, output) = with(&rig, "a", "").ends();
    assert_eq!(code, 2);
    assert!(output.contains("--zookeeper-auth-file: it is empty"), "{output}");
    assert!(rig.store.admin.read(&rig.store.below("/baton")).is_err(), "it has touched nothing");
    with(&rig, "b", SHOP).start();
    rig.leader();
    rig.hear_enough();
}
