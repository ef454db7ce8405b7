//! Znodes that were open before a team had credentials, and znodes that all teams share.

use super::{PATIENCE, messages};
use crate::rig::{Candidate, ELECTION, Ensemble, Rig, Start, Store as _, Znodes, eventually};
use std::fs;
use std::sync::Arc;
use std::time::Duration;
use zookeeper_client::wire::Code;

/// The credentials of a team.
const SHOP: &str = "digest:shop:secret";

/// A path whose parent belongs to this election alone.
const DEEP: &str = "/deep/er/orders";

const ALL: i32 = 31;
const READ: i32 = 1;
const CREATE: i32 = 4;
/// Permission to read, create, and delete, but not to set the access list.
const ALL_BUT_ADMIN: i32 = 1 + 4 + 8;

/// A candidate with these credentials, not yet started.
fn candidate_with<'a>(rig: &'a Rig<Znodes>, name: &str, credentials: &str) -> Start<'a, Znodes> {
    let file = rig.folder().join(name);
    fs::write(&file, format!("{credentials}\n")).unwrap();
    rig.candidate(name).flag("--zookeeper-auth-file", file.to_str().expect("it is UTF-8"))
}

/// Creates a znode and its parents as `zkCli create` does: open to everyone.
fn create_open(rig: &Rig<Znodes>, path: &str) -> String {
    for (at, _) in path.match_indices('/').skip(1) {
        rig.store.admin.create(&rig.store.below(&path[..at]), "").ok();
    }
    rig.store.admin.create(&rig.store.below(path), "").unwrap()
}

/// The first znode in the queue below a path.
fn first(rig: &Rig<Znodes>, path: &str) -> String {
    let mut names = rig.store.admin.children(path).unwrap();
    names.sort_by_key(|name| name[name.len() - 10..].to_owned());
    format!("{path}/{}", names[0])
}

/// Waits for the refusal, and returns the path and the access list of the command that it suggests.
fn suggested_command(candidate: &Arc<Candidate>) -> (String, String) {
    eventually(PATIENCE, "a command is suggested", || {
        messages(candidate, "store_refuses").iter().any(|message| message.contains("setAcl "))
    });
    let logged = messages(candidate, "store_refuses").join("\n");
    assert_eq!(candidate.exit_code(), 77);
    let command = logged
        .split("`setAcl ")
        .nth(1)
        .and_then(|rest| rest.split('`').next())
        .expect("the command is in backticks");
    let (path, list) = command.split_once(' ').expect("a path and a list");
    (path.to_owned(), list.to_owned())
}

/// Runs the suggested `setAcl`, whose list names the team and the world, as zkCli would.
fn set_acl(rig: &Rig<Znodes>, ensemble: &Ensemble, path: &str, list: &str) {
    assert_eq!(list, "auth::cdrwa,world:anyone:r");
    let team = ensemble.admin_with(SHOP);
    team.set_access(path, &[(31, "auth", ""), (READ, "world", "anyone")]).unwrap();
    assert!(rig.store.admin.access(path).unwrap().ends_with("world:anyone:r"));
}

#[test]
fn open_path_is_closed_before_a_team_joins() {
    let rig = Rig::over(Znodes::fresh(), Znodes::CALM);
    let path = rig.store.make_path(ELECTION);
    let leader = candidate_with(&rig, "a", SHOP).start();
    assert_eq!(rig.leader().identity, leader.identity);
    let own = first(&rig, &path);
    assert_eq!(
        rig.store.admin.delete(&own),
        Err(Code::NoAuth),
        "a stranger may not delete the leader's znode"
    );
    assert_eq!(rig.store.admin.create_ephemeral(&format!("{path}/x")), Err(Code::NoAuth));
    let follower = candidate_with(&rig, "b", SHOP).start();
    eventually(PATIENCE, "it follows", || rig.has_standing(&follower, "following"));
    assert_eq!(messages(&leader, "access_list_closed").len(), 1);
    assert_eq!(messages(&follower, "access_list_closed"), [""; 0]);
    assert_eq!(messages(&leader, "shared_parent").len(), 1, "all teams share its parent, /baton");
    rig.wait_for_answers();
}

#[test]
fn closing_a_path_drops_and_names_foreign_entries() {
    let rig = Rig::over(Znodes::fresh(), Znodes::CALM);
    let path = rig.store.make_path(ELECTION);
    let open = [(ALL, "world", "anyone"), (ALL, "digest", "evil:hash")];
    rig.store.admin.set_access(&path, &open).unwrap();
    let leader = candidate_with(&rig, "a", SHOP).start();
    assert_eq!(rig.leader().identity, leader.identity);
    let list = Ensemble::shared().admin_with(SHOP).access(&path).unwrap();
    assert!(list.starts_with("digest:shop:") && list.ends_with(":cdrwa,world:anyone:r"), "{list}");
    assert!(!list.contains("evil"), "{list}");
    let logged = messages(&leader, "access_list_closed").join("\n");
    assert!(logged.contains("digest:evil") && !logged.contains("digest:shop"), "{logged}");
    assert_eq!(messages(&leader, "other_administrators"), [""; 0]);
    rig.wait_for_answers();
}

#[test]
fn other_identities_with_rights_are_named_once() {
    let rig = Rig::over(Znodes::fresh(), Znodes::CALM);
    let path = rig.store.make_path(ELECTION);
    let team = Ensemble::shared().admin_with(SHOP);
    let prepared = [(ALL, "auth", ""), (CREATE, "digest", "ops:hash"), (READ, "world", "anyone")];
    team.set_access(&path, &prepared).unwrap();
    let leader = candidate_with(&rig, "a", SHOP).start();
    assert_eq!(rig.leader().identity, leader.identity);
    eventually(PATIENCE, "the other identities are logged", || {
        !messages(&leader, "other_administrators").is_empty()
    });
    let logged = messages(&leader, "other_administrators");
    assert!(logged[0].contains("digest:ops") && !logged[0].contains("digest:shop"), "{logged:?}");
    assert_eq!(logged.len(), 1, "{logged:?}");
    rig.wait_for_answers();
}

#[test]
fn reopened_path_is_closed_while_the_team_is_in_it() {
    let rig = Rig::over(Znodes::fresh(), Znodes::CALM);
    let leader = candidate_with(&rig, "a", SHOP).start();
    assert_eq!(rig.leader().identity, leader.identity);
    let path = rig.store.below(&format!("/baton/{ELECTION}"));
    let team = Ensemble::shared().admin_with(SHOP);
    team.set_access(&path, &[(ALL, "world", "anyone")]).unwrap();
    let follower = candidate_with(&rig, "b", SHOP).start();
    eventually(PATIENCE, "it follows", || rig.has_standing(&follower, "following"));
    assert_eq!(messages(&follower, "access_list_closed").len(), 1);
    assert_eq!(rig.store.admin.delete(&first(&rig, &path)), Err(Code::NoAuth));
    rig.wait_for_answers();
}

#[test]
fn open_path_with_candidates_of_other_credentials_is_refused() {
    let rig = Rig::over(Znodes::fresh(), Znodes::CALM);
    let path = rig.store.make_path(ELECTION);
    let curator = Ensemble::shared().admin_with("digest:curator:own");
    let contender = curator.create(&format!("{path}/_c_0-latch-0000000000"), "").unwrap();
    curator.set_access(&contender, &[(ALL, "auth", ""), (READ, "world", "anyone")]).unwrap();
    let (suggested_path, list) = suggested_command(&candidate_with(&rig, "a", SHOP).start());
    assert_eq!((suggested_path, &*list), (path.clone(), "auth::cdrwa,world:anyone:r"));
    assert_eq!(
        rig.store.admin.access(&path).unwrap(),
        "world:anyone:cdrwa",
        "the others can join again"
    );
    assert_eq!(rig.store.admin.children(&path).unwrap().len(), 1, "it has not joined");
    rig.store.admin.delete(&contender).unwrap();
    let leader = candidate_with(&rig, "b", SHOP).start();
    assert_eq!(rig.leader().identity, leader.identity);
    rig.wait_for_answers();
}

#[test]
fn candidates_without_credentials_survive_closing_the_path() {
    let rig = Rig::over(Znodes::fresh(), Znodes::CALM);
    let old = rig.start_leader("old");
    let [waiting] = rig.start_followers(["waiting"]);
    let path = rig.store.below(&format!("/baton/{ELECTION}"));
    let before = rig.store.admin.access(&path).unwrap();
    let (suggested_path, list) = suggested_command(&candidate_with(&rig, "refused", SHOP).start());
    assert_eq!(suggested_path, path);
    assert_eq!(
        rig.store.admin.access(&path).unwrap(),
        before,
        "candidates without credentials are in the queue"
    );
    set_acl(&rig, Ensemble::shared(), &suggested_path, &list);
    let new = candidate_with(&rig, "new", SHOP).start();
    eventually(PATIENCE, "it follows", || rig.has_standing(&new, "following"));
    let handoff = Duration::from_millis(1100) + Znodes::NOISE;
    for (leader, follower) in [(&old, &waiting), (&waiting, &new)] {
        let signaled = leader.terminate();
        assert_eq!(leader.exit_code(), 0);
        assert_eq!(rig.successor(leader, signaled, handoff).0.identity, follower.identity);
    }
    let stranger = rig.start("stranger");
    eventually(PATIENCE, "the missing credentials are logged", || {
        messages(&stranger, "store_refuses")
            .iter()
            .any(|message| message.contains("--zookeeper-auth-file"))
    });
    assert_eq!(stranger.exit_code(), 77);
    rig.wait_for_answers();
    assert_eq!(rig.tokens(ELECTION).len(), 3);
}

#[test]
fn open_parent_is_refused_with_the_command_that_closes_it() {
    let ensemble = Ensemble::shared();
    let rig = Rig::over(Znodes::fresh(), Znodes::CALM);
    let path = create_open(&rig, DEEP);
    let parent = path.rsplit_once('/').expect("it has one").0.to_owned();
    let (suggested_path, list) =
        suggested_command(&candidate_with(&rig, "a", SHOP).flag("--zookeeper-path", DEEP).start());
    assert_eq!(suggested_path, parent);
    assert_eq!(rig.store.admin.children(&path), Ok(Vec::new()), "the queue is empty");
    set_acl(&rig, ensemble, &suggested_path, &list);
    let leader = candidate_with(&rig, "b", SHOP).flag("--zookeeper-path", DEEP).start();
    assert_eq!(rig.leader().identity, leader.identity);
    let announcement = format!("{path}_leader");
    eventually(PATIENCE, "the leader announces its term", || {
        rig.store.admin.read(&announcement).is_ok()
    });
    for znode in [first(&rig, &path), announcement] {
        assert_eq!(rig.store.admin.delete(&znode), Err(Code::NoAuth), "{znode}");
    }
    rig.wait_for_answers();
}

#[test]
fn open_path_of_another_administrator_is_refused() {
    let ensemble = Ensemble::shared();
    let rig = Rig::over(Znodes::fresh(), Znodes::CALM);
    let path = rig.store.make_path(ELECTION);
    let owner = ensemble.admin_with("digest:owner:own");
    owner.set_access(&path, &[(31, "auth", ""), (ALL_BUT_ADMIN, "world", "anyone")]).unwrap();
    let before = rig.store.admin.access(&path).unwrap();
    let refused = candidate_with(&rig, "a", SHOP).start();
    let (suggested_path, list) = suggested_command(&refused);
    assert_eq!((suggested_path, &*list), (path.clone(), "auth::cdrwa,world:anyone:r"));
    assert_eq!(rig.store.admin.access(&path).unwrap(), before, "the list is unchanged");
    let logged = messages(&refused, "store_refuses").join("\n");
    assert!(logged.contains("an administrator's credentials"), "{logged}");
    assert!(logged.contains("the servers hide from us: digest:owner"), "{logged}");
    let leader = candidate_with(&rig, "b", "digest:owner:own").start();
    assert_eq!(rig.leader().identity, leader.identity);
    assert_eq!(
        rig.store.admin.delete(&first(&rig, &path)),
        Err(Code::NoAuth),
        "the owner may close it"
    );
    rig.wait_for_answers();
}

#[test]
fn first_team_with_credentials_leaves_the_shared_parent_open() {
    let rig = Rig::over(Znodes::fresh(), Znodes::CALM);
    let path = |team: &str| format!("/baton/{team}/orders");
    let shop = candidate_with(&rig, "shop", SHOP).flag("--zookeeper-path", path("shop")).start();
    assert_eq!(rig.leader().identity, shop.identity);
    let bank = candidate_with(&rig, "bank", "digest:bank:vault")
        .flag("--zookeeper-path", path("bank"))
        .election("bank")
        .start();
    eventually(PATIENCE, "the other team elects a leader", || rig.has_standing(&bank, "leading"));
    assert_eq!(rig.store.admin.access(&rig.store.below("/baton")).unwrap(), "world:anyone:cdrwa");
    for team in ["shop", "bank"] {
        let path = rig.store.below(&path(team));
        assert_eq!(rig.store.admin.delete(&format!("{path}_leader")), Err(Code::NoAuth), "{team}");
        assert_eq!(rig.store.admin.delete(&first(&rig, &path)), Err(Code::NoAuth), "{team}");
    }
    assert_eq!(messages(&shop, "shared_parent"), [""; 0]);
    rig.wait_for_answers();
}

#[test]
fn digest_without_tls_warns_once() {
    let rig = Rig::over(Znodes::fresh(), Znodes::CALM);
    let leader = candidate_with(&rig, "a", SHOP).start();
    assert_eq!(rig.leader().identity, leader.identity);
    let logged = messages(&leader, "password_in_clear");
    assert_eq!(logged.len(), 1, "{logged:?}");
    assert!(
        logged[0].contains("--zookeeper-ca-file") && !logged[0].contains("secret"),
        "{logged:?}"
    );
    rig.wait_for_answers();
}

#[test]
fn empty_credentials_file_is_refused_at_start() {
    let rig = Rig::over(Znodes::fresh(), Znodes::CALM);
    let (code, output) = candidate_with(&rig, "a", "").ends();
    assert_eq!(code, 2);
    assert!(output.contains("--zookeeper-auth-file: it is empty"), "{output}");
    assert!(rig.store.admin.read(&rig.store.below("/baton")).is_err(), "no znode was created");
    candidate_with(&rig, "b", SHOP).start();
    rig.leader();
    rig.wait_for_answers();
}
