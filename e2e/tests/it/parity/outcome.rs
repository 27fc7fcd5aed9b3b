//! An answer or a recorded watch as one JSON document, so that two of them can be compared.
//!
//! Normalised is only what must differ between two servers or two moments, and each time a symbol takes its place after a check:
//! versions of lists of "now" (not older than their items), continue tokens (opaque), ages in seconds to hours, the numbers of other
//! servers in two messages, hashes. Everything else stays as it was sent.

use std::collections::BTreeSet;
use std::io::Read;

use anyhow::{Context, Result};
use e2e::http::Answer;
use flate2::read::GzDecoder;
use http::HeaderMap;
use serde_json::{Map, Value, json};

use super::side::Recording;

/// Headers whose value is compared.
const COMPARED: [&str; 9] = [
    "allow",
    "cache-control",
    "content-encoding",
    "content-type",
    "retry-after",
    "vary",
    "warning",
    "www-authenticate",
    "x-content-type-options",
];
/// Headers that must be there or not be there.
const PRESENT: [&str; 4] = ["audit-id", "etag", "expires", "last-modified"];

/// What a list's own version means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// The moment of the answer: not older than any item; otherwise free.
    Current,
    /// Determined by the request.
    Exact,
}

/// A whole answer.
pub fn of_answer(answer: &Answer, version: Version) -> Value {
    let body = plain_body(answer).unwrap_or_else(|error| format!("{error:#}").into_bytes());
    let mut outcome = json!({ "status": answer.status.as_u16(), "headers": headers(&answer.headers) });
    let content_type = answer.header("content-type").unwrap_or_default();
    if content_type.contains("json")
        && let Ok(document) = serde_json::from_slice(&body)
    {
        outcome["layout"] = layout(&body).into();
        outcome["body"] = normalised(document, version);
    } else if content_type.contains("yaml")
        && let Ok(document) = serde_saphyr::from_slice(&body)
    {
        // Styles of YAML are many; what it says is compared.
        outcome["body"] = normalised(document, version);
    } else {
        outcome["text"] = String::from_utf8_lossy(&body).split('\n').collect();
    }
    outcome
}

/// A watch. `timeout` is what it was asked to last, in seconds, if it was read to its end.
///
/// Bookmarks other than the one that ends the initial events come by the clock, so of these it is compared whether they promise
/// what was sent before them, what they look like, and whether there are any where time is enough for one.
pub fn of_recording(recording: &Recording, timeout: Option<u64>) -> Value {
    /// A bookmark comes two seconds before the end.
    const ENOUGH_FOR_A_BOOKMARK: u64 = 4;
    let mut seen = 0;
    let mut events = Vec::new();
    let mut bookmarks = BTreeSet::new();
    for event in &recording.events {
        let mut event = event.clone();
        // The answer to a refused watch is no event.
        if !event["object"].is_object() {
            if event.is_object() {
                messages(&mut event);
            }
            events.push(event);
            continue;
        }
        let bookmark = event["type"] == "BOOKMARK";
        let object = &mut event["object"];
        let mut promised = true;
        if bookmark {
            promised = symbol(object.pointer_mut("/metadata/resourceVersion"), seen);
            symbol(object.pointer_mut("/rows/0/object/metadata/resourceVersion"), seen);
        } else {
            seen = seen.max(number(&object["metadata"]["resourceVersion"]));
        }
        if object["kind"] == "Table" {
            ages(object);
            // Which later events carry the columns again is a race within kube-apiserver (handlers/response.go).
            if let Some(table) = object.as_object_mut().filter(|_| !events.is_empty()) {
                table.remove("columnDefinitions");
            }
        }
        messages(object);
        if bookmark && promised && !event.to_string().contains("k8s.io/initial-events-end") {
            bookmarks.insert(event.to_string());
        } else {
            events.push(event);
        }
    }
    let mut outcome = json!({
        "status": recording.status.as_u16(),
        "headers": headers(&recording.headers),
        "ended": recording.ended,
        "events": whole_lines(events),
    });
    if let Some(timeout) = timeout.filter(|_| recording.status.is_success()) {
        let lasted = u64::try_from(recording.lasted.as_millis()).unwrap_or(u64::MAX);
        let (least, most) = (timeout * 1000, timeout * 1000 + 5000);
        outcome["lasted"] = if lasted < least {
            "shorter"
        } else if lasted < most {
            "as asked"
        } else {
            "longer"
        }
        .into();
        if timeout >= ENOUGH_FOR_A_BOOKMARK {
            let parsed: Vec<Value> = bookmarks.iter().filter_map(|text| serde_json::from_str(text).ok()).collect();
            outcome["other bookmarks"] = parsed.into();
        }
    }
    outcome
}

/// An answer that was read line by line but is one document in several lines.
fn whole_lines(events: Vec<Value>) -> Vec<Value> {
    let lines: Option<Vec<&str>> = events.iter().map(Value::as_str).collect();
    let document = lines.filter(|lines| !lines.is_empty()).map(|lines| lines.join("\n"));
    match document.as_deref().map(serde_saphyr::from_str::<Value>) {
        // YAML reads JSON too.
        Some(Ok(document)) => vec![document, "in several lines".into()],
        _ => events,
    }
}

/// The body as it was before compression.
pub fn plain_body(answer: &Answer) -> Result<Vec<u8>> {
    if answer.header("content-encoding") != Some("gzip") {
        return Ok(answer.body.to_vec());
    }
    let mut plain = Vec::new();
    GzDecoder::new(&answer.body[..]).read_to_end(&mut plain).context("the body is not gzip as its header says")?;
    Ok(plain)
}

/// The headers that matter.
pub fn headers(headers: &HeaderMap) -> Value {
    let mut compared = Map::new();
    for name in COMPARED {
        let values: Vec<&str> = headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect();
        if !values.is_empty() {
            // The same list may be sent as one header or as several.
            let mut parts: Vec<&str> = values.iter().flat_map(|value| value.split(", ")).collect();
            if name == "vary" {
                parts.sort_unstable();
            }
            compared.insert(name.to_owned(), parts.join(", ").into());
        }
    }
    for name in PRESENT {
        if headers.contains_key(name) {
            compared.insert(name.to_owned(), "(present)".into());
        }
    }
    if let Some(location) = headers.get("location").and_then(|value| value.to_str().ok()) {
        compared.insert("location".to_owned(), hashless(location).into());
    }
    Value::Object(compared)
}

/// `text` with a document hash of the right shape replaced.
pub fn hashless(text: &str) -> String {
    match text.split_once("hash=") {
        Some((before, hash))
            if hash.len() == 128 && hash.bytes().all(|byte| byte.is_ascii_digit() || (b'A'..=b'F').contains(&byte)) =>
        {
            format!("{before}hash=HASH")
        }
        _ => text.to_owned(),
    }
}

fn layout(body: &[u8]) -> String {
    let newline = body.ends_with(b"\n");
    let inner = body.strip_suffix(b"\n").unwrap_or(body);
    let lines = if inner.contains(&b'\n') { "indented" } else { "one line" };
    format!("{lines}{}", if newline { ", newline" } else { "" })
}

fn normalised(mut document: Value, version: Version) -> Value {
    normalise(&mut document, version);
    by_name(document)
}

/// Discovery with its entries by name: where one is missing, the others still stand beside their equals. The order of groups, which
/// clients take as preference, stands apart, without the groups that only take writes.
fn by_name(mut document: Value) -> Value {
    const WRITTEN_ONLY: [&str; 2] = ["authentication.k8s.io", "authorization.k8s.io"];
    let kind = document["kind"].as_str().unwrap_or_default().to_owned();
    let keyed = |list: &mut Value, key: &dyn Fn(&Value) -> String| {
        if let Some(entries) = list.as_array() {
            *list = entries.iter().map(|entry| (key(entry), entry.clone())).collect();
        }
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    // What may be done is a set.
    let verbs = |row: &mut Value| {
        if row["verbs"].is_array() {
            keyed(&mut row["verbs"], &text);
        }
    };
    match kind.as_str() {
        "APIResourceList" => {
            document["resources"].as_array_mut().into_iter().flatten().for_each(verbs);
            keyed(&mut document["resources"], &|row| text(&row["name"]));
        }
        "APIGroupList" => {
            let names = document["groups"].as_array().into_iter().flatten().map(|group| text(&group["name"]));
            let order: Vec<String> = names.filter(|name| !WRITTEN_ONLY.contains(&name.as_str())).collect();
            keyed(&mut document["groups"], &|group| text(&group["name"]));
            document["order of groups"] = order.into();
        }
        "APIGroupDiscoveryList" => {
            let names =
                document["items"].as_array().into_iter().flatten().map(|group| text(&group["metadata"]["name"]));
            let order: Vec<String> = names.filter(|name| !WRITTEN_ONLY.contains(&name.as_str())).collect();
            for group in document["items"].as_array_mut().into_iter().flatten() {
                for version in group["versions"].as_array_mut().into_iter().flatten() {
                    for resource in version["resources"].as_array_mut().into_iter().flatten() {
                        verbs(resource);
                        if resource["subresources"].is_array() {
                            resource["subresources"].as_array_mut().into_iter().flatten().for_each(verbs);
                            keyed(&mut resource["subresources"], &|row| text(&row["subresource"]));
                        }
                    }
                    keyed(&mut version["resources"], &|row| text(&row["resource"]));
                }
            }
            keyed(&mut document["items"], &|group| text(&group["metadata"]["name"]));
            document["order of groups"] = order.into();
        }
        _ => {}
    }
    document
}

fn normalise(document: &mut Value, version: Version) {
    let list = document["kind"] == "Table" || document["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
    if list && version == Version::Current {
        let members = document["items"].as_array().or(document["rows"].as_array()).map_or(&[][..], Vec::as_slice);
        let newest = members
            .iter()
            .map(|member| {
                number(&member["metadata"]["resourceVersion"])
                    .max(number(&member["object"]["metadata"]["resourceVersion"]))
            })
            .max();
        symbol(document.pointer_mut("/metadata/resourceVersion"), newest.unwrap_or(1));
    }
    if document["kind"] == "Table" {
        ages(document);
    }
    if let Some(token) = document.pointer_mut("/metadata/continue")
        && token.as_str().is_some_and(|token| !token.is_empty())
    {
        *token = "TOKEN".into();
    }
    messages(document);
}

/// Replaces a version by a symbol if it is one and not older than `least`.
///
/// True if it was.
fn symbol(version: Option<&mut Value>, least: u64) -> bool {
    match version.filter(|version| number(version) > 0 && number(version) >= least) {
        None => false,
        Some(version) => {
            *version = "CURRENT".into();
            true
        }
    }
}

fn number(version: &Value) -> u64 {
    version.as_str().and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Ages that change while the suite runs; those counted in days and years do not.
fn ages(table: &mut Value) {
    for row in table.pointer_mut("/rows").and_then(Value::as_array_mut).into_iter().flatten() {
        for cell in row.pointer_mut("/cells").and_then(Value::as_array_mut).into_iter().flatten() {
            let young = cell.as_str().is_some_and(|text| {
                text.starts_with(|first: char| first.is_ascii_digit())
                    && text.ends_with(['s', 'm', 'h'])
                    && text.bytes().all(|byte| byte.is_ascii_digit() || b"smh".contains(&byte))
            });
            if young {
                *cell = "AGE".into();
            }
        }
    }
}

/// Two messages name a number of the server's own.
fn messages(status: &mut Value) {
    let Some(message) = status["message"].as_str() else { return };
    let replaced = if let Some((before, _)) = message.split_once(", current: ") {
        format!("{before}, current: CURRENT")
    } else if message.starts_with("too old resource version: ") {
        format!("{} (OLDEST)", message.split(" (").next().unwrap_or_default())
    } else {
        message.to_owned()
    };
    status["message"] = replaced.into();
}
