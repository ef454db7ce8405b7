//! The inventory of elections by the label of their Leases, as docs/operating/leader.md shows it.

use crate::docs::read;
use crate::rig::{ELECTION, Leases, Rig, Store as _};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, ListParams};
use regex::Regex;
use serde_json::Value;

/// The page's own selector finds the election, and its own columns have values.
#[test]
fn documented_command_lists_elections_with_their_holders() {
    let rig = Rig::over(Leases::fresh(), Leases::CALM);
    let leader = rig.start_leader("leader");
    rig.wait_for_answers();
    let page = read("docs/operating/leader.md");
    let found = |pattern: &str| -> String {
        let found = Regex::new(pattern).unwrap().captures(&page);
        found.unwrap_or_else(|| panic!("the page has no {pattern}"))[1].to_owned()
    };
    let selector = found("kubectl get leases .*--selector ([^ ]+)");
    let columns = found("--output custom-columns=([^ \n]+)");
    let leases = rig.store.namespace.admin.call(async |client| {
        let leases = Api::<Lease>::default_namespaced(client);
        leases.list(&ListParams::default().labels(&selector)).await
    });
    let leases = leases.expect("the administrator may").items;
    assert_eq!(leases.len(), 1, "{leases:?}");
    let lease = serde_json::to_value(&leases[0]).unwrap();
    let cell = |column: &str| {
        let path = columns.split(',').find_map(|named| named.strip_prefix(&format!("{column}:")));
        let path = path.unwrap_or_else(|| panic!("no column {column}")).replace('.', "/");
        lease.pointer(&path).cloned().unwrap_or_default()
    };
    assert_eq!(cell("ELECTION"), ELECTION);
    assert_eq!(cell("LEADER"), leader.identity.as_str());
    for column in columns.split(',').map(|named| named.split(':').next().unwrap()) {
        assert_ne!(cell(column), Value::Null, "{column}");
    }
}
