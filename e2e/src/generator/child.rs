//! The generator as a child process, and how to command it.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use http::Method;
use serde_json::Value;

use super::{Beside, Corpus};
use crate::corpus::Text;
use crate::http::{Client, Endpoint, Request};
use crate::process::{Invocation, Process};
use crate::run_directory::RunDirectory;

/// How long a million objects may take to be made on a slow machine.
const PREPARE_DEADLINE: Duration = Duration::from_secs(600);

/// A running generator; dropping it kills it.
#[derive(Debug)]
pub struct Child {
    endpoint: Endpoint,
    client: Client,
    process: Process,
    // After the process, which is to be gone first.
    _directory: RunDirectory,
}

/// Which program it is: a file, and the arguments before the generator's own.
#[derive(Debug, Clone)]
pub struct Program {
    /// The file.
    pub file: PathBuf,
    /// The arguments that make it a generator.
    pub arguments: Vec<String>,
}

impl Child {
    /// Starts one that holds `corpus` and the resources besides it, and waits until its bytes are prepared.
    ///
    /// # Errors
    /// When it ends or is not ready in time; with its words.
    pub async fn start(program: &Program, corpus: &Corpus, beside: Beside) -> Result<Child> {
        let mut arguments = match corpus {
            Corpus::Shirts(shirts) => {
                let text = match shirts.text {
                    Text::Varied => "varied",
                    Text::Repeated => "repeated",
                };
                vec!["shirts".to_owned(), "--text".to_owned(), text.to_owned()]
            }
            Corpus::Pods(_) => vec!["pods".to_owned()],
        };
        let seed = match corpus {
            Corpus::Shirts(shirts) => shirts.seed,
            Corpus::Pods(pods) => pods.seed,
        };
        let mut numbers = vec![("--objects", corpus.count()), ("--seed", seed), ("--small", beside.small as u64)];
        if beside.copies > 0 {
            numbers.push(("--copies", beside.copies as u64));
        }
        for (flag, number) in numbers {
            arguments.extend([flag.to_owned(), number.to_string()]);
        }
        Child::run(program, arguments).await
    }

    /// Starts a bare server of what `url` answers now.
    ///
    /// # Errors
    /// When it ends or is not ready in time; with its words.
    pub async fn bare(program: &Program, url: &str) -> Result<Child> {
        Child::run(program, ["bytes".to_owned(), "--from".to_owned(), url.to_owned()]).await
    }

    /// Starts a bare server of open HTTP/2 streams.
    ///
    /// # Errors
    /// When it ends or is not ready in time; with its words.
    pub async fn streams(program: &Program) -> Result<Child> {
        Child::run(program, ["streams".to_owned()]).await
    }

    async fn run(program: &Program, arguments: impl IntoIterator<Item = String>) -> Result<Child> {
        let directory = RunDirectory::create("generator")?;
        let invocation =
            Invocation::new(program.file.clone()).arguments(program.arguments.iter().cloned()).arguments(arguments);
        let process = Process::start("generator", &invocation, directory.path())?;
        let address = |line: &str| {
            let rest = line.strip_prefix("generator at ")?;
            Some(rest.split_whitespace().next()?.to_owned())
        };
        let address = process.line("the generator's address", PREPARE_DEADLINE, address).await?;
        let endpoint = Endpoint::plain(&address)?;
        Ok(Child { client: endpoint.client(), endpoint, process, _directory: directory })
    }

    /// Where it serves.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Its process, for accounting.
    #[must_use]
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Prepares `events` updates and sends them. Returns the version of the last when the first is about to be sent.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn burst(&self, events: u64) -> Result<u64> {
        version(&self.command(&format!("burst?events={events}")).await?)
    }

    /// Sets the rates of updates, and of deletions and creations, a second.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn rate(&self, updates: f64, churn: f64) -> Result<()> {
        self.command(&format!("rate?updates={updates}&churn={churn}")).await.map(|_| ())
    }

    /// Ends all watches with 410. Returns the version that a new list will have.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn relist(&self, change_all: bool) -> Result<u64> {
        version(&self.command(if change_all { "relist?changed=1" } else { "relist" }).await?)
    }

    /// What is going on: `objects`, `bytes`, `version`, `watchers`, `sent`, `lists`, `bursting`.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn state(&self) -> Result<Value> {
        self.client.get_json("/generator/state").await
    }

    async fn command(&self, command: &str) -> Result<Value> {
        let request = Request::new(Method::POST, format!("/generator/{command}"));
        self.client.send(request).await?.success()?.json()
    }
}

fn version(answer: &Value) -> Result<u64> {
    answer["version"].as_u64().context("the generator's answer has no version")
}
