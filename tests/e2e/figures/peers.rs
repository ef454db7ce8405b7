//! The time from a kill to the next leader of client-go and of Curator, beside that of Baton.
//!
//! These libraries elect inside the application, so the application is killed, and kubelet restarts
//! it. Start with [`measure`].

use super::{KILLS, note_percentiles};
use crate::rig::{Case, Ensemble, run, variable};
use serde_json::{Value, json};
use std::thread;
use std::time::Duration;

/// Elections beside each other: most of a handoff is waiting.
const ELECTIONS: usize = 5;
/// The folder of the peers' programs on each node.
const FOLDER: &str = "/usr/local/lib/baton-peers";

/// The candidates of one election.
struct Peer {
    /// The name of the process.
    process: &'static str,
    image: String,
    command: Vec<String>,
}

#[test]
fn measure_time_from_kill_to_next_leader_of_client_go() {
    let case = Case::new("figures-client-go");
    copy_to_nodes(
        &case,
        "tests/servers/kubernetes/build.sh",
        ".cache/kubernetes/client-go-candidate",
    );
    case.kubectl(&[
        "create",
        "role",
        "candidate",
        "--verb=get,create,update",
        "--resource=leases.coordination.k8s.io",
    ]);
    let account = format!("--serviceaccount={}:default", case.namespace);
    case.kubectl(&["create", "rolebinding", "candidate", "--role=candidate", &account]);
    measure(&case, |election| Peer {
        process: "client-go-candidate",
        image: variable("DEMO_IMAGE"),
        command: vec![
            format!("{FOLDER}/client-go-candidate"),
            format!("--namespace={}", case.namespace),
            format!("--lease={election}"),
            "--release-on-cancel".to_owned(),
        ],
    });
}

#[test]
fn measure_time_from_kill_to_next_leader_of_curator() {
    let case = Case::new("figures-curator");
    copy_to_nodes(&case, "tests/servers/peers/build.sh", ".cache/peers/curator");
    let ensemble = Ensemble::open(&case);
    measure(&case, |election| {
        Peer {
        process: "java",
        image: variable("ZOOKEEPER_IMAGE"),
        // The name of a latch's participant only informs. The times in its output are not read.
        command: format!(
            "java -Xmx64m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp {FOLDER}/curator:{FOLDER}/curator/* \
             Candidate servers={} path=/elections/{election} id=$(POD_NAME) session-timeout-ms=15000 \
             boottime-offset-ns=0",
            ensemble.servers()
        )
        .split_whitespace()
        .map(str::to_owned)
        .collect(),
    }
    });
    ensemble.remove();
}

/// Builds a peer's program, and copies it to every node.
fn copy_to_nodes(case: &Case, build: &str, program: &str) {
    case.shell(build);
    for node in &case.cluster.nodes {
        node.exec(&["mkdir", "--parents", FOLDER]);
        let to = format!("{}:{FOLDER}/", node.name);
        run(&variable("ENGINE"), &["cp", program, &to], "").expect("the program can be copied");
    }
}

/// Kills the leaders of several elections beside each other, and notes the time until the next one
/// leads.
fn measure(case: &Case, peer: impl Fn(&str) -> Peer + Sync) {
    let times = thread::scope(|scope| {
        let elections: Vec<_> = (0..ELECTIONS)
            .map(|number| {
                let election = format!("election-{number}");
                let peer = peer(&election);
                scope.spawn(move || kill_leaders(case, &election, &peer))
            })
            .collect();
        let joined = elections.into_iter().map(|election| election.join().expect("no case fails"));
        joined.flatten().collect()
    });
    note_percentiles(case, "from the kill to the next leader", times);
}

/// Kills each leader of an election in a new Pod: kubelet delays the second restart of a container.
fn kill_leaders(case: &Case, election: &str, peer: &Peer) -> Vec<Duration> {
    case.apply(&deployment(election, peer));
    let (_, mut leader) = case.wait_for_peer_to_lead(election, case.now());
    (0..KILLS / ELECTIONS)
        .map(|_| {
            case.wait_for_pods(("election", election), 3);
            let killed = case.note(&format!("killing the candidate in {leader}"));
            case.node(&leader).signal("kill", &leader, peer.process);
            let (led, successor) = case.wait_for_peer_to_lead(election, killed);
            let deleted = case.note(&format!("deleting {leader}"));
            case.kubectl(&["delete", "pod", &leader]);
            leader = if successor == leader {
                case.wait_for_peer_to_lead(election, deleted).1
            } else {
                successor
            };
            led.since(killed)
        })
        .collect()
}

fn deployment(election: &str, peer: &Peer) -> Value {
    let labels = json!({ "election": election });
    let pod_name = json!({ "fieldRef": { "fieldPath": "metadata.name" } });
    let container = json!({
        "name": "candidate",
        "image": peer.image,
        "command": peer.command,
        "env": [{ "name": "POD_NAME", "valueFrom": pod_name }],
        "volumeMounts": [{ "name": "peers", "mountPath": FOLDER, "readOnly": true }],
    });
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": election },
        "spec": {
            "replicas": 3,
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": {
                    "containers": [container],
                    "volumes": [{ "name": "peers", "hostPath": { "path": FOLDER } }],
                },
            },
        },
    })
}
