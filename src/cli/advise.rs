//! `fieldcache advise`: which resources would benefit most from caching.
//!
//! Reads kube-apiserver's metrics, once or twice, and the FieldCaches. [`crate::advise`] ranks the resources. Notes
//! about the counters (of which server, since when, what is unknown) go to standard error, so that standard output has
//! the table alone.

use std::collections::BTreeSet;

use anyhow::{Context, bail};
use serde_json::{Value, json};

use super::arguments::AdviseArguments;
use super::exit::{self, Exit};
use super::output::{Printed, TextTable, printed, write_out};
use super::shared_arguments::OutputFormat;
use crate::advise::scrape::{ResourceName, Scrape};
use crate::advise::{Advice, duration, number, rank};
use crate::kinds;
use crate::model::quantity::Bytes;
use crate::source::connection::{ClusterOptions, Connection, RequestError};

/// Rows of a table without `--all`.
const SHOWN: usize = 20;

const METRICS: &str = "/metrics";

/// Prints the resources that clients read, the most expensive first.
///
/// # Errors
/// The metrics cannot be read. With `--for`: the second time, another process of the API server responded.
pub async fn run(arguments: AdviseArguments) -> anyhow::Result<Exit> {
    let options = ClusterOptions {
        kubeconfig: arguments.kubeconfig.clone(),
        context: arguments.context.clone(),
        server: arguments.server.clone(),
    };
    let connection = Connection::open(&options).await?;
    let first = scrape(&connection).await?;
    let counted = match arguments.duration {
        None => {
            exit::note(&format!(
                "counted by one API server ({}) since its start, {}; each API server has its own counters. --for 30s counts from now on",
                connection.url(),
                time(first.started)
            ));
            first
        }
        Some(wait) => {
            let length = duration(wait.as_secs_f64());
            exit::note(&format!("counting for {length} at one API server ({})", connection.url()));
            tokio::time::sleep(wait).await;
            scrape(&connection).await?.since(&first).map_err(|error| {
                anyhow::anyhow!(
                    "{error}: the API server restarted, or several API servers are behind {}; --server URL selects one of them",
                    connection.url()
                )
            })?
        }
    };
    let cached = match field_caches(&connection).await {
        Ok(cached) => Some(cached),
        Err(error) => {
            exit::note(&format!("FieldCaches cannot be read, so CACHED is unknown: {error}"));
            None
        }
    };
    let rows = rank(&counted, cached.as_ref());
    if rows.is_empty() {
        exit::note("the metrics show no reads of resources");
    } else if rows.iter().all(|row| row.counts.objects.unwrap_or_default() <= 0.0) {
        exit::note(
            "objects are not counted yet: an API server counts them a minute after its start, and then every minute",
        );
    }
    let is_table = matches!(arguments.output, OutputFormat::Table | OutputFormat::Wide);
    let shown = if is_table && !arguments.all { rows.len().min(SHOWN) } else { rows.len() };
    write_out(&text(&rows[..shown], arguments.output))?;
    if shown < rows.len() {
        exit::note(&format!("clients read {} more resources; --all shows them", rows.len() - shown));
    }
    Ok(Exit::Done)
}

/// Reads the metrics of kube-apiserver once.
///
/// # Errors
/// The server does not respond, rejects the request, is not a kube-apiserver, or its metrics cannot be parsed.
async fn scrape(connection: &Connection) -> anyhow::Result<Scrape> {
    let url = connection.url();
    let body = match connection.bytes(METRICS, "text/plain").await {
        Err(RequestError::Status { code: 403, message, .. }) => bail!("{}", forbidden(url, &message)),
        Err(RequestError::Status { code: 404 | 405, .. }) => {
            bail!("{url} has no {METRICS}: it is not a kube-apiserver; select one with --kubeconfig or --server")
        }
        answered => answered?,
    };
    let text = std::str::from_utf8(&body).with_context(|| format!("the metrics of {url} are not UTF-8"))?;
    Scrape::parse(text).with_context(|| format!("{url}{METRICS}"))
}

/// The error for a missing permission to read the metrics of the API server at `url`, with commands to paste. `message`
/// is that of the API server.
pub(super) fn forbidden(url: &str, message: &str) -> String {
    format!(
        "cluster {url} does not permit you to read its metrics: {message}; an administrator can grant the permission with

kubectl create clusterrole metrics-reader --verb=get --non-resource-url={METRICS}
kubectl create clusterrolebinding metrics-reader --clusterrole=metrics-reader --user=YOU

which makes this rule:

rules:
- nonResourceURLs: [{METRICS}]
  verbs: [get]"
    )
}

/// The resources of FieldCaches; empty if the kind is not installed.
///
/// # Errors
/// The server does not respond, or does not permit the list.
async fn field_caches(connection: &Connection) -> Result<BTreeSet<ResourceName>, RequestError> {
    let path = format!("/apis/{}/{}/fieldcaches", kinds::GROUP, kinds::VERSION);
    let list = match connection.json(&path, "application/json").await {
        Err(RequestError::Status { code: 404, .. }) => return Ok(BTreeSet::new()),
        answered => answered?,
    };
    // The name of a FieldCache is that of its resource; the API server validates that.
    let names = list["items"].as_array().into_iter().flatten().filter_map(|item| item["metadata"]["name"].as_str());
    Ok(names.map(ResourceName::parse).collect())
}

/// A time in seconds since 1970 as text: `2026-07-28T09:30:00Z`.
fn time(seconds: f64) -> String {
    jiff::Timestamp::from_second(seconds as i64)
        .map_or_else(|_| format!("{seconds} s after 1970"), |time| time.to_string())
}

/// The rows of advice as text in the given format.
pub(super) fn text(rows: &[Advice], output: OutputFormat) -> String {
    printed(&rows, output)
}

impl Printed for &[Advice] {
    fn document(&self) -> Value {
        self.iter().map(document).collect()
    }

    fn table(&self, is_wide: bool) -> String {
        table(self, is_wide).print()
    }

    fn names(&self) -> Vec<String> {
        self.iter().map(|row| row.resource.to_string()).collect()
    }
}

/// The rows as a table. The wide form also has the columns COPIES, LIST BYTES, READ and RETURNED.
fn table(rows: &[Advice], is_wide: bool) -> TextTable {
    let mut headers = vec!["RESOURCE", "SHARE", "OBJECTS", "WATCHES", "EVENTS", "LISTS", "LIST TIME"];
    if is_wide {
        headers.extend(["COPIES", "LIST BYTES", "READ", "RETURNED"]);
    }
    headers.extend(["CACHED", "WHY"]);
    let mut table = TextTable::new(&headers);
    for row in rows {
        let counts = &row.counts;
        let mut cells = vec![
            row.resource.to_string(),
            percent(row.share),
            counts.objects.map_or_else(|| "?".to_owned(), number),
            number(counts.watches),
            number(counts.events),
            number(counts.lists),
            duration(counts.list_seconds),
        ];
        if is_wide {
            let bytes = Bytes(counts.list_bytes as u64).to_string();
            cells.extend([number(counts.copies()), bytes, number(counts.fetched), number(counts.returned)]);
        }
        let cached = match row.is_cached {
            Some(true) => "yes",
            Some(false) => "no",
            None => "?",
        };
        cells.extend([cached.to_owned(), row.reason.clone()]);
        table.push(cells);
    }
    table
}

/// A share from 0 to 1 as a percentage; `<1%` if it is small but not 0.
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent > 0.0 && percent < 1.0 { "<1%".to_owned() } else { format!("{percent:.0}%") }
}

/// A row of advice as JSON.
fn document(row: &Advice) -> Value {
    let counts = &row.counts;
    let rounded = |number: f64, per_unit: f64| (number * per_unit).round() / per_unit;
    json!({
        "resource": row.resource.to_string(),
        "share": rounded(row.share, 1e4),
        "objects": counts.objects.map(|objects| objects as u64),
        "watches": counts.watches as u64,
        "copies": counts.copies() as u64,
        "events": counts.events as u64,
        "lists": counts.lists as u64,
        "listSeconds": rounded(counts.list_seconds, 1e6),
        "listBytes": counts.list_bytes as u64,
        "listObjectsRead": counts.fetched as u64,
        "listObjectsReturned": counts.returned as u64,
        "cached": row.is_cached,
        "reason": row.reason,
    })
}
