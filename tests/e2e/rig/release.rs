//! A release of the chart baton. Some of its objects are the whole cluster's: they outlive the namespace of a case, and whoever
//! comes next would meet them.

use super::case::Case;
use super::command::run;
use serde_json::Value;

/// As this clone has it.
pub(crate) const CHART: &str = "charts/baton";

/// The kinds of what is the whole cluster's.
const SHARED: &str = "mutatingadmissionpolicies,mutatingadmissionpolicybindings,validatingadmissionpolicies,\
                      validatingadmissionpolicybindings,flowschemas,prioritylevelconfigurations";

/// Removed when it is dropped, also where a case has failed meanwhile.
pub(crate) struct Release<'a> {
    case: &'a Case,
    name: String,
}

impl<'a> Release<'a> {
    /// Installs a chart under that name.
    #[track_caller]
    pub(crate) fn install(case: &'a Case, name: &str, chart: &str, values: &Value) -> Self {
        // Before it is installed: what fails half-way is removed too.
        let this = Self { case, name: name.to_owned() };
        case.helm_with(&["install", name, chart, "--wait"], values);
        this
    }

    /// Makes of it what the clone's chart does with these values.
    #[track_caller]
    pub(crate) fn upgrade(&self, values: &Value) {
        self.case.helm_with(&["upgrade", &self.name, CHART, "--wait"], values);
    }

    /// What of it is the whole cluster's.
    #[track_caller]
    pub(crate) fn shared(&self) -> Vec<String> {
        let ours = format!("--selector=app.kubernetes.io/instance={}", self.name);
        let told = self.case.kubectl(&["get", SHARED, &ours, "--output=name"]);
        told.lines().map(str::to_owned).collect()
    }

    /// Removes it, of which nothing may be left that is the whole cluster's.
    #[track_caller]
    pub(crate) fn uninstall(&self) {
        self.case.helm(&["uninstall", &self.name, "--wait"]);
        assert_eq!(self.shared(), [""; 0], "the cluster keeps these");
    }
}

impl Drop for Release<'_> {
    fn drop(&mut self) {
        let arguments =
            ["--namespace", &self.case.namespace, "uninstall", &self.name, "--ignore-not-found"];
        drop(run(self.case.helm_program, &arguments, ""));
    }
}
