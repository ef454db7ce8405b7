//! What the API server uses over a span of time, as its own metrics tell.

use crate::rig::run;
use std::collections::BTreeMap;
use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

pub(super) struct Cost {
    /// Requests about Leases a second, by verb. A watch is counted when it ends.
    requests: BTreeMap<String, f64>,
    /// How many processors it kept busy.
    pub(super) processors: f64,
    /// Its resident memory at the end.
    pub(super) memory_mib: f64,
}

impl Cost {
    /// Waits for that long, and says what it was.
    pub(super) fn over(span: Duration) -> Self {
        let (before, begun) = (Metrics::read(), Instant::now());
        thread::sleep(span);
        let (after, took) = (Metrics::read(), begun.elapsed().as_secs_f64());
        let rate =
            |verb: &String, count: f64| (count - before.requests.get(verb).unwrap_or(&0.0)) / took;
        Self {
            requests: after
                .requests
                .iter()
                .map(|(verb, count)| (verb.clone(), rate(verb, *count)))
                .collect(),
            processors: (after.processor_seconds - before.processor_seconds) / took,
            memory_mib: after.memory_bytes / 1024.0 / 1024.0,
        }
    }

    /// Requests about Leases a second.
    pub(super) fn requests(&self) -> f64 {
        self.requests.values().sum()
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} requests about Leases a second (", self.requests())?;
        for (number, (verb, rate)) in
            self.requests.iter().filter(|(_, rate)| **rate > 0.0).enumerate()
        {
            write!(f, "{}{verb} {rate:.2}", if number == 0 { "" } else { ", " })?;
        }
        write!(f, "), {:.3} processors, {:.0} MiB", self.processors, self.memory_mib)
    }
}

/// What it has counted so far.
struct Metrics {
    requests: BTreeMap<String, f64>,
    processor_seconds: f64,
    memory_bytes: f64,
}

impl Metrics {
    fn read() -> Self {
        let told =
            run("kubectl", &["get", "--raw", "/metrics"], "").expect("the API server answers");
        let mut this =
            Self { requests: BTreeMap::new(), processor_seconds: 0.0, memory_bytes: 0.0 };
        for line in told.lines().filter(|line| !line.starts_with('#')) {
            let (series, value) = line.rsplit_once(' ').expect("a series has a value");
            let count: f64 = value.parse().expect("the value is a number");
            match series {
                "process_cpu_seconds_total" => this.processor_seconds = count,
                "process_resident_memory_bytes" => this.memory_bytes = count,
                _ if series.starts_with("apiserver_request_total{")
                    && series.contains("resource=\"leases\"") =>
                {
                    let (_, verb) = series.split_once("verb=\"").expect("a request has a verb");
                    let (verb, _) = verb.split_once('"').expect("it is quoted");
                    *this.requests.entry(verb.to_owned()).or_default() += count;
                }
                _ => {}
            }
        }
        this
    }
}
