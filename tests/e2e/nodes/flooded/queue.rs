//! The waiting time of requests at the API server, read from its own metrics.

use crate::rig::{Case, Moment, run};

/// The requests of one flow schema since this was created.
pub(super) struct Queue<'a> {
    case: &'a Case,
    flow_schema: String,
    start: Moment,
    before: Counters,
}

/// Counters of the server since its start.
#[derive(Clone, Copy)]
struct Counters {
    /// Requests that the server began to serve.
    requests: f64,
    /// The total waiting time of these and of rejected requests.
    seconds: f64,
}

impl<'a> Queue<'a> {
    /// Requests of accounts without a schema of their own: the flood, and renewals without the
    /// chart's schema.
    pub(super) fn of_accounts(case: &'a Case) -> Self {
        Self::begin(case, "service-accounts")
    }

    /// Requests of the schema in the case's release.
    pub(super) fn of_release(case: &'a Case) -> Self {
        Self::begin(case, &format!("{}-renewals", case.namespace))
    }

    fn begin(case: &'a Case, flow_schema: &str) -> Self {
        Self {
            case,
            flow_schema: flow_schema.to_owned(),
            start: case.now(),
            before: Counters::read(flow_schema),
        }
    }

    /// The average number of waiting requests: their total waiting time divided by the elapsed
    /// time.
    pub(super) fn waiting(&self) -> f64 {
        let seconds = Counters::read(&self.flow_schema).seconds - self.before.seconds;
        seconds / self.case.now().since(self.start).as_secs_f64()
    }

    /// The number of requests that the server began to serve.
    pub(super) fn served(&self) -> f64 {
        Counters::read(&self.flow_schema).requests - self.before.requests
    }
}

impl Counters {
    fn read(flow_schema: &str) -> Self {
        let text =
            run("kubectl", &["get", "--raw", "/metrics"], "").expect("the API server answers");
        let label = format!("flow_schema=\"{flow_schema}\"");
        let sum = |suffix: &str, filter: &str| {
            let metric = format!("apiserver_flowcontrol_request_wait_duration_seconds_{suffix}{{");
            let matches = |line: &&str| {
                line.starts_with(&metric) && line.contains(&label) && line.contains(filter)
            };
            let series = text.lines().filter(matches);
            let values = series
                .map(|line| line.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok()));
            values.map(|value| value.expect("the value of a series is a number")).sum()
        };
        Self { requests: sum("count", r#"execute="true""#), seconds: sum("sum", "") }
    }
}
