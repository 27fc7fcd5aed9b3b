//! `make conformance`: suites that this project did not write, first against kube-apiserver alone, then through fieldcache.
//!
//! A suite is a set of tests with names. Its list in `e2e/conformance/lists` says which of them are run and which are
//! left out, with reasons ([`choice`]). A test that fails directly does not count. One that passes directly and fails
//! through fieldcache is a difference, which the list must name with a reason ([`table`]). The suites come from Go
//! modules and the Python package index; only the programs that run them are here ([`build`], `e2e/conformance`).

pub mod build;
pub mod choice;
pub mod controller_runtime;
pub mod integration;
pub mod kubectl;
pub mod kubernetes;
pub mod python;
pub mod report;
pub mod run;
pub mod selection;
pub mod table;
pub mod view;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What became of one test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It passed.
    Passed,
    /// It skipped itself, in its own words if it has any.
    Skipped(String),
    /// It failed, in its own words.
    Failed(String),
}

/// Outcomes by the name of the test.
pub type Outcomes = BTreeMap<String, Outcome>;

/// What a suite talks to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// kube-apiserver alone.
    Direct,
    /// `fieldcache serve --pass-through all` in front of it.
    Through,
    /// Reads go to a View of an operator beside it; see [`view`].
    View,
}

impl Side {
    /// A word for file names and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Side::Direct => "direct",
            Side::Through => "through",
            Side::View => "view",
        }
    }
}

/// The suites that are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Suite {
    /// Specs of `k8s.io/kubernetes/test/e2e` that need no node.
    Kubernetes,
    /// The suites of controller-runtime that talk to a server.
    ControllerRuntime,
    /// Integration tests of Kubernetes and of its apiextensions server.
    Integration,
    /// Kubernetes' scripts `test/cmd`, which run kubectl.
    Kubectl,
    /// The tests of the Python client that talk to a server.
    Python,
    /// Tests of these suites that read, with their reads at a View; see [`view`].
    View,
}

impl Suite {
    /// All of them, in the order of the table.
    pub const ALL: [Suite; 6] =
        [Suite::Kubernetes, Suite::ControllerRuntime, Suite::Integration, Suite::Kubectl, Suite::Python, Suite::View];

    /// Its name, which is also that of its list.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Suite::Kubernetes => "kubernetes-e2e",
            Suite::ControllerRuntime => "controller-runtime",
            Suite::Integration => "integration",
            Suite::Kubectl => "kubectl",
            Suite::Python => "python",
            Suite::View => "view",
        }
    }

    /// The file with its list.
    #[must_use]
    pub fn list(self) -> PathBuf {
        directory().join("lists").join(format!("{}.txt", self.name()))
    }
}

/// `e2e/conformance`: lists, the Go module of the suites, and the scripts that run the others.
#[must_use]
pub fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance")
}
