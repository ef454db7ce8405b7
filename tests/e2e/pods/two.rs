//! Two sidecars in one Pod, each for an election of its own, as the library chart's page has it.

use crate::rig::{
    Case, Led, Moment, NOISE, PATIENCE, SHOP, TIMING, eventually, merge, parts, run, succeeds,
    variable,
};
use serde_json::json;

/// The containers, and where each tells its metrics.
const SIDECARS: [(&str, u16); 2] = [("baton", 4041), ("baton-reports", 4051)];
const FIRST: &str = SIDECARS[0].0;
const SECOND: &str = SIDECARS[1].0;
/// Those, and whom they are for.
const CONTAINERS: [&str; 3] = [FIRST, SECOND, "application"];

#[test]
fn who_loses_one_of_two_elections_is_restarted_and_gives_the_other_one_up() {
    let case = Case::new("two");
    let two = Two::install(&case, "always");
    let lost = two.take_rights();
    let Two { old, .. } = &two;
    case.wait_for_run(&old.pod, "application", 1);
    case.wait_for_log(&old.pod, SECOND, 1, r#""code":75"#);
    two.give_rights();
    case.successor(old, lost, TIMING.renew_deadline + TIMING.takeover() + NOISE);
    two.settle();
    // Twice, if the first had time to hand over: who ended cleanly takes its restart for one of its container alone.
    let often = |pod: &str| if pod == old.pod { 1..=2 } else { 0..=0 };
    for pod in case.pods(SHOP) {
        let restarts = CONTAINERS.map(|container| pod.restarts(container));
        assert!(
            restarts.iter().all(|times| often(pod.name()).contains(times)),
            "{}: {restarts:?}",
            pod.name()
        );
    }
    case.assert_books_are_clean();
}

#[test]
fn who_stays_loses_one_of_two_elections_and_keeps_the_other() {
    let case = Case::new("two-stay");
    let two = Two::install(&case, "never");
    two.take_rights();
    let Two { old, .. } = &two;
    case.wait_for_log(&old.pod, SECOND, 0, r#""event":"lost""#);
    eventually(PATIENCE, "its metrics say so", || {
        two.tells(&old.pod, SIDECARS[1].1, &two.reports) == Some(false)
    });
    two.give_rights();
    two.settle();
    assert_eq!((case.leader().identity, case.terms()), (old.identity.clone(), 1));
    for pod in case.pods(SHOP) {
        assert_eq!(CONTAINERS.map(|container| pod.restarts(container)), [0; 3], "{}", pod.name());
    }
    case.assert_books_are_clean();
}

/// The shop with both, of which one Pod leads both elections.
struct Two<'a> {
    case: &'a Case,
    /// The election of the second.
    reports: String,
    old: Led,
}

impl<'a> Two<'a> {
    /// What moves the application is the same for both.
    #[track_caller]
    fn install(case: &'a Case, restart_application: &str) -> Self {
        let reports = format!("{}-reports", case.election);
        let image = parts(&variable("BATON_IMAGE"));
        let mut values = json!({ "reports": { "election": reports, "image": image } });
        for sidecar in ["baton", "reports"] {
            merge(&mut values, json!({ sidecar: { "restartApplication": restart_application } }));
        }
        // Who is alone leads both.
        values["replicas"] = 1.into();
        case.helm_with(&["install", "shop", "tests/e2e/shop"], &case.values(values));
        case.settle(SHOP, 1);
        let this = Self { case, reports, old: case.leader() };
        eventually(PATIENCE, "it leads both", || this.leads(&this.old.pod, SECOND) == Some(true));
        case.kubectl(&["scale", "deployment/shop", "--replicas=3"]);
        this.settle();
        assert_eq!(
            [FIRST, SECOND].map(|sidecar| this.leads(&this.old.pod, sidecar)),
            [Some(true); 2]
        );
        this
    }

    /// Waits until each sidecar of three Pods answers, and one leads each election, by its answer and by its metrics.
    #[track_caller]
    fn settle(&self) {
        self.case.settle(SHOP, 3);
        for ((sidecar, port), election) in
            SIDECARS.into_iter().zip([&self.case.election, &self.reports])
        {
            succeeds(PATIENCE, &format!("one {sidecar} of three leads"), || {
                let pods = self.case.pods(SHOP);
                let leading: Vec<_> =
                    pods.iter().map(|pod| self.leads(pod.name(), sidecar)).collect();
                let told: Vec<_> =
                    pods.iter().map(|pod| self.tells(pod.name(), port, election)).collect();
                let leaders = leading.iter().filter(|leads| **leads == Some(true)).count();
                let is_so = leading == told && leaders == 1 && !leading.contains(&None);
                if is_so {
                    Ok(())
                } else {
                    Err(format!("they answer {leading:?}, and their metrics say {told:?}"))
                }
            });
        }
    }

    /// Whether that sidecar of a Pod answers that it leads, if it answers. kubectl's own failure looks like "no".
    #[track_caller]
    fn leads(&self, pod: &str, sidecar: &str) -> Option<bool> {
        let ask =
            format!("kubectl --namespace {} exec {pod} --container {sidecar}", self.case.namespace);
        match self.case.shell(&format!("{ask} -- /baton probe leader > /dev/null; echo $?")).trim()
        {
            "0" => Some(true),
            "1" => Some(false),
            _ => None,
        }
    }

    /// Whether the metrics at that port of a Pod say that it leads that election, if they are of that one alone.
    fn tells(&self, pod: &str, port: u16, election: &str) -> Option<bool> {
        let path =
            format!("/api/v1/namespaces/{}/pods/{pod}:{port}/proxy/metrics", self.case.namespace);
        let told = run("kubectl", &["get", "--raw", &path], "").ok()?;
        let told: Vec<&str> =
            told.lines().filter(|line| line.starts_with("baton_is_leader")).collect();
        let ([line], election) = (&told[..], format!("election=\"{election}\"")) else {
            return None;
        };
        line.contains(&election).then(|| line.ends_with(" 1"))
    }

    /// The second sidecars lose their rights.
    #[track_caller]
    fn take_rights(&self) -> Moment {
        let at = self.case.note("the second sidecars lose their rights");
        self.case.kubectl(&["delete", "rolebinding", &self.reports]);
        at
    }

    #[track_caller]
    fn give_rights(&self) {
        let account = format!("--serviceaccount={}:shop", self.case.namespace);
        let role = format!("--role={}", self.reports);
        self.case.kubectl(&["create", "rolebinding", &self.reports, &role, &account]);
    }
}
