//! Very many watches of Tables, of a definition whose column shows a large value that changes all the time.
//!
//! A row is made of the whole object, so each change is as much work as a list of the whole resource, for each watch.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tokio::time::{Instant, interval};

use super::Case;
use super::arena::{Arena, NAMESPACE, SOON, User, cache, uncache};
use super::wire::Session;
use crate::eventually::eventually;
use crate::fixtures::{definition, no_conversion};
use crate::{objects, unique};

const GROWTH: u64 = 448;
const SECONDS: u64 = 240;

/// Connections, each from an address of its own that begins here, and watches on each.
const SESSIONS: u8 = 5;
const FIRST: u8 = 60;
const WATCHES: usize = 400;
/// Flow control of each stream and connection, in bytes; it is never raised.
const WINDOW: u32 = 1 << 30;
/// Letters of the value that a column shows, and of one of which each is written as six, as Go does.
const LETTERS: usize = 1_300_000;
const ESCAPED: usize = 200_000;
/// Items of a list that columns search, and how many columns do.
const ITEMS: usize = 60_000;
const SEARCHES: usize = 60;
/// How long the object changes, and how often.
const LASTS: Duration = Duration::from_secs(8);
const PACE: Duration = Duration::from_secs(1);

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// What the object is, and which clients watch it.
#[derive(Clone, Copy)]
struct Load {
    /// The value of one column.
    text: (&'static str, usize),
    /// Items of the list that other columns search.
    items: usize,
    /// Watches read what they are sent.
    reads: bool,
    /// Watches are opened again with each change, and begin with the object.
    begins: bool,
}

/// The table.
#[must_use]
pub fn cases() -> Vec<Case> {
    let case = |name: &str, load: Load| Case::new(name, GROWTH, SECONDS, move |arena| Box::pin(follow(arena, load)));
    let long = Load { text: ("x", LETTERS), items: 0, reads: true, begins: false };
    vec![
        case("2,000 Table watches of a column that shows a megabyte", long),
        case(
            "2,000 Table watches of a column that shows a megabyte, which are not read",
            Load { reads: false, ..long },
        ),
        case(
            "2,000 Table watches of a column that shows 200,000 escaped letters",
            Load { text: ("<", ESCAPED), ..long },
        ),
        case(
            "2,000 Table watches of 60 columns that search a list of 60,000 items",
            Load { text: ("x", 1), items: ITEMS, ..long },
        ),
        case(
            "2,000 Table watches that begin with 60 columns that search a list of 60,000 items",
            Load { text: ("x", 1), items: ITEMS, begins: true, ..long },
        ),
    ]
}

async fn follow(arena: &Arena, load: Load) -> Result<String> {
    let source = arena.source();
    let group = unique::group("rows");
    let version = json!({
        "name": "v1", "served": true, "storage": true,
        "schema": { "openAPIV3Schema": { "type": "object", "properties": {
            "spec": { "type": "object", "properties": {
                "text": { "type": "string" }, "count": { "type": "integer" },
                "list": { "type": "array", "items": { "type": "object", "properties": { "a": { "type": "integer" } } } },
            } },
        } } },
        "additionalPrinterColumns": columns(),
    });
    let made = definition(&group, "Namespaced", ("rows", "row", "Row"), &[version], &no_conversion());
    objects::create(&source, objects::DEFINITIONS, &made).await?;
    let outcome = Box::pin(watch(arena, &group, load)).await;
    let name = format!("rows.{group}");
    uncache(&source, &name).await.ok();
    objects::delete(&source, &format!("{}/{name}", objects::DEFINITIONS)).await?;
    outcome
}

/// The text, and searches that find nothing before they have looked at everything.
fn columns() -> Vec<Value> {
    let column = |name: String, path: String| json!({ "name": name, "type": "string", "jsonPath": path });
    let search = |number: usize| {
        let path = match number % 3 {
            0 => format!("..none{number}"),
            1 => format!(".spec.list[?(@.a=={number})].none"),
            _ => format!(".spec.list[*]['none{number}','none']"),
        };
        column(format!("search-{number}"), path)
    };
    std::iter::once(column("text".to_owned(), ".spec.text".to_owned())).chain((0..SEARCHES).map(search)).collect()
}

async fn watch(arena: &Arena, group: &str, load: Load) -> Result<String> {
    let (letter, letters) = load.text;
    let source = arena.source();
    let collection = format!("/apis/{group}/v1/namespaces/{NAMESPACE}/rows");
    let object = json!({
        "apiVersion": format!("{group}/v1"), "kind": "Row", "metadata": { "name": "long", "namespace": NAMESPACE },
        "spec": { "text": letter.repeat(letters), "count": 0, "list": vec![json!({ "a": -1 }); load.items] },
    });
    let created = async || objects::create(&source, &collection, &object).await.map(drop);
    eventually("kube-apiserver serves it", SOON, created).await?;
    cache(&source, group, "rows", &json!([])).await?;
    let client = arena.client(User::Administrator)?;
    let served = eventually("the resource is served", SOON, async || client.get_json(&collection).await);
    let version = served.await?["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
    let dialer = arena.dialer(Some(User::Administrator))?;
    let start = if load.begins { String::new() } else { format!("&resourceVersion={version}") };
    let path = format!("{collection}?watch=1{start}&timeoutSeconds=3600");
    let mut sessions = Vec::new();
    let (mut changes, mut opened) = (0, 0);
    let (mut pace, started) = (interval(PACE), Instant::now());
    while started.elapsed() < LASTS {
        pace.tick().await;
        if load.begins {
            sessions.clear();
        }
        // Watches that the server has ended are opened again.
        for number in 0..SESSIONS {
            let place = usize::from(number);
            if sessions.get(place).is_none_or(Session::is_closed) {
                let mut session = Session::open(&dialer, FIRST + number, WINDOW).await?;
                if load.reads {
                    session.read();
                }
                let bytes: Vec<u8> = (0..WATCHES).flat_map(|_| session.get(&path, &[("accept", TABLE)])).collect();
                session.send(&bytes).await;
                opened += WATCHES;
                if place < sessions.len() { sessions[place] = session } else { sessions.push(session) }
            }
        }
        changes += 1;
        let change = json!({ "spec": { "count": changes } });
        objects::merge(&source, &format!("{collection}/long"), &change).await?;
        arena.process_id()?;
    }
    // The queue of the user may be full of watches that do not exist any more.
    drop(sessions);
    let list =
        eventually("the resource is served after that", SOON, async || client.get_json(&collection).await).await?;
    ensure!(list["items"].as_array().map(Vec::len) == Some(1), "the object is served");
    Ok(format!("{opened} watches opened, {changes} changes"))
}
