//! A real Prometheus that scrapes the targets that the chart selects, some of them hostile.
//!
//! Any tenant can give a container of a Pod the sidecar's name. The Prometheus operator does not
//! run: [`configuration`] translates the chart's `PodMonitor` as it would.

use super::monitoring::built;
use super::tools::{find, rendered};
use crate::rig::{Daemon, Rig, Timing, eventually, succeeds, wait_for};
use regex::Regex;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_mins(1);

#[test]
fn prometheus_scrapes_sidecars_and_refuses_hostile_targets() {
    let rig = Rig::new(Timing::CALM);
    let sidecar = rig.start_leader("a");
    let secret = Target::with(metrics("stranger 1\n"));
    let location = format!("http://{}/metrics", secret.address);
    let hostile = [
        (
            format!("HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n"),
            "HTTP status 302",
        ),
        (metrics(&samples(200_000)), "body size limit exceeded"),
        (metrics(&samples(1000)), "sample limit exceeded"),
        (metrics(&format!("stranger{{{}}} 1\n", labels(100))), "label_limit exceeded"),
        (
            metrics(&format!("stranger{{{}=\"v\"}} 1\n", "n".repeat(100))),
            "label_name_length_limit exceeded",
        ),
        (
            metrics(&format!("stranger{{n=\"{}\"}} 1\n", "v".repeat(1000))),
            "label_value_length_limit exceeded",
        ),
    ];
    let hostile = hostile.map(|(answer, why)| (Target::with(answer), why));
    let mut targets = vec![sidecar.probe_listen.clone()];
    targets.extend(hostile.iter().map(|(target, _)| target.address.to_string()));
    let objects = rendered(&["--set=podMonitor.enabled=true"]);
    let monitor = find(&objects, "PodMonitor", "test-sidecars");
    let prometheus = Prometheus::start(&configuration(monitor, &targets));

    succeeds(PATIENCE, "the sidecar is scraped", || prometheus.state_of(&targets[0], "up", ""));
    for (target, why) in &hostile {
        let address = target.address.to_string();
        succeeds(PATIENCE, &format!("refused: {why}"), || {
            prometheus.state_of(&address, "down", why)
        });
    }
    assert_eq!(secret.requests.load(Ordering::Relaxed), 0, "Prometheus followed a redirect");
    assert_eq!(
        prometheus.value("count(stranger)"),
        None,
        "samples of a hostile target were stored"
    );

    // A sidecar stays far below the limit.
    let scraped =
        prometheus.value(&format!("scrape_samples_scraped{{instance=\"{}\"}}", targets[0]));
    let limit = monitor["spec"]["sampleLimit"].as_f64().unwrap();
    assert!(
        scraped.is_some_and(|scraped| scraped > 50.0 && scraped * 2.0 < limit),
        "{scraped:?} samples, the limit is {limit}"
    );
    assert_eq!(prometheus.value("baton_is_leader"), Some(1.0));
}

/// The operator's translation of a `PodMonitor`, with these targets in place of Pods.
fn configuration(monitor: &Value, targets: &[String]) -> Value {
    let (spec, endpoint) = (&monitor["spec"], &monitor["spec"]["podMetricsEndpoints"][0]);
    let mut job = json!({
        "job_name": "sidecars",
        "metrics_path": endpoint["path"],
        "static_configs": [{ "targets": targets }],
    });
    // Fields that the monitor leaves out keep Prometheus's defaults.
    for (field, value) in [
        ("follow_redirects", &endpoint["followRedirects"]),
        ("sample_limit", &spec["sampleLimit"]),
        ("label_limit", &spec["labelLimit"]),
        ("label_name_length_limit", &spec["labelNameLengthLimit"]),
        ("label_value_length_limit", &spec["labelValueLengthLimit"]),
        ("body_size_limit", &spec["bodySizeLimit"]),
    ] {
        if !value.is_null() {
            job[field] = value.clone();
        }
    }
    let global = json!({ "scrape_interval": "2s", "scrape_timeout": "2s" });
    json!({ "global": global, "scrape_configs": [job] })
}

/// A running Prometheus.
struct Prometheus {
    url: String,
    _server: Daemon,
    _folder: TempDir,
}

impl Prometheus {
    fn start(configuration: &Value) -> Self {
        let folder = TempDir::new().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        fs::write(at("prometheus.yaml"), configuration.to_string()).unwrap();
        let flags = vec![
            format!("--config.file={}", at("prometheus.yaml")),
            format!("--storage.tsdb.path={}", at("data")),
            "--web.listen-address=127.0.0.1:0".to_owned(),
        ];
        let mut server = Daemon::start(built("prometheus"), flags, Path::new(&at("log")));
        let listening = Regex::new(r#""Listening on" component=web address=(\S+)"#).unwrap();
        let address = wait_for(PATIENCE, "Prometheus listens", || {
            server.assert_alive();
            let log = fs::read_to_string(at("log")).unwrap();
            listening.captures(&log).map(|found| found[1].to_owned())
        });
        let this = Self { url: format!("http://{address}"), _server: server, _folder: folder };
        eventually(PATIENCE, "Prometheus answers", || this.get("targets?state=active").is_ok());
        this
    }

    /// Checks that Prometheus reports this health of a target, for this reason.
    fn state_of(&self, target: &str, health: &str, why: &str) -> Result<(), String> {
        let targets = self.get("targets?state=active")?;
        let targets = targets["data"]["activeTargets"].as_array().cloned().unwrap_or_default();
        let found = targets.iter().find(|found| found["labels"]["instance"] == target);
        let found = found.ok_or_else(|| format!("{target} is no target of {targets:#?}"))?;
        let has_reason = found["lastError"].as_str().is_some_and(|error| error.contains(why));
        if found["health"] == health && has_reason { Ok(()) } else { Err(format!("{found:#}")) }
    }

    /// The first value of a query's result.
    fn value(&self, query: &str) -> Option<f64> {
        let query = query.replace('{', "%7B").replace('}', "%7D").replace('"', "%22");
        let answer = self.get(&format!("query?query={query}")).expect("it answered before");
        answer["data"]["result"][0]["value"][1]
            .as_str()
            .map(|value| value.parse().expect("the value is a number"))
    }

    fn get(&self, path: &str) -> Result<Value, String> {
        let mut answer = ureq::get(format!("{}/api/v1/{path}", self.url))
            .call()
            .map_err(|error| error.to_string())?;
        let text = answer.body_mut().read_to_string().map_err(|error| error.to_string())?;
        serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))
    }
}

/// A server that gives every request the same answer until the test process ends.
struct Target {
    address: SocketAddr,
    requests: Arc<AtomicUsize>,
}

impl Target {
    fn with(answer: String) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&requests);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                counter.fetch_add(1, Ordering::Relaxed);
                serve(stream, &answer);
            }
        });
        Self { address, requests }
    }
}

/// Reads a request's head, and answers. The client may close the connection early.
fn serve(mut stream: TcpStream, answer: &str) {
    let head = BufReader::new(&stream).lines().map_while(Result::ok);
    if head.into_iter().any(|line| line.is_empty()) {
        stream.write_all(answer.as_bytes()).ok();
    }
}

fn metrics(text: &str) -> String {
    let length = text.len();
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n\
         Content-Length: {length}\r\n\r\n{text}"
    )
}

fn samples(count: usize) -> String {
    (0..count)
        .map(|number| format!("stranger{{n=\"{number}\"}} 1"))
        .chain([String::new()])
        .collect::<Vec<_>>()
        .join("\n")
}

fn labels(count: usize) -> String {
    (0..count).map(|number| format!("n{number}=\"v\"")).collect::<Vec<_>>().join(",")
}
