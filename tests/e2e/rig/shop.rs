//! The application that most cases install: the chart in `tests/e2e/shop`, as a team would write it.

use super::PATIENCE;
use super::case::Case;
use super::command::variable;
use super::hearing::Led;
use super::history::wait_for;
use super::typing::SHOP;
use serde::Deserialize;
use serde_json::{Value, json};

/// What a case installs, and how it reads its ledger.
impl Case {
    /// Installs the shop with what `values` say otherwise, and returns once three replicas are ready and one leads, whose
    /// lines the ledger takes: after an outage of the API server names are resolved late.
    #[track_caller]
    pub(crate) fn install(&self, values: Value) -> Led {
        self.helm_with(&["install", "shop", "tests/e2e/shop"], &self.values(values));
        self.settle(SHOP, 3);
        let leader = self.leader();
        self.wait_for_log(&leader.pod, "application", 0, r#""trouble":null"#);
        leader
    }

    /// The chart's values: images and election, and what a case wants otherwise.
    pub(crate) fn values(&self, otherwise: Value) -> Value {
        let mut values = json!({
            "image": variable("DEMO_IMAGE"),
            "baton": {
                "election": self.election,
                "image": parts(&variable("BATON_IMAGE")),
            },
        });
        merge(&mut values, otherwise);
        values
    }

    /// What the ledger has taken and refused.
    #[track_caller]
    pub(crate) fn ledger(&self, service: &str) -> Books {
        let path =
            format!("/api/v1/namespaces/{}/services/{service}:http/proxy/journal", self.namespace);
        let books = wait_for(PATIENCE, "the ledger answers", || self.cluster.read(&path).ok());
        self.note(&format!("the ledger: {books}"));
        serde_json::from_value(books).expect("it is the ledger's report")
    }

    /// What the shop's ledger has taken, where nothing may have been refused.
    #[track_caller]
    pub(crate) fn assert_books_are_clean(&self) -> Books {
        let books = self.ledger("ledger");
        assert!(books.lines > 0 && (books.refused, books.conflicts) == (0, 0), "{books:?}");
        books
    }
}

/// The ledger's report, as far as tests need it.
#[derive(Debug, Deserialize)]
pub(crate) struct Books {
    pub(crate) lines: u64,
    pub(crate) refused: u64,
    pub(crate) conflicts: u64,
    pub(crate) doubled: u64,
    pub(crate) terms: Vec<Term>,
}

/// What came with one token.
#[derive(Debug, Deserialize)]
pub(crate) struct Term {
    pub(crate) lines: u64,
}

/// An image as the charts' values name it.
pub(crate) fn parts(image: &str) -> Value {
    let (repository, tag) = image.rsplit_once(':').expect("the image is named with a tag");
    json!({ "registry": "", "repository": repository, "tag": tag })
}

/// As Helm merges values: maps by their keys, and all else by the newer.
pub(crate) fn merge(values: &mut Value, otherwise: Value) {
    match (values, otherwise) {
        (Value::Object(values), Value::Object(otherwise)) => {
            for (key, value) in otherwise {
                merge(values.entry(key).or_insert(Value::Null), value);
            }
        }
        (values, otherwise) => *values = otherwise,
    }
}
