//! How quiet an operator is: how often it writes the status of each object of its kinds while what it keeps changes all the time.
//!
//! A write is a change of an object that one of its watchers receives. Those that change a condition are separate,
//! because they inform people. The Lease is no object of these kinds.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::time::{Instant, interval, timeout_at};

use crate::control_plane::{ControlPlane, Settings};
use crate::http::{Client, Next};
use crate::viewed::Viewed;
use crate::{fixtures, objects, unique};

/// Writes of one object in an hour that are few enough, beside those that change a condition.
pub const MOST_AN_HOUR: f64 = 12.0;

const KINDS: [&str; 3] = ["fieldcaches", "views", "selectableresources"];
const SOON: Duration = Duration::from_secs(60);
/// Objects are created, changed and deleted this often.
const PACE: Duration = Duration::from_millis(10);
/// As many objects as there come to be: the count grows all the time.
const GROWTH: usize = 20;

/// What came of it.
#[derive(Debug, Clone)]
pub struct Quiet {
    /// Changes written meanwhile.
    pub changes: usize,
    /// How long it was watched.
    pub watched: Duration,
    /// Writes of each object, as `KIND/NAME`, that changed no condition, and those that did.
    pub writes: BTreeMap<String, (usize, usize)>,
}

impl Quiet {
    /// What was written too often.
    #[must_use]
    pub fn wrong(&self) -> Vec<String> {
        let allowed = (MOST_AN_HOUR * self.watched.as_secs_f64() / 3600.0).ceil();
        self.writes
            .iter()
            .filter(|(_, (counts, _))| *counts as f64 > allowed)
            .map(|(name, (counts, _))| {
                format!("the status of {name} was written {counts} times, {allowed} are few enough")
            })
            .collect()
    }
}

impl fmt::Display for Quiet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} changes of what is kept; status writes in {:.0?}:", self.changes, self.watched)?;
        for (name, (counts, conditions)) in &self.writes {
            write!(formatter, "\n  {name}: {counts}, and {conditions} that changed a condition")?;
        }
        Ok(())
    }
}

/// Lets an operator keep, show and describe a resource that grows and changes for `length`.
///
/// # Errors
/// When something that is needed cannot be had.
pub async fn listen(length: Duration) -> Result<Quiet> {
    let control_plane = ControlPlane::start(Settings::default()).await?;
    let client = control_plane.client();
    let group = unique::group("quiet");
    objects::create_definition(&client, &fixtures::shirts(&group, &fixtures::no_conversion())).await?;
    let viewed = Box::pin(Viewed::start(&control_plane, &group, "shirts")).await?;
    let deadline = Instant::now() + length;
    let path = |kind: &str| format!("/apis/fieldcache.dev/v1alpha1/{kind}");
    let watches = futures::future::try_join_all(KINDS.map(|kind| written(&client, path(kind), kind, deadline)));
    let collection = format!("/apis/{group}/v1/shirts");
    let (changes, found) = futures::future::try_join(churn(&client, &collection, deadline), watches).await?;
    viewed.operator.process().ensure_running()?;
    Ok(Quiet { changes, watched: length, writes: found.into_iter().flatten().collect() })
}

/// Counts the writes of each object of a kind.
async fn written(
    client: &Client,
    path: String,
    kind: &str,
    deadline: Instant,
) -> Result<BTreeMap<String, (usize, usize)>> {
    let list = client.get_json(&path).await?;
    let mut statuses: BTreeMap<String, Value> = BTreeMap::new();
    let name_of = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    for item in list["items"].as_array().context("items")? {
        statuses.insert(name_of(item), item["status"]["conditions"].clone());
    }
    let mut writes: BTreeMap<String, (usize, usize)> =
        statuses.keys().map(|name| (format!("{kind}/{name}"), (0, 0))).collect();
    let version = list["metadata"]["resourceVersion"].as_str().context("a version")?;
    let seconds = deadline.duration_since(Instant::now()).as_secs() + 60;
    let mut watch =
        client.watch(&format!("{path}?watch=true&resourceVersion={version}&timeoutSeconds={seconds}")).await?;
    while let Ok(next) = timeout_at(deadline, watch.next(SOON)).await {
        let line = match next? {
            Next::Line(line) => line,
            Next::Nothing => continue,
            Next::End => anyhow::bail!("a watch of {kind} ended"),
        };
        let event: Value = serde_json::from_slice(&line)?;
        let (name, conditions) = (name_of(&event["object"]), event["object"]["status"]["conditions"].clone());
        let entry = writes.entry(format!("{kind}/{name}")).or_default();
        let before = statuses.insert(name, conditions.clone());
        if before.as_ref() == Some(&conditions) {
            entry.0 += 1;
        } else {
            entry.1 += 1;
        }
    }
    Ok(writes)
}

/// Creates, changes and deletes objects until the deadline; there come to be more of them.
async fn churn(client: &Client, collection: &str, deadline: Instant) -> Result<usize> {
    let api_version = collection.trim_start_matches("/apis/").trim_end_matches("/shirts");
    let mut pace = interval(PACE);
    let mut changes = 0;
    while Instant::now() < deadline {
        pace.tick().await;
        let name = format!("s{}", changes / 3 % (10 + changes / GROWTH));
        let object = |color: usize| {
            json!({
                "apiVersion": api_version, "kind": "Shirt", "metadata": { "name": name },
                "spec": { "color": format!("c{color}") },
            })
        };
        let one = format!("{collection}/{name}");
        // What is there already, or not any more, is no matter here.
        match changes % 3 {
            0 => drop(objects::create(client, collection, &object(changes)).await),
            1 => drop(objects::merge(client, &one, &json!({ "spec": { "color": format!("c{changes}") } })).await),
            _ if changes % GROWTH == 2 => drop(objects::delete(client, &one).await),
            _ => ensure!(client.get(&one).await?.status.as_u16() < 500, "kube-apiserver does not answer"),
        }
        changes += 1;
    }
    Ok(changes)
}
