//! What a real client said: the lines of `e2e/clients/go/say.go`, read.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::history::Kind;

/// Keys and versions.
pub type Objects = BTreeMap<String, u64>;

/// What came over a watch, or was handed to a handler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// What it was called.
    pub kind: ClientEventType,
    /// `namespace/name`.
    pub key: String,
    /// The object's.
    pub version: u64,
    /// The object's.
    pub uid: String,
}

/// What an event was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientEventType {
    /// As on the wire.
    Kind(Kind),
    /// ADDED or MODIFIED, from a library that does not distinguish them.
    Applied,
    /// A removal that a library found out by listing again.
    Gone,
}

/// What a client took in, in its order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A complete list, with its version where the library has it.
    Listed {
        /// Of the list.
        version: Option<u64>,
        /// What is in it.
        objects: Objects,
    },
    /// An event.
    Event(Event),
}

/// Everything that one client said.
#[derive(Debug, Default)]
pub struct Log {
    /// What came over the wire.
    pub steps: Vec<Step>,
    /// What the library handed to handlers; empty where that is not distinguished.
    pub handled: Vec<Event>,
    /// Watches that were requested with a version to resume from.
    pub resumed: usize,
    /// Media types of what was sent to it, where it reports them.
    pub media_types: BTreeSet<String>,
    /// What it holds at the end.
    pub store: Option<Objects>,
    /// What a reconciler read last.
    pub reconciled: Option<Objects>,
    /// Errors that it met, in words.
    pub errors: Vec<String>,
}

/// How a line with a complete list begins.
pub const LIST: &str = r#"{"list""#;
/// How a line with an event of a watch begins.
pub const EVENT: &str = r#"{"event""#;
/// How a line with what a handler received begins.
pub const HANDLER: &str = r#"{"handler""#;
/// How a line with what a reconciler read begins.
pub const RECONCILE: &str = r#"{"reconcile""#;

impl Log {
    /// Reads a client's whole output.
    ///
    /// # Errors
    /// When a line is not of the protocol.
    pub fn read(text: &str) -> Result<Log> {
        let mut log = Log::default();
        for line in text.lines() {
            log.take(line).with_context(|| format!("the line {line}"))?;
        }
        Ok(log)
    }

    fn take(&mut self, line: &str) -> Result<()> {
        let said: Value = serde_json::from_str(line)?;
        let (name, content) = said.as_object().and_then(|members| members.iter().next()).context("an empty line")?;
        match name.as_str() {
            "request" => {
                let is_resumed = content["verb"] == "watch" && content["sendInitialEvents"] == false;
                self.resumed += usize::from(is_resumed);
                if let Some(media_type) = content["contentType"].as_str().filter(|_| content["status"] == 200) {
                    self.media_types.insert(media_type.to_owned());
                }
                if let Some(failure) = content["failure"].as_str() {
                    self.errors.push(failure.to_owned());
                }
            }
            "list" => {
                let version = content["resourceVersion"].as_str().map(str::parse).transpose()?;
                self.steps.push(Step::Listed { version, objects: objects(&content["objects"])? });
            }
            "event" => self.steps.push(Step::Event(event(content)?)),
            "handler" => self.handled.push(event(content)?),
            "store" => self.store = Some(objects(content)?),
            "reconciled" => self.reconciled = Some(objects(content)?),
            // For waiting only: how often a reconciler runs is its own affair.
            "reconcile" => {}
            "error" => self.errors.push(content.as_str().unwrap_or_default().to_owned()),
            other => bail!("{other} is not a word of the protocol"),
        }
        Ok(())
    }

    /// How often it listed, in whatever way.
    #[must_use]
    pub fn lists(&self) -> usize {
        self.steps.iter().filter(|step| matches!(step, Step::Listed { .. })).count()
    }

    /// How many events came.
    #[must_use]
    pub fn events(&self) -> usize {
        self.steps.len() - self.lists()
    }
}

fn objects(content: &Value) -> Result<Objects> {
    let members = content.as_object().context("no objects")?;
    let pair = |(key, version): (&String, &Value)| {
        Ok((key.clone(), version.as_str().context("a version must be a text")?.parse()?))
    };
    members.iter().map(pair).collect()
}

fn event(content: &Value) -> Result<Event> {
    let text = |name: &str| content[name].as_str().with_context(|| format!("no {name}"));
    let kind = match text("type")? {
        "ADDED" => ClientEventType::Kind(Kind::Added),
        "MODIFIED" => ClientEventType::Kind(Kind::Modified),
        "DELETED" => ClientEventType::Kind(Kind::Deleted),
        "APPLIED" => ClientEventType::Applied,
        "GONE" => ClientEventType::Gone,
        other => bail!("an event of the type {other}"),
    };
    let version = text("resourceVersion")?.parse()?;
    Ok(Event { kind, key: text("key")?.to_owned(), version, uid: text("uid")?.to_owned() })
}
