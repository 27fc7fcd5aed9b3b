//! The barest client: LIST, WATCH from there, WATCH again from the last version, LIST again when that is too old; no library.
//!
//! It has no selection, so what it did not receive is what fieldcache itself could not know.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::eventually::eventually;
use e2e::http::{Client, Next};
use serde_json::{Value, json};

/// How long fieldcache may be away.
const AWAY: Duration = Duration::from_secs(120);

/// The lines that a client within this program says, in the form of the others' output.
#[derive(Debug, Clone, Default)]
pub(crate) struct Said(Arc<Mutex<String>>);

impl Said {
    pub(crate) fn say(&self, line: &Value) {
        let mut text = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        text.push_str(&line.to_string());
        text.push('\n');
    }

    pub(crate) fn text(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Follows the collection at `path` until it is dropped.
pub(crate) async fn follow(client: Client, path: String, said: Said) -> Result<()> {
    let mut version = None;
    loop {
        let from = match &version {
            Some(from) => String::clone(from),
            None => {
                let list = eventually("the list", AWAY, async || client.get_json(&path).await).await?;
                let items = list["items"].as_array().context("a list has items")?;
                let objects: serde_json::Map<_, _> =
                    items.iter().map(|item| (key(item), item["metadata"]["resourceVersion"].clone())).collect();
                let from = text(&list["metadata"]["resourceVersion"]);
                said.say(&json!({ "list": { "resourceVersion": from, "objects": objects } }));
                from
            }
        };
        said.say(&json!({ "request": { "verb": "watch", "resourceVersion": from, "sendInitialEvents": false } }));
        let requested = format!("{path}?watch=1&allowWatchBookmarks=true&resourceVersion={from}");
        let mut watch = eventually("the watch", AWAY, async || client.watch(&requested).await).await?;
        version = Some(from);
        // A broken connection is an end like any other.
        while let Ok(Next::Line(line)) = watch.next(AWAY).await {
            let reported: Value = serde_json::from_slice(&line)?;
            let object = &reported["object"];
            let kind = text(&reported["type"]);
            if kind == "ERROR" {
                said.say(&json!({ "error": object["message"] }));
                ensure!(object["code"] == 410, "{object}");
                version = None;
                break;
            }
            let at = text(&object["metadata"]["resourceVersion"]);
            if kind != "BOOKMARK" {
                let uid = &object["metadata"]["uid"];
                said.say(&json!({ "event": { "type": kind, "key": key(object), "resourceVersion": at, "uid": uid } }));
            }
            version = Some(at);
        }
    }
}

fn key(object: &Value) -> String {
    format!("{}/{}", text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"]))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
