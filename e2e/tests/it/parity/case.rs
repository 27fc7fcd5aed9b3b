//! One request case: what is asked, how the answers are read, and how they are compared.
//!
//! Cases are data, made by the few functions here and listed in [`super::cases`]. Paths are templates over the stage's variables.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use e2e::http::{Answer, Request};
use e2e::openapi::{Form as Document, View, decode};
use http::Method;
use serde_json::{Value, json};

use super::outcome::{self, Version};
use super::side::Side;
use super::stage::Variables;

/// How an answer is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// Status, headers and body.
    Whole,
    /// All pages, each asked for with the token of the one before.
    Walk,
    /// Of a Swagger 2 document only what belongs to the suite's groups, and the root without the rest.
    SwaggerOfGroups,
    /// An OpenAPI 3 index: addresses without their hashes.
    Index,
    /// A protobuf document, read by the decoder of Go clients.
    Protobuf(Document),
    /// The same request again with the answer's `ETag`.
    SecondTime,
    /// The address that the index gives for a path, with its hash; the case's path names the path.
    Hashed,
}

/// One request.
#[derive(Debug, Clone)]
pub struct Case {
    pub name: String,
    pub method: Method,
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub version: Version,
    pub reading: Reading,
}

/// A GET whose answer, if it is a list, is of the moment.
pub fn get(name: &str, path: &str) -> Case {
    Case {
        name: name.to_owned(),
        method: Method::GET,
        path: path.to_owned(),
        headers: Vec::new(),
        version: Version::Current,
        reading: Reading::Whole,
    }
}

/// A GET whose answer's version is determined by the request.
pub fn exact(name: &str, path: &str) -> Case {
    Case { version: Version::Exact, ..get(name, path) }
}

/// A GET of all pages.
pub fn walk(name: &str, path: &str) -> Case {
    get(name, path).reading(Reading::Walk)
}

impl Case {
    /// With another method.
    pub fn method(mut self, method: Method) -> Case {
        self.method = method;
        self
    }

    /// With one more header.
    pub fn header(mut self, name: &str, value: &str) -> Case {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With an `Accept` header.
    pub fn accept(self, value: &str) -> Case {
        self.header("accept", value)
    }

    /// Read otherwise.
    pub fn reading(mut self, reading: Reading) -> Case {
        self.reading = reading;
        self
    }

    /// What a side answers, as a document to compare. A failure of the connection is an outcome too.
    pub async fn ask(&self, side: &Side, variables: &Variables) -> Result<Value> {
        let path = variables.fill(&self.path).with_context(|| self.name.clone())?;
        Ok(match self.read(side, &path).await {
            Ok(outcome) => outcome,
            Err(error) => json!({ "no answer": format!("{error:#}") }),
        })
    }

    async fn read(&self, side: &Side, path: &str) -> Result<Value> {
        match self.reading {
            Reading::Whole => Ok(outcome::of_answer(&self.send(side, path).await?, self.version)),
            Reading::Walk => self.walk(side, path).await,
            Reading::SwaggerOfGroups => self.swagger(side, path).await,
            Reading::Index => {
                let answer = self.send(side, path).await?;
                let mut outcome = outcome::of_answer(&answer, self.version);
                let document: Value = serde_json::from_slice(&answer.body).context("the index is no JSON")?;
                outcome["body"] = index(&document);
                if let Some(members) = outcome.as_object_mut() {
                    members.remove("text");
                }
                Ok(outcome)
            }
            Reading::Protobuf(form) => {
                let answer = self.send(side, path).await?;
                let document = if answer.status.is_success() {
                    decoded(form, outcome::plain_body(&answer)?)?
                } else {
                    Value::String(answer.text())
                };
                let headers = outcome::headers(&answer.headers);
                Ok(json!({ "status": answer.status.as_u16(), "headers": headers, "body": document }))
            }
            Reading::SecondTime => {
                let first = self.send(side, path).await?;
                let etag = first.header("etag").context("no ETag")?;
                let again = self.clone().header("if-none-match", etag).send(side, path).await?;
                Ok(outcome::of_answer(&again, self.version))
            }
            Reading::Hashed => {
                let url = address(side, path).await?;
                Ok(outcome::of_answer(&self.send(side, &url).await?, self.version))
            }
        }
    }

    async fn send(&self, side: &Side, path: &str) -> Result<Answer> {
        let mut request = Request::new(self.method.clone(), path);
        request.headers.clone_from(&self.headers);
        side.send(request).await
    }

    /// Names, sizes and counts of all pages. Whether a selection ends with one page of nothing stands apart: a server that scans
    /// cannot know, one with an index can.
    async fn walk(&self, side: &Side, path: &str) -> Result<Value> {
        const MOST: usize = 40;
        let (mut names, mut sizes, mut remaining, mut versions) = (vec![], vec![], vec![], vec![]);
        let mut next = path.to_owned();
        let mut empty_last = false;
        for _ in 0..MOST {
            let answer = self.send(side, &next).await?;
            if !answer.status.is_success() {
                return Ok(json!({ "after": names, "failed": outcome::of_answer(&answer, self.version) }));
            }
            let page = answer.json()?;
            let members = page["items"].as_array().or(page["rows"].as_array()).context("neither items nor rows")?;
            let objects: Vec<&Value> = members
                .iter()
                .map(|member| if member["object"].is_object() { &member["object"] } else { member })
                .collect();
            names.extend(objects.iter().map(|object| {
                let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
                format!("{}/{}", text("namespace"), text("name"))
            }));
            versions.push(page["metadata"]["resourceVersion"].clone());
            let token = page["metadata"]["continue"].as_str().unwrap_or_default();
            if objects.is_empty() && token.is_empty() && !sizes.is_empty() {
                empty_last = true;
            } else {
                sizes.push(objects.len());
                remaining.push(page["metadata"]["remainingItemCount"].clone());
            }
            if token.is_empty() {
                let one_version = versions.iter().all(|version| *version == versions[0] && version.is_string());
                return Ok(json!({
                    "items": names, "pages": sizes, "remaining": remaining,
                    "one version": one_version, "ends with an empty page": empty_last,
                }));
            }
            next = format!("{path}&continue={token}");
        }
        bail!("more than {MOST} pages")
    }

    async fn swagger(&self, side: &Side, path: &str) -> Result<Value> {
        let answer = self.send(side, path).await?;
        let mut outcome = json!({ "status": answer.status.as_u16(), "headers": outcome::headers(&answer.headers) });
        let document: Value = serde_json::from_slice(&outcome::plain_body(&answer)?).context("no JSON document")?;
        outcome["body"] = of_groups(document);
        Ok(outcome)
    }
}

/// A decoded document. The decoder is a process of its own, so it reads the same bytes once only.
fn decoded(form: Document, bytes: Vec<u8>) -> Result<Value> {
    static READ: LazyLock<Mutex<HashMap<Vec<u8>, Value>>> = LazyLock::new(Mutex::default);
    let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(document) = read.get(&bytes) {
        return Ok(document.clone());
    }
    let mut document = decode(form, View::Document, &bytes)?;
    if form == Document::V2 {
        document = of_groups(document);
    }
    read.insert(bytes, document.clone());
    Ok(document)
}

/// The part of a Swagger 2 document that belongs to the suite's groups, and everything small at its root.
fn of_groups(mut document: Value) -> Value {
    for (member, marks) in
        [("paths", ["/apis/shop.", "/apis/live."]), ("definitions", ["com.example.shop.", "com.example.live."])]
    {
        if let Some(members) = document[member].as_object_mut() {
            members.retain(|name, _| marks.iter().any(|mark| name.starts_with(mark)));
        }
    }
    // Shared parameters are named by a hash of their content and serve all groups; the paths refer to them by these names.
    if let Some(members) = document.as_object_mut() {
        members.remove("parameters");
    }
    document
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
