//! One request case: what is requested, how the answers are read, and how they are compared.
//!
//! Cases are data, made by the few functions here and by [`super::dimension`], and listed in [`super::cases`]. Paths are templates
//! over the stage's variables.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::http::{Answer, Request};
use e2e::openapi::{Form as Document, View, decode};
use http::Method;
use serde_json::{Value, json};

use super::outcome::{self, Version};
use super::side::{Recording, Side};
use super::stage::Variables;

/// How an answer is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// Status, headers and body.
    Whole,
    /// All pages, each requested with the token of the one before.
    Walk,
    /// An OpenAPI 3 index, which is JSON whatever its media type says: addresses without their hashes.
    Index,
    /// The events of a watch that ends soon.
    Events,
    /// A protobuf document, read by the decoder of Go clients.
    Protobuf(Document),
    /// The same request again with the answer's `ETag`.
    SecondTime,
    /// The address that the index gives for a path, with its hash; the case's path names the path.
    Hashed,
}

/// One request.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) reading: Reading,
}

/// A GET.
pub(crate) fn get(name: &str, path: &str) -> Case {
    Case {
        name: name.to_owned(),
        method: Method::GET,
        path: path.to_owned(),
        headers: Vec::new(),
        reading: Reading::Whole,
    }
}

/// A GET of all pages.
pub(crate) fn walk(name: &str, path: &str) -> Case {
    get(name, path).reading(Reading::Walk)
}

impl Case {
    /// With another method.
    pub(crate) fn method(mut self, method: Method) -> Case {
        self.method = method;
        self
    }

    /// With one more header.
    pub(crate) fn header(mut self, name: &str, value: &str) -> Case {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With an `Accept` header.
    pub(crate) fn accept(self, value: &str) -> Case {
        self.header("accept", value)
    }

    /// Read otherwise.
    pub(crate) fn reading(mut self, reading: Reading) -> Case {
        self.reading = reading;
        self
    }

    /// What a side answers, as a document to compare. A failure of the connection is an outcome too.
    pub(crate) async fn outcome(&self, side: &Side, variables: &Variables) -> Result<Value> {
        let path = variables.fill(&self.path).with_context(|| self.name.clone())?;
        Ok(match self.read(side, &path).await {
            Ok(outcome) => outcome,
            Err(error) => json!({ "no answer": format!("{error:#}") }),
        })
    }

    /// What the version of the response means, if it is a list. Three things determine it: a token with a version, a
    /// version that must match exactly, and a version with a limit, which means the same.
    fn version(&self) -> Version {
        let (_, query) = self.path.split_once('?').unwrap_or_default();
        let value = |name: &str| {
            query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('=')).unwrap_or_default()
        };
        let named = value("resourceVersion").starts_with('{');
        let exact = match value("resourceVersionMatch") {
            "Exact" => true,
            "" => !value("limit").is_empty(),
            _ => false,
        };
        let token = value("continue").strip_prefix("{token:").is_some_and(|token| !token.starts_with("newest"));
        if token || (named && exact) { Version::Exact } else { Version::Current }
    }

    async fn read(&self, side: &Side, path: &str) -> Result<Value> {
        match self.reading {
            Reading::Whole => Ok(outcome::of_answer(&self.send(side, path).await?, self.version())),
            Reading::Walk => self.walk(side, path).await,
            Reading::Index => {
                let answer = self.send(side, path).await?;
                let mut outcome = outcome::of_answer(&answer, self.version());
                let document: Value = serde_json::from_slice(&answer.body).context("the index is no JSON")?;
                outcome["body"] = index(&document);
                if let Some(members) = outcome.as_object_mut() {
                    members.remove("text");
                }
                Ok(outcome)
            }
            Reading::Events => {
                let answer = self.send(side, path).await?;
                if !answer.status.is_success() {
                    // Beside another version a watch may be refused that is not meant to be.
                    return Ok(outcome::of_answer(&answer, self.version()));
                }
                let lines = answer.body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
                let recording = Recording {
                    status: answer.status,
                    headers: answer.headers.clone(),
                    is_upgraded: false,
                    events: lines.map(serde_json::from_slice).collect::<Result<_, _>>().context("no line of JSON")?,
                    ended: true,
                    lasted: Duration::ZERO,
                };
                Ok(outcome::of_recording(&recording, None))
            }
            Reading::Protobuf(form) => {
                let answer = self.send(side, path).await?;
                let document = if answer.status.is_success() {
                    decoded(form, outcome::plain_body(&answer)?)?
                } else {
                    Value::String(answer.text())
                };
                let headers = outcome::headers_of(&answer.headers, &outcome::plain_body(&answer)?);
                Ok(json!({ "status": answer.status.as_u16(), "headers": headers, "body": document }))
            }
            Reading::SecondTime => {
                let first = self.send(side, path).await?;
                let etag = first.header("etag").context("no ETag")?;
                let again = self.clone().header("if-none-match", etag).send(side, path).await?;
                let mut outcome = outcome::of_answer(&again, self.version());
                outcome["the tag of the first time"] = (again.header("etag") == Some(etag)).into();
                Ok(outcome)
            }
            Reading::Hashed => {
                let url = address(side, path).await?;
                let answer = self.send(side, &url).await?;
                let mut outcome = outcome::of_answer(&answer, self.version());
                let hash = url.split_once("hash=").map(|(_, hash)| format!("\"{hash}\""));
                outcome["the hash of the address is the tag"] = (answer.header("etag") == hash.as_deref()).into();
                Ok(outcome)
            }
        }
    }

    async fn send(&self, side: &Side, path: &str) -> Result<Answer> {
        let mut request = Request::new(self.method.clone(), path);
        request.headers.clone_from(&self.headers);
        side.send(request).await
    }

    /// Every page as it is, with its version replaced by whether it is that of the first. A last page of nothing is
    /// separate. A server that scans cannot know that nothing more matches, but one with an index can. So the presence
    /// of a token is recorded for all pages but the last that has something.
    async fn walk(&self, side: &Side, path: &str) -> Result<Value> {
        const MOST: usize = 40;
        let mut pages: Vec<Value> = Vec::new();
        let mut first_version = Value::Null;
        let mut next = path.to_owned();
        loop {
            let answer = self.send(side, &next).await?;
            let version = if pages.is_empty() { self.version() } else { Version::Exact };
            let mut page = outcome::of_answer(&answer, version);
            let document: Value =
                serde_json::from_slice(&outcome::plain_body(&answer)?).context("a page is no JSON")?;
            let own_version = document["metadata"]["resourceVersion"].clone();
            if pages.is_empty() {
                first_version = own_version;
            } else if own_version == first_version && own_version.is_string() {
                page["body"]["metadata"]["resourceVersion"] = "that of the first page".into();
            }
            let token = document["metadata"]["continue"].as_str().unwrap_or_default();
            let is_empty = ["items", "rows"].iter().any(|members| document[members] == json!([]));
            if is_empty && token.is_empty() && !pages.is_empty() {
                return Ok(json!({ "pages": without_last_token(pages), "ends with an empty page": true }));
            }
            pages.push(page);
            if token.is_empty() || !answer.status.is_success() {
                return Ok(json!({ "pages": without_last_token(pages), "ends with an empty page": false }));
            }
            ensure!(pages.len() < MOST, "more than {MOST} pages");
            next = format!("{path}&continue={token}");
        }
    }
}

fn without_last_token(mut pages: Vec<Value>) -> Vec<Value> {
    let metadata = pages.last_mut().and_then(|page| page.pointer_mut("/body/metadata")).and_then(Value::as_object_mut);
    if let Some(metadata) = metadata {
        metadata.remove("continue");
    }
    pages
}

/// A decoded document. The decoder is a process of its own, so it reads the same bytes once only.
fn decoded(form: Document, bytes: Vec<u8>) -> Result<Value> {
    static READ: LazyLock<Mutex<HashMap<Vec<u8>, Value>>> = LazyLock::new(Mutex::default);
    let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(document) = read.get(&bytes) {
        return Ok(document.clone());
    }
    let document = decode(form, View::Document, &bytes)?;
    read.insert(bytes, document.clone());
    Ok(document)
}

fn index(document: &Value) -> Value {
    let mut document = document.clone();
    for (_, entry) in document["paths"].as_object_mut().into_iter().flatten() {
        let url = outcome::hashless(entry["serverRelativeURL"].as_str().unwrap_or_default());
        entry["serverRelativeURL"] = url.into();
    }
    document
}

/// The address with its hash of a path such as `apis/shop.example.com/v1` in a side's index.
async fn address(side: &Side, path: &str) -> Result<String> {
    let index = side.send(Request::get("/openapi/v3")).await?.json()?;
    let url = index["paths"][path]["serverRelativeURL"].as_str();
    Ok(url.with_context(|| format!("the index has no {path}"))?.to_owned())
}
