//! Two tables, one of kube-apiserver and one of fieldcache, cell by cell.
//!
//! kube-apiserver is queried before and after: what it says both times must be said here exactly. A cell that it
//! changed in between is one that counts time. The text of fieldcache must then be between the two, word for word
//! around the time.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use e2e::compare::differences;
use e2e::eventually::eventually;
use e2e::http::{Client, Request};
use serde_json::Value;

use super::SOON;

/// Annotations into which kube-apiserver turns members that a version does not have. It makes metadata of its internal form, before
/// they are there; fieldcache makes it of the version that it reads.
const OF_CONVERSION: [&str; 5] = [
    "autoscaling.alpha.kubernetes.io/behavior",
    "autoscaling.alpha.kubernetes.io/conditions",
    "autoscaling.alpha.kubernetes.io/current-metrics",
    "autoscaling.alpha.kubernetes.io/metrics",
    "deprecated.daemonset.template.generation",
];

/// The form that does not say where the CPU target is among the metrics, nor whether a current value is zero or absent.
const LOSSY: &str = "/apis/autoscaling/v1/";

/// What a comparison saw.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) tables: usize,
    pub(crate) rows: usize,
    pub(crate) cells: usize,
    /// Cells that moved on between the two requests to kube-apiserver, by more than a few seconds.
    pub(crate) moving: usize,
    /// Targets of autoscalers that differ because autoscaling/v1 cannot express them.
    pub(crate) lossy: usize,
    /// By collection and column, what was in its cells.
    pub(crate) values: BTreeMap<(String, String), BTreeSet<String>>,
}

impl Seen {
    pub(crate) fn add(&mut self, other: Seen) {
        self.tables += other.tables;
        self.rows += other.rows;
        self.cells += other.cells;
        self.moving += other.moving;
        self.lossy += other.lossy;
        for (column, values) in other.values {
            self.values.entry(column).or_default().extend(values);
        }
    }
}

/// Requests `path` as a Table from both servers and compares.
///
/// # Errors
/// When they differ, with every difference.
pub(crate) async fn tables(theirs: &Client, ours: &Client, path: &str) -> Result<Seen> {
    const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";
    let read = async |client: &Client| -> Result<Value> {
        client.send(Request::get(path).header("accept", TABLE)).await?.success()?.json()
    };
    let outcome = eventually(path, SOON, async || {
        let before = read(theirs).await.with_context(|| format!("kube-apiserver: {path}"))?;
        let here = read(ours).await.with_context(|| format!("fieldcache: {path}"))?;
        let after = read(theirs).await?;
        let (frame, _) = split(before.clone());
        ensure!(split(after.clone()).0 == frame, "an object was changed between the two questions");
        match alike(path, &before, &here, &after) {
            // A controller of kube-apiserver's own may have written; fieldcache follows a moment later. Rows without objects have no
            // versions to show that.
            Err(error) if split(plain(here)).0 != frame || path.contains("includeObject=None") => Err(error),
            outcome => Ok(outcome),
        }
    });
    outcome.await?
}

/// Compares what fieldcache said with what kube-apiserver said before and after.
///
/// # Errors
/// When they differ, with every difference.
pub(crate) fn alike(path: &str, before: &Value, here: &Value, after: &Value) -> Result<Seen> {
    let ((frame, before), (our_frame, here), (_, after)) =
        (split(before.clone()), split(plain(here.clone())), split(after.clone()));
    let mut faults: Vec<String> = differences(&frame, &our_frame).iter().map(ToString::to_string).collect();
    let mut seen = Seen { tables: 1, rows: before.len(), ..Seen::default() };
    if before.len() == here.len() {
        for (index, ((before, here), after)) in before.iter().zip(&here).zip(&after).enumerate() {
            if before.len() != here.len() {
                faults.push(format!("row {index}: {before:?} <> {here:?}"));
                continue;
            }
            for (column, ((before, here), after)) in before.iter().zip(here).zip(after).enumerate() {
                seen.cells += 1;
                let name = frame["columnDefinitions"][column]["name"].as_str().unwrap_or_default();
                seen.values.entry((path.to_owned(), name.to_owned())).or_default().insert(here.to_string());
                seen.moving += usize::from(moves(before, after));
                if !lies_between(before, here, after) {
                    if path.starts_with(LOSSY) && column == 2 {
                        seen.lossy += 1;
                        continue;
                    }
                    let name = &frame["columnDefinitions"][column]["name"];
                    let object = &frame["rows"][index]["object"]["metadata"]["name"];
                    faults.push(format!("row {index} {object}, {name}: {before} (then {after}) <> {here}"));
                }
            }
        }
    }
    ensure!(
        faults.is_empty(),
        "{path}: {} differences:\n  {}",
        faults.len(),
        faults[..faults.len().min(12)].join("\n  ")
    );
    Ok(seen)
}

/// A table of ours without the annotations that conversion makes, in rows that show metadata.
fn plain(mut table: Value) -> Value {
    for row in table["rows"].as_array_mut().into_iter().flatten() {
        if row["object"]["kind"] != "PartialObjectMetadata" {
            continue;
        }
        let Some(metadata) = row["object"]["metadata"].as_object_mut() else { continue };
        let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) else { continue };
        annotations.retain(|key, _| !OF_CONVERSION.contains(&key.as_str()));
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
    table
}

/// A table without its cells and its own version, and the cells. The version of a list moves with every other object; a single
/// object's is in its row too.
pub(crate) fn split(mut table: Value) -> (Value, Vec<Vec<Value>>) {
    if let Some(metadata) = table["metadata"].as_object_mut() {
        metadata.remove("resourceVersion");
    }
    // kube-apiserver says so of an empty list of the kinds that it has no printer for; for all others it says [].
    if table["rows"].is_null() {
        table["rows"] = Value::Array(Vec::new());
    }
    let mut cells = Vec::new();
    for row in table["rows"].as_array_mut().into_iter().flatten() {
        cells.push(row["cells"].as_array().cloned().unwrap_or_default());
        row["cells"] = Value::Null;
    }
    (table, cells)
}

/// Whether a cell is what kube-apiserver said before or after, or lies between.
fn lies_between(before: &Value, here: &Value, after: &Value) -> bool {
    if here == before || here == after {
        return true;
    }
    let (Some(before), Some(here), Some(after)) = (before.as_str(), here.as_str(), after.as_str()) else {
        return false;
    };
    let ((start, least), (middle, now), (end, most)) = (counted(before), counted(here), counted(after));
    start == middle && middle == end && least.len() == now.len() && now.len() == most.len() && {
        least.iter().zip(&now).zip(&most).all(|((least, now), most)| least <= now && now <= most)
    }
}

/// Whether a cell says something else: a time that is a few seconds longer leaves enough to be compared.
fn moves(before: &Value, after: &Value) -> bool {
    const FEW: u64 = 5;
    let [before, after] = [before, after].map(|cell| counted(cell.as_str().unwrap_or(&cell.to_string())));
    before.0 != after.0 || before.1.iter().zip(&after.1).any(|(before, after)| before.abs_diff(*after) > FEW)
}

/// A text with its durations taken out, and these in seconds: `3 (5m1s ago)` is `3 (# ago)` and 301.
pub(crate) fn counted(text: &str) -> (String, Vec<u64>) {
    let (mut skeleton, mut durations) = (String::new(), Vec::new());
    for (index, word) in text.split(' ').enumerate() {
        if index > 0 {
            skeleton.push(' ');
        }
        let bare = word.trim_start_matches('(');
        match seconds(bare) {
            Some(seconds) => {
                durations.push(seconds);
                skeleton.push_str(&word[..word.len() - bare.len()]);
                skeleton.push('#');
            }
            None => skeleton.push_str(word),
        }
    }
    (skeleton, durations)
}

/// The seconds of a text such as `5m1s` or `2y17d`.
fn seconds(text: &str) -> Option<u64> {
    let mut total = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: u64 = rest[..digits].parse().ok()?;
        let unit = match rest[digits..].chars().next()? {
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' => 86_400,
            'y' => 365 * 86_400,
            _ => return None,
        };
        total += number * unit;
        rest = &rest[digits + 1..];
    }
    (!text.is_empty()).then_some(total)
}

#[test]
fn a_cell_may_only_differ_by_the_time_between_two_questions() {
    let rows = [
        ("5s", "5s", "5s", true),
        ("5s", "6s", "6s", true),
        ("5s", "6s", "7s", true),
        ("5s", "7s", "6s", false),
        ("5s", "6s", "5s", false),
        ("119s", "2m0s", "2m1s", true),
        ("2 (59m ago)", "2 (60m ago)", "2 (61m ago)", true),
        ("2 (59m ago)", "3 (60m ago)", "2 (61m ago)", false),
        ("Running", "Pending", "Running", false),
        ("", "<none>", "", false),
        ("2y17d", "2y17d", "2y18d", true),
    ];
    for (before, here, after, expected) in rows {
        let found = lies_between(&before.into(), &here.into(), &after.into());
        assert_eq!(found, expected, "{before} {here} {after}");
    }
    assert!(!lies_between(&1.into(), &"1".into(), &1.into()), "a number is not its text");
}
