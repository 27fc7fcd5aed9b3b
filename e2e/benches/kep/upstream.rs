//! kube-apiserver's side: the Go command `selectable-fields-bench`, a new process for each request.
//!
//! What it counts is said in its own source, `e2e/go/cmd/selectable-fields-bench`.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use e2e::components::{Component, locate};
use serde_json::Value;

use super::{FIELD_COUNTS, Nanoseconds};

/// What is selectable of one object: the answer of `GetAttrs`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Attributes {
    /// Labels by key.
    pub(crate) labels: BTreeMap<String, String>,
    /// Texts of fields by label, metadata.name and metadata.namespace among them.
    pub(crate) fields: BTreeMap<String, String>,
}

/// The figures of one round.
pub(crate) struct Round {
    /// `GetAttrs` per object, in the order of [`FIELD_COUNTS`].
    pub(crate) costs: Vec<Nanoseconds>,
    /// Decoding per object.
    pub(crate) decoding: Nanoseconds,
}

/// The command and the objects it is reviewed.
pub(crate) struct Upstream {
    command: PathBuf,
    /// A line each.
    input: Vec<u8>,
    objects: usize,
}

impl Upstream {
    pub(crate) fn new(objects: &[Bytes]) -> Result<Upstream> {
        let mut input = Vec::new();
        for object in objects {
            input.extend_from_slice(object);
            input.push(b'\n');
        }
        Ok(Upstream { command: locate(Component::SelectableFieldsBench)?, input, objects: objects.len() })
    }

    /// What `GetAttrs` answers for each object when these are the selectable fields.
    pub(crate) fn attributes(&self, paths: &[&str]) -> Result<Vec<Attributes>> {
        let output = self.run(&["-print".to_owned()], paths)?;
        let answers = serde_json::Deserializer::from_slice(&output).into_iter::<Value>();
        answers
            .map(|answer| {
                let answer = answer.context("reading the answer for an object")?;
                Ok(Attributes { labels: texts(&answer["labels"])?, fields: texts(&answer["fields"])? })
            })
            .collect()
    }

    /// One round of figures.
    pub(crate) fn measure(&self, paths: &[&str], duration: Duration) -> Result<Round> {
        let output = self.run(&["-duration".to_owned(), format!("{}ms", duration.as_millis())], paths)?;
        let report: Value = serde_json::from_slice(&output).context("reading the figures")?;
        ensure!(report["objects"] == self.objects, "it has read {} objects of {}", report["objects"], self.objects);
        let rows = report["rows"].as_array().context("the figures have no rows")?;
        let counts: Vec<_> = rows.iter().map(|row| row["fields"].clone()).collect();
        ensure!(counts == FIELD_COUNTS, "it has measured {counts:?} fields, not {FIELD_COUNTS:?}");
        let costs = rows.iter().map(|row| row["cpuNanos"].as_f64().context("cpuNanos")).collect::<Result<_>>()?;
        Ok(Round { costs, decoding: report["decodeNanos"].as_f64().context("decodeNanos")? })
    }

    fn run(&self, options: &[String], paths: &[&str]) -> Result<Vec<u8>> {
        let name = Component::SelectableFieldsBench.file_name();
        let mut child = Command::new(&self.command)
            .args(options)
            .args(paths)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {name}"))?;
        let mut input = child.stdin.take().context("the command has no standard input")?;
        // It reads everything before it prints anything. One that ends earlier has said why on standard error, and its status counts.
        let written = input.write_all(&self.input);
        drop(input);
        let output = child.wait_with_output().with_context(|| format!("waiting for {name}"))?;
        ensure!(output.status.success(), "{name} failed: {}", output.status);
        written.with_context(|| format!("sending objects to {name}"))?;
        Ok(output.stdout)
    }
}

/// A map of texts; Go writes an empty one as null.
fn texts(map: &Value) -> Result<BTreeMap<String, String>> {
    let Some(members) = map.as_object() else {
        ensure!(map.is_null(), "{map} is no map of texts");
        return Ok(BTreeMap::new());
    };
    let text = |text: &Value| text.as_str().map(str::to_owned).with_context(|| format!("{text} is no text"));
    members.iter().map(|(key, value)| Ok((key.clone(), text(value)?))).collect()
}
