//! The application that most cases install: the chart in `tests/e2e/shop`.

use super::PATIENCE;
use super::case::Case;
use super::command::variable;
use super::history::wait_for;
use super::observations::Leader;
use super::operations::SHOP;
use serde::Deserialize;
use serde_json::{Value, json};

/// Installs the shop and reads its ledger.
impl Case {
    /// Installs the shop with these overrides. Returns when three replicas are ready, one leads,
    /// and the ledger takes its lines: after an outage of the API server DNS is late.
    #[track_caller]
    pub(crate) fn install(&self, values: Value) -> Leader {
        self.helm_with(&["install", "shop", "tests/e2e/shop"], &self.values(values));
        self.wait_for_pods(SHOP, 3);
        let leader = self.leader();
        self.wait_for_log(&leader.pod, "application", 0, r#""trouble":null"#);
        leader
    }

    /// The shop's values: images, election, and overrides.
    pub(crate) fn values(&self, overrides: Value) -> Value {
        let mut values = json!({
            "image": variable("DEMO_IMAGE"),
            "baton": {
                "election": self.election,
                "image": image_values(&variable("BATON_IMAGE")),
            },
        });
        merge(&mut values, overrides);
        values
    }

    /// The report of a ledger.
    #[track_caller]
    pub(crate) fn ledger(&self, service: &str) -> LedgerReport {
        let path =
            format!("/api/v1/namespaces/{}/services/{service}:http/proxy/journal", self.namespace);
        let report = wait_for(PATIENCE, "the ledger answers", || self.cluster.read(&path).ok());
        self.note(&format!("the ledger: {report}"));
        serde_json::from_value(report).expect("the answer is a ledger's report")
    }

    /// The report of the shop's ledger. Panics if it has no lines, a refusal, or a conflict.
    #[track_caller]
    pub(crate) fn assert_ledger_is_clean(&self) -> LedgerReport {
        let report = self.ledger("ledger");
        assert!(report.lines > 0 && (report.refused, report.conflicts) == (0, 0), "{report:?}");
        report
    }
}

/// The fields of the ledger's report that tests need.
#[derive(Debug, Deserialize)]
pub(crate) struct LedgerReport {
    pub(crate) lines: u64,
    pub(crate) refused: u64,
    pub(crate) conflicts: u64,
    pub(crate) doubled: u64,
    /// In the order of their tokens.
    pub(crate) terms: Vec<Term>,
}

/// The lines with one token.
#[derive(Debug, Deserialize)]
pub(crate) struct Term {
    /// The Pod that wrote them.
    pub(crate) writer: String,
    pub(crate) lines: u64,
}

/// An image in the form of the charts' values.
pub(crate) fn image_values(image: &str) -> Value {
    let (repository, tag) = image.rsplit_once(':').expect("the image has a tag");
    json!({ "registry": "", "repository": repository, "tag": tag })
}

/// Merges values as Helm does: maps by key, other values replaced.
pub(crate) fn merge(values: &mut Value, overrides: Value) {
    match (values, overrides) {
        (Value::Object(values), Value::Object(overrides)) => {
            for (key, value) in overrides {
                merge(values.entry(key).or_insert(Value::Null), value);
            }
        }
        (values, overrides) => *values = overrides,
    }
}
