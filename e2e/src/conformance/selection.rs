//! What is run of a suite: all that its list chooses, or the short selection.

use anyhow::{Context, Result};

use super::build::{self, CONTROLLER_RUNTIME, INTEGRATION, Package, Program};
use super::choice::List;
use super::table::Row;
use super::{Outcome, Outcomes, Side, Suite, controller_runtime, integration, kubectl, kubernetes, python, view};
use crate::components::Built;

/// The suites whose short selections are end-to-end tests too. Nothing has to be built for two of them, and the third consists of
/// packages that most components need.
pub const TESTED: [Suite; 3] = [Suite::Integration, Suite::Kubectl, Suite::Python];

/// Builds what the end-to-end tests run of the suites, unless nothing changed since the last time.
///
/// # Errors
/// As [`build::build`], or when a list is wrong.
pub fn build_tested() -> Result<Built> {
    let selections = TESTED.map(|suite| Selection::for_suite(suite, true, &[]));
    let programs: Vec<Vec<Program>> =
        selections.into_iter().map(|selection| Ok(selection?.programs())).collect::<Result<_>>()?;
    build::build(&programs.concat())
}

/// Chosen tests of a suite.
#[derive(Debug)]
pub struct Selection {
    suite: Suite,
    list: List,
    short: bool,
    only: Vec<String>,
}

impl Selection {
    /// What the list of a suite chooses; of that only the short selection when `short`, and only names that contain one of `only`.
    ///
    /// # Errors
    /// When the list is missing or wrong.
    pub fn for_suite(suite: Suite, short: bool, only: &[String]) -> Result<Selection> {
        Ok(Selection { suite, list: List::load(suite)?, short, only: only.to_vec() })
    }

    /// The suite.
    #[must_use]
    pub fn suite(&self) -> Suite {
        self.suite
    }

    /// The programs that it needs.
    #[must_use]
    pub fn programs(&self) -> Vec<Program> {
        match self.suite {
            Suite::Kubernetes => vec![Program::Ginkgo, Program::KubernetesSpecs],
            Suite::ControllerRuntime => {
                self.controller_runtime_packages().into_iter().map(Program::ControllerRuntime).collect()
            }
            Suite::Integration => self.integration_packages().into_iter().map(Program::Integration).collect(),
            Suite::Kubectl | Suite::Python => Vec::new(),
            Suite::View => {
                vec![Program::Ginkgo, Program::KubernetesSpecs, Program::ControllerRuntime(view::PACKAGE)]
            }
        }
    }

    /// Compares both sides.
    #[must_use]
    pub fn row(&self, direct: &Outcomes, through: &Outcomes) -> Row {
        let chosen: Vec<&str> = direct.keys().map(String::as_str).collect();
        Row::compare(self.suite.name(), &self.list, &chosen, direct, through)
    }

    /// Runs it on one side, `at_once` tests of Kubernetes at a time. A chosen test without an outcome failed.
    ///
    /// # Errors
    /// When the suite cannot be run, or has a test that its list does not know.
    pub async fn run(&self, side: Side, at_once: usize) -> Result<Outcomes> {
        let outcomes = Box::pin(self.outcomes(side, at_once)).await;
        outcomes.with_context(|| format!("{} {}", self.suite.name(), side.name()))
    }

    async fn outcomes(&self, side: Side, at_once: usize) -> Result<Outcomes> {
        let names = match self.suite {
            Suite::Kubernetes => kubernetes::names().await?,
            Suite::Integration => integration::names(&self.integration_packages()).await?,
            Suite::Kubectl => kubectl::names()?,
            Suite::View => {
                let choose = |names: &[String]| self.choose(names.iter());
                return Box::pin(view::run(side, at_once, |suite| self.is_only(suite), choose)).await;
            }
            // The names of their tests are known when they have run.
            Suite::ControllerRuntime | Suite::Python => {
                let mut outcomes = if self.suite == Suite::Python {
                    Box::pin(python::run(side)).await?
                } else {
                    Box::pin(controller_runtime::run(side, &self.controller_runtime_packages())).await?
                };
                let chosen = self.choose(outcomes.keys())?;
                outcomes.retain(|name, _| chosen.contains(name));
                return Ok(outcomes);
            }
        };
        let chosen = self.choose(names.iter())?;
        if chosen.is_empty() {
            return Ok(Outcomes::new());
        }
        let names: Vec<&str> = chosen.iter().map(String::as_str).collect();
        let mut outcomes = match self.suite {
            Suite::Kubernetes => Box::pin(kubernetes::run(side, &names, at_once)).await?,
            Suite::Integration => Box::pin(integration::run(side, &self.list, &names, at_once)).await?,
            _ => Box::pin(kubectl::run(side, &names)).await?,
        };
        for name in chosen {
            outcomes.entry(name).or_insert_with(|| Outcome::Failed("it was not run".to_owned()));
        }
        Ok(outcomes)
    }

    fn choose<'a>(&self, names: impl Iterator<Item = &'a String>) -> Result<Vec<String>> {
        let names: Vec<&str> = names.map(String::as_str).collect();
        let mut chosen = self.list.run(&names, self.short)?;
        chosen.retain(|name| self.only.is_empty() || self.only.iter().any(|only| name.contains(only)));
        Ok(chosen.into_iter().map(str::to_owned).collect())
    }

    fn controller_runtime_packages(&self) -> Vec<&'static str> {
        let short = self.list.short_packages(&CONTROLLER_RUNTIME);
        let mut packages = CONTROLLER_RUNTIME.to_vec();
        packages.retain(|package| !self.short || short.contains(package));
        packages.retain(|package| self.is_only(package));
        packages
    }

    fn integration_packages(&self) -> Vec<&'static Package> {
        let names: Vec<&str> = INTEGRATION.iter().map(|package| package.name).collect();
        let short = self.list.short_packages(&names);
        let chosen = |package: &&Package| !self.short || short.contains(&package.name);
        INTEGRATION.iter().filter(chosen).filter(|package| self.is_only(package.name)).collect()
    }

    /// Whether a package can have tests with a text that the options name, which may start with another package.
    fn is_only(&self, package: &str) -> bool {
        let may_have = |only: &String| only.split_once(": ").is_none_or(|(named, _)| named == package);
        self.only.is_empty() || self.only.iter().any(may_have)
    }
}
