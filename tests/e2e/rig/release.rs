//! A release of the chart baton. Its cluster-wide objects outlive the namespace of a case, so it
//! must be uninstalled before the next case.

use super::case::Case;
use super::command::run;
use serde_json::Value;

/// The chart of this clone.
pub(crate) const CHART: &str = "charts/baton";

/// The kinds of cluster-wide objects.
const CLUSTER_WIDE: &str = "mutatingadmissionpolicies,mutatingadmissionpolicybindings,validatingadmissionpolicies,\
                      validatingadmissionpolicybindings,flowschemas,prioritylevelconfigurations";

/// A release, uninstalled on drop even if the case fails.
pub(crate) struct Release<'a> {
    case: &'a Case,
    name: String,
}

impl<'a> Release<'a> {
    /// Installs a chart under this name.
    #[track_caller]
    pub(crate) fn install(case: &'a Case, name: &str, chart: &str, values: &Value) -> Self {
        // Created first, so that a partial installation is removed too.
        let this = Self { case, name: name.to_owned() };
        case.helm_with(&["install", name, chart, "--wait"], values);
        this
    }

    /// Upgrades to this clone's chart with these values.
    #[track_caller]
    pub(crate) fn upgrade(&self, values: &Value) {
        self.case.helm_with(&["upgrade", &self.name, CHART, "--wait"], values);
    }

    /// The cluster-wide objects of the release.
    #[track_caller]
    pub(crate) fn cluster_wide(&self) -> Vec<String> {
        let selector = format!("--selector=app.kubernetes.io/instance={}", self.name);
        let names = self.case.kubectl(&["get", CLUSTER_WIDE, &selector, "--output=name"]);
        names.lines().map(str::to_owned).collect()
    }

    /// Uninstalls the release, and panics if cluster-wide objects are left.
    #[track_caller]
    pub(crate) fn uninstall(&self) {
        self.case.helm(&["uninstall", &self.name, "--wait"]);
        assert_eq!(self.cluster_wide(), [""; 0], "objects left after uninstallation");
    }
}

impl Drop for Release<'_> {
    fn drop(&mut self) {
        let arguments =
            ["--namespace", &self.case.namespace, "uninstall", &self.name, "--ignore-not-found"];
        drop(run(self.case.helm_program, &arguments, ""));
    }
}
