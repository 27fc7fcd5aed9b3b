//! An answer or a recorded watch as one JSON document, so that two of them can be compared.
//!
//! Compared are the status, the body, and the headers in [`COMPARED`] with their values. Two servers cannot agree on
//! everything, nor can one at two moments. This is all that is not compared as it was sent; each time a symbol replaces
//! it after a check:
//!
//! - dates: ages in seconds to hours in Tables; headers that are dates ([`PRESENT`]) have to be there, or not;
//! - versions of lists, in an order-preserving way. One that is not determined by the request, and not older than any
//!   item of its list, is "CURRENT". So are versions of bookmarks that are not older than what was sent before them.
//!   Versions that objects have and versions that a request determines are compared as they are. The same in messages
//!   that name a server's own version;
//! - continue tokens, which are such a version and a key: decoded, the key compared as it is, the version as above;
//! - entity tags and hashes in addresses: they are hashes of a document's bytes. The order of an object's members has
//!   no meaning and differs. Compared is what they are: "the SHA-512 of the body", or their shape;
//! - protobuf as JSON, which upstream makes of it, and by whether its bytes are those that upstream writes;
//! - JSON and YAML by meaning; of JSON also whether it is indented and how it ends;
//! - discovery with its entries by name: where one is missing, the others still stand beside their equals. Their order,
//!   which clients take as preference, is compared separately. The older lists of definitions' resources are an
//!   exception, because their order is that of a Go map;
//! - in watches, the result of a race within kube-apiserver. It decides which later events of a Table repeat the
//!   columns, and the number of bookmarks besides the one that ends the initial events.
//!
//! Two headers more than clients need are compared, because they cost nothing: `WWW-Authenticate` and `X-Content-Type-Options`.

use std::collections::BTreeSet;
use std::io::Read;

use anyhow::{Context, Result};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use e2e::http::Answer;
use flate2::read::GzDecoder;
use http::HeaderMap;
use serde_json::{Map, Value, json};

use super::side::Recording;
use crate::protobuf::readable;

/// Headers whose value is compared.
pub(crate) const COMPARED: [&str; 11] = [
    "allow",
    "cache-control",
    "content-encoding",
    "content-type",
    "etag",
    "location",
    "retry-after",
    "vary",
    "warning",
    "www-authenticate",
    "x-content-type-options",
];
/// Headers that must be there or not be there: dates, and an id of the one answer.
pub(crate) const PRESENT: [&str; 3] = ["audit-id", "expires", "last-modified"];

/// What a list's own version means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    /// The moment of the answer: not older than any item; otherwise free.
    Current,
    /// Determined by the request.
    Exact,
}

/// A whole answer.
pub(crate) fn of_answer(answer: &Answer, version: Version) -> Value {
    let body = plain_body(answer).unwrap_or_else(|error| format!("{error:#}").into_bytes());
    let mut outcome = json!({ "status": answer.status.as_u16(), "headers": headers_of(&answer.headers, &body) });
    let content_type = answer.header("content-type").unwrap_or_default();
    if (content_type.contains("json") || readable::is_protobuf(content_type))
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
        outcome["text"] = String::from_utf8_lossy(&body).split('\n').map(hashless).collect();
    }
    outcome
}

/// A watch. `timeout` is its timeoutSeconds, in seconds, if it was read to its end.
///
/// Bookmarks other than the one that ends the initial events come by the clock. So the comparison covers whether they
/// promise what was sent before them, their form, and whether there are any where the time is long enough.
pub(crate) fn of_recording(recording: &Recording, timeout: Option<u64>) -> Value {
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
    // An error ends a watch at once, however late the end is read.
    let failed = recording.events.last().is_some_and(|event| event["type"] == "ERROR");
    if let Some(timeout) = timeout.filter(|_| recording.status.is_success() && !failed) {
        let lasted = u64::try_from(recording.lasted.as_millis()).unwrap_or(u64::MAX);
        let (least, most) = (timeout * 1000, timeout * 1000 + 5000);
        outcome["lasted"] = if lasted < least {
            "shorter"
        } else if lasted < most {
            "as requested"
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
pub(crate) fn plain_body(answer: &Answer) -> Result<Vec<u8>> {
    if answer.header("content-encoding") != Some("gzip") {
        return Ok(answer.body.to_vec());
    }
    let mut plain = Vec::new();
    GzDecoder::new(&answer.body[..]).read_to_end(&mut plain).context("the body is not gzip as its header says")?;
    Ok(plain)
}

/// The headers that matter, of an answer without a body of its own.
pub(crate) fn headers(headers: &HeaderMap) -> Value {
    headers_of(headers, &[])
}

/// The headers that matter, of an answer with this body before compression.
pub(crate) fn headers_of(headers: &HeaderMap, body: &[u8]) -> Value {
    let mut compared = Map::new();
    for name in COMPARED {
        let values: Vec<&str> = headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect();
        if !values.is_empty() {
            // The same list may be sent as one header or as several.
            let mut parts: Vec<&str> = values.iter().flat_map(|value| value.split(", ")).collect();
            if name == "vary" {
                parts.sort_unstable();
            }
            let value = parts.join(", ");
            let value = match name {
                "etag" => tag(&value, body),
                "location" => hashless(&value),
                _ => value,
            };
            compared.insert(name.to_owned(), value.into());
        }
    }
    for name in PRESENT {
        if headers.contains_key(name) {
            compared.insert(name.to_owned(), "(present)".into());
        }
    }
    Value::Object(compared)
}

/// What an entity tag is: a hash of the body, or its shape.
fn tag(tag: &str, body: &[u8]) -> String {
    match tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"')) {
        Some(hash) if hash == fieldcache::openapi::hash::sha512(body) => "the SHA-512 of the body".to_owned(),
        Some(hash) if is_hash(hash) => "a hash".to_owned(),
        _ => tag.to_owned(),
    }
}

fn is_hash(text: &str) -> bool {
    text.len() == 128 && text.bytes().all(|byte| byte.is_ascii_digit() || (b'A'..=b'F').contains(&byte))
}

/// `text` with every document hash of the right shape replaced.
pub(crate) fn hashless(text: &str) -> String {
    let mut parts = text.split("hash=");
    let mut replaced = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (hash, rest) = part.split_at(part.find('"').unwrap_or(part.len()));
        replaced.push_str("hash=");
        replaced.push_str(if is_hash(hash) { "HASH" } else { hash });
        replaced.push_str(rest);
    }
    replaced
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

/// Discovery with its entries by name: where one is missing, the others still stand beside their equals. The order, which clients
/// take as preference, is separate, of all that can be read.
fn by_name(mut document: Value) -> Value {
    let kind = document["kind"].as_str().unwrap_or_default().to_owned();
    match kind.as_str() {
        "APIResourceList" => {
            for row in document["resources"].as_array_mut().into_iter().flatten() {
                keyed(row, "verbs", &WRITES, |verb| verb);
            }
            let unread = unread(&document["resources"], "name");
            keyed(&mut document, "resources", &unread, |row| &row["name"]);
            // The rows of definitions come in the order of a Go map.
            if let Some(members) = document.as_object_mut().filter(|document| of_definitions(document)) {
                members.remove("order of resources");
            }
        }
        "APIGroupList" => keyed(&mut document, "groups", &WRITTEN_ONLY, |group| &group["name"]),
        "APIGroupDiscoveryList" => {
            for group in document["items"].as_array_mut().into_iter().flatten() {
                for version in group["versions"].as_array_mut().into_iter().flatten() {
                    for resource in version["resources"].as_array_mut().into_iter().flatten() {
                        if resource["subresources"].is_null() {
                            resource["subresources"] = json!([]);
                        }
                        for row in resource["subresources"].as_array_mut().into_iter().flatten() {
                            keyed(row, "verbs", &WRITES, |verb| verb);
                        }
                        keyed(resource, "verbs", &WRITES, |verb| verb);
                        let unread = unread(&resource["subresources"], "subresource");
                        keyed(resource, "subresources", &unread, |row| &row["subresource"]);
                    }
                    let unread = unread(&version["resources"], "resource");
                    keyed(version, "resources", &unread, |row| &row["resource"]);
                }
            }
            keyed(&mut document, "items", &WRITTEN_ONLY, |group| &group["metadata"]["name"]);
        }
        _ => {}
    }
    document
}

/// Whether a list of resources is of the suite's own groups.
fn of_definitions(document: &Map<String, Value>) -> bool {
    document["groupVersion"].as_str().is_some_and(|name| name.contains(".example.com/"))
}

/// Groups of which nothing can be read.
const WRITTEN_ONLY: [&str; 2] = ["authentication.k8s.io", "authorization.k8s.io"];

/// Verbs that write.
const WRITES: [&str; 5] = ["create", "delete", "deletecollection", "patch", "update"];

/// Makes an array within a document an object by name, and returns the order of the names separately, without some of
/// them.
fn keyed(document: &mut Value, member: &str, left_out: &[impl AsRef<str>], name: impl Fn(&Value) -> &Value) {
    let Some(entries) = document[member].as_array() else { return };
    let named: Vec<(String, Value)> =
        entries.iter().map(|entry| (name(entry).as_str().unwrap_or_default().to_owned(), entry.clone())).collect();
    let is_shown = |name: &&str| !left_out.iter().any(|other| other.as_ref() == *name);
    let order: Vec<String> = named.iter().map(|(name, _)| &**name).filter(is_shown).map(str::to_owned).collect();
    document[member] = named.into_iter().collect();
    document[format!("order of {member}")] = order.into();
}

/// The names of rows that cannot be read, or lead into a workload.
fn unread(rows: &Value, name: &str) -> Vec<String> {
    let leads_away =
        |name: &str| ["attach", "exec", "portforward", "proxy"].contains(&name.rsplit('/').next().unwrap_or_default());
    let is_read = |row: &Value| {
        ["get", "list", "watch"].iter().any(|verb| row["verbs"].get(verb).is_some())
            || row["subresources"].as_object().is_some_and(|below| !below.is_empty())
    };
    let rows = rows.as_array().into_iter().flatten();
    let names = rows.filter_map(|row| Some((row, row[name].as_str()?)));
    names.filter(|(row, name)| !is_read(row) || leads_away(name)).map(|(_, name)| name.to_owned()).collect()
}

fn normalise(document: &mut Value, version: Version) {
    let metadata = &document["metadata"];
    if let Some(decoded) = metadata["continue"].as_str().and_then(|token| decoded(token, &metadata["resourceVersion"]))
    {
        document["metadata"]["continue"] = decoded;
    }
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
    messages(document);
}

/// A continue token by what it says; its version by whether it is that of the list.
fn decoded(token: &str, own_version: &Value) -> Option<Value> {
    let mut decoded: Value = serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(token).ok()?).ok()?;
    if decoded["rv"].as_u64().is_some_and(|version| version == number(own_version)) {
        decoded["rv"] = "that of the list".into();
    }
    Some(decoded)
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
