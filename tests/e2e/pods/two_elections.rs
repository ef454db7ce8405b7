//! Two sidecars in one Pod, each in its own election, as in the library chart's README.

use crate::rig::{
    Case, Leader, Moment, NOISE, PATIENCE, SHOP, TIMING, eventually, image_values, merge, run,
    succeeds, variable,
};
use serde_json::json;

/// The sidecars and their metrics ports.
const SIDECARS: [(&str, u16); 2] = [("baton", 4041), ("baton-reports", 4051)];
const FIRST: &str = SIDECARS[0].0;
const SECOND: &str = SIDECARS[1].0;
/// All containers of the Pod.
const CONTAINERS: [&str; 3] = [FIRST, SECOND, "application"];

#[test]
fn losing_one_of_two_elections_restarts_and_gives_up_both() {
    let case = Case::new("two");
    let two = TwoElections::install(&case, "always");
    let lost = two.revoke_rights();
    let TwoElections { old, .. } = &two;
    case.wait_for_run(&old.pod, "application", 1);
    case.wait_for_log(&old.pod, SECOND, 1, r#""code":75"#);
    two.grant_rights();
    case.successor(old, lost, TIMING.renew_deadline + TIMING.takeover() + NOISE);
    two.wait_for_leaders();
    // Twice if the first sidecar had time to hand over: after its clean end it mistakes the restart
    // for one of its own container, and has all containers restarted.
    let expected = |pod: &str| if pod == old.pod { 1..=2 } else { 0..=0 };
    for pod in case.pods(SHOP) {
        let restarts = CONTAINERS.map(|container| pod.restarts(container));
        assert!(
            restarts.iter().all(|times| expected(pod.name()).contains(times)),
            "{}: {restarts:?}",
            pod.name()
        );
    }
    case.assert_ledger_is_clean();
}

#[test]
fn losing_one_of_two_elections_in_place_keeps_the_other() {
    let case = Case::new("two-stay");
    let two = TwoElections::install(&case, "never");
    two.revoke_rights();
    let TwoElections { old, .. } = &two;
    case.wait_for_log(&old.pod, SECOND, 0, r#""event":"lost""#);
    eventually(PATIENCE, "its metrics deny leadership", || {
        two.metrics_claim(&old.pod, SIDECARS[1].1, &two.reports) == Some(false)
    });
    two.grant_rights();
    two.wait_for_leaders();
    assert_eq!((case.leader().identity, case.terms()), (old.identity.clone(), 1));
    for pod in case.pods(SHOP) {
        assert_eq!(CONTAINERS.map(|container| pod.restarts(container)), [0; 3], "{}", pod.name());
    }
    case.assert_ledger_is_clean();
}

/// A shop in two elections, both led by one Pod.
struct TwoElections<'a> {
    case: &'a Case,
    /// The election of the second sidecar.
    reports: String,
    old: Leader,
}

impl<'a> TwoElections<'a> {
    /// Installs both sidecars with the same `restartApplication`.
    #[track_caller]
    fn install(case: &'a Case, restart_application: &str) -> Self {
        let reports = format!("{}-reports", case.election);
        let image = image_values(&variable("BATON_IMAGE"));
        let mut values = json!({ "reports": { "election": reports, "image": image } });
        for sidecar in ["baton", "reports"] {
            merge(&mut values, json!({ sidecar: { "restartApplication": restart_application } }));
        }
        // A single Pod leads both elections.
        values["replicas"] = 1.into();
        case.helm_with(&["install", "shop", "tests/e2e/shop"], &case.values(values));
        case.wait_for_pods(SHOP, 1);
        let this = Self { case, reports, old: case.leader() };
        eventually(PATIENCE, "it leads both", || {
            this.answers_leading(&this.old.pod, SECOND) == Some(true)
        });
        case.kubectl(&["scale", "deployment/shop", "--replicas=3"]);
        this.wait_for_leaders();
        assert_eq!(
            [FIRST, SECOND].map(|sidecar| this.answers_leading(&this.old.pod, sidecar)),
            [Some(true); 2]
        );
        this
    }

    /// Waits until every sidecar of three Pods answers, and one per election leads, by answers and
    /// by metrics.
    #[track_caller]
    fn wait_for_leaders(&self) {
        self.case.wait_for_pods(SHOP, 3);
        for ((sidecar, port), election) in
            SIDECARS.into_iter().zip([&self.case.election, &self.reports])
        {
            succeeds(PATIENCE, &format!("one {sidecar} of three leads"), || {
                let pods = self.case.pods(SHOP);
                let answers: Vec<_> =
                    pods.iter().map(|pod| self.answers_leading(pod.name(), sidecar)).collect();
                let metrics: Vec<_> =
                    pods.iter().map(|pod| self.metrics_claim(pod.name(), port, election)).collect();
                let leaders = answers.iter().filter(|answer| **answer == Some(true)).count();
                if answers == metrics && leaders == 1 && !answers.contains(&None) {
                    Ok(())
                } else {
                    Err(format!("answers {answers:?}, metrics {metrics:?}"))
                }
            });
        }
    }

    /// Whether a sidecar answers "leading", if it answers. A failure of kubectl itself looks like
    /// "no".
    #[track_caller]
    fn answers_leading(&self, pod: &str, sidecar: &str) -> Option<bool> {
        let ask =
            format!("kubectl --namespace {} exec {pod} --container {sidecar}", self.case.namespace);
        match self.case.shell(&format!("{ask} -- /baton probe leader > /dev/null; echo $?")).trim()
        {
            "0" => Some(true),
            "1" => Some(false),
            _ => None,
        }
    }

    /// Whether the metrics at a Pod's port claim leadership of the election. `None` unless they
    /// have exactly this election.
    fn metrics_claim(&self, pod: &str, port: u16, election: &str) -> Option<bool> {
        let path =
            format!("/api/v1/namespaces/{}/pods/{pod}:{port}/proxy/metrics", self.case.namespace);
        let text = run("kubectl", &["get", "--raw", &path], "").ok()?;
        let lines: Vec<&str> =
            text.lines().filter(|line| line.starts_with("baton_is_leader")).collect();
        let ([line], label) = (&lines[..], format!("election=\"{election}\"")) else {
            return None;
        };
        line.contains(&label).then(|| line.ends_with(" 1"))
    }

    /// Revokes the rights of the second sidecars.
    #[track_caller]
    fn revoke_rights(&self) -> Moment {
        let at = self.case.note("revoking the rights of the second sidecars");
        self.case.kubectl(&["delete", "rolebinding", &self.reports]);
        at
    }

    #[track_caller]
    fn grant_rights(&self) {
        let account = format!("--serviceaccount={}:shop", self.case.namespace);
        let role = format!("--role={}", self.reports);
        self.case.kubectl(&["create", "rolebinding", &self.reports, &role, &account]);
    }
}
