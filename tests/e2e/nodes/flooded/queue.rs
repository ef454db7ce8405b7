//! How requests wait at the API server, as its own metrics tell.

use crate::rig::{Case, Moment, run};

/// The requests of one of its flow schemas, from now on.
pub(super) struct Queue<'a> {
    case: &'a Case,
    flow_schema: String,
    begun: Moment,
    before: Counted,
}

/// What the server has counted since its start.
#[derive(Clone, Copy)]
struct Counted {
    /// How many it has begun to serve.
    requests: f64,
    /// For how long these and those that it refused had waited, one added to the other.
    seconds: f64,
}

impl<'a> Queue<'a> {
    /// Those of all accounts that have no schema of their own: of the flood, and of renewals too where they have none.
    pub(super) fn of_accounts(case: &'a Case) -> Self {
        Self::begin(case, "service-accounts")
    }

    /// Those that the case's release has a schema for.
    pub(super) fn of_release(case: &'a Case) -> Self {
        Self::begin(case, &format!("{}-renewals", case.namespace))
    }

    fn begin(case: &'a Case, flow_schema: &str) -> Self {
        Self {
            case,
            flow_schema: flow_schema.to_owned(),
            begun: case.now(),
            before: Counted::read(flow_schema),
        }
    }

    /// How many were waiting at any moment, on average: each adds the time for which it did.
    pub(super) fn waiting(&self) -> f64 {
        let seconds = Counted::read(&self.flow_schema).seconds - self.before.seconds;
        seconds / self.case.now().since(self.begun).as_secs_f64()
    }

    /// How many have waited for as long as they had to.
    pub(super) fn served(&self) -> f64 {
        Counted::read(&self.flow_schema).requests - self.before.requests
    }
}

impl Counted {
    fn read(flow_schema: &str) -> Self {
        let told =
            run("kubectl", &["get", "--raw", "/metrics"], "").expect("the API server answers");
        let label = format!("flow_schema=\"{flow_schema}\"");
        let sum = |of: &str, which: &str| {
            let metric = format!("apiserver_flowcontrol_request_wait_duration_seconds_{of}{{");
            let is_ours = |line: &&str| {
                line.starts_with(&metric) && line.contains(&label) && line.contains(which)
            };
            let ours = told.lines().filter(is_ours);
            let values = ours
                .map(|line| line.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok()));
            values.map(|value| value.expect("a series has a value, which is a number")).sum()
        };
        Self { requests: sum("count", r#"execute="true""#), seconds: sum("sum", "") }
    }
}
