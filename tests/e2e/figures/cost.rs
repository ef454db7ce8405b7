//! The resources that the API server uses, read from its own metrics.

use crate::rig::run;
use std::collections::BTreeMap;
use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

/// The load of the API server over a span of time.
pub(super) struct Cost {
    /// Lease requests per second, by verb. A watch counts when it ends.
    requests: BTreeMap<String, f64>,
    /// The average number of busy CPUs.
    pub(super) cpus: f64,
    /// The resident memory at the end of the span.
    pub(super) memory_mib: f64,
}

impl Cost {
    /// Measures for `span`.
    pub(super) fn measure(span: Duration) -> Self {
        let (before, start) = (Metrics::read(), Instant::now());
        thread::sleep(span);
        let (after, seconds) = (Metrics::read(), start.elapsed().as_secs_f64());
        let rate = |verb: &String, count: f64| {
            (count - before.requests.get(verb).unwrap_or(&0.0)) / seconds
        };
        Self {
            requests: after
                .requests
                .iter()
                .map(|(verb, count)| (verb.clone(), rate(verb, *count)))
                .collect(),
            cpus: (after.cpu_seconds - before.cpu_seconds) / seconds,
            memory_mib: after.memory_bytes / 1024.0 / 1024.0,
        }
    }

    /// Lease requests per second.
    pub(super) fn requests(&self) -> f64 {
        self.requests.values().sum()
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} Lease requests per second (", self.requests())?;
        for (index, (verb, rate)) in
            self.requests.iter().filter(|(_, rate)| **rate > 0.0).enumerate()
        {
            write!(f, "{}{verb} {rate:.2}", if index == 0 { "" } else { ", " })?;
        }
        write!(f, "), {:.3} CPUs, {:.0} MiB", self.cpus, self.memory_mib)
    }
}

/// Counters of the API server since its start.
struct Metrics {
    requests: BTreeMap<String, f64>,
    cpu_seconds: f64,
    memory_bytes: f64,
}

impl Metrics {
    fn read() -> Self {
        let text =
            run("kubectl", &["get", "--raw", "/metrics"], "").expect("the API server answers");
        let mut this = Self { requests: BTreeMap::new(), cpu_seconds: 0.0, memory_bytes: 0.0 };
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (series, value) = line.rsplit_once(' ').expect("a series has a value");
            let number: f64 = value.parse().expect("the value is a number");
            match series {
                "process_cpu_seconds_total" => this.cpu_seconds = number,
                "process_resident_memory_bytes" => this.memory_bytes = number,
                _ if series.starts_with("apiserver_request_total{")
                    && series.contains("resource=\"leases\"") =>
                {
                    let (_, verb) = series.split_once("verb=\"").expect("a request has a verb");
                    let (verb, _) = verb.split_once('"').expect("the verb is quoted");
                    *this.requests.entry(verb.to_owned()).or_default() += number;
                }
                _ => {}
            }
        }
        this
    }
}
