//! Limits with names, reached over the real wire beside a real kube-apiserver. The tests check what is rejected with
//! which message and what is still served. The flood of one user must leave another user a turn.
//!
//! Users are distinguished by the address that they connect from, so a second one binds 127.0.0.2.

mod bodies;
mod fairness;
mod memory;
mod refusals;
mod seats;
mod unread;
mod users;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::control_plane::ControlPlane;
use e2e::fieldcache::Fieldcache;
use e2e::http::{Client, Endpoint};
use e2e::{fixtures, objects, unique};
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(60);

/// Bytes of text in each shirt of a large collection: near what annotations may have.
const LARGE_TEXT: usize = 225_000;

/// So many of them are more than a client's window of HTTP/2, so that an unread answer stays under way.
const LARGE_COUNT: usize = 30;

/// Shirts of a group of their own, and a fieldcache with limits in front.
struct Stage {
    source: Client,
    group: String,
    collection: String,
    fieldcache: Fieldcache,
    metrics: Client,
}

impl Stage {
    /// With these options.
    async fn set(options: &[&str]) -> Result<Stage> {
        let control_plane = ControlPlane::shared().await?;
        let source = control_plane.client();
        let (group, collection) = define(&source).await?;
        let kubeconfig = control_plane.kubeconfig().display().to_string();
        let arguments = ["--kubeconfig", &kubeconfig, "--pass-through", "off", "--metrics-address", "127.0.0.1:0"];
        let arguments = arguments.into_iter().chain(options.iter().copied()).map(str::to_owned);
        let fieldcache = Box::pin(Fieldcache::serve(arguments)).await?;
        let reported = fieldcache.process().line("the line with the address of the metrics", SOON, |line| {
            Some(line.strip_prefix("metrics: ")?.strip_suffix("/metrics")?.to_owned())
        });
        let metrics = Endpoint::plain(&reported.await?)?.client();
        Ok(Stage { source, group, collection, fieldcache, metrics })
    }

    /// The port and host that users connect to.
    fn host(&self) -> Result<&str> {
        Ok(self.fieldcache.address().split_once("://").context("an address has a scheme")?.1)
    }

    async fn create(&self, name: &str, color: &str) -> Result<()> {
        objects::create(&self.source, &self.collection, &shirt(&self.group, name, color)).await.map(|_| ())
    }

    /// Makes the collection a large one.
    async fn fill(&self) -> Result<()> {
        for number in 0..LARGE_COUNT {
            let mut large = shirt(&self.group, &format!("large-{number}"), "grey");
            large["metadata"]["annotations"] = json!({ "text": "x".repeat(LARGE_TEXT) });
            objects::create(&self.source, &self.collection, &large).await?;
        }
        Ok(())
    }

    /// One series of a limit.
    async fn figure(&self, name: &str, limit: &str) -> Result<f64> {
        let text = self.metrics.get("/metrics").await?.success()?.text();
        let series = format!("fieldcache_limit_{name}{{limit=\"{limit}\"}} ");
        let value = text.lines().find_map(|line| line.strip_prefix(&*series)).with_context(|| series.clone())?;
        value.parse().with_context(|| format!("no number: {value}"))
    }
}

/// Defines shirts of a new group; the group and the collection.
async fn define(source: &Client) -> Result<(String, String)> {
    let group = unique::group("limited");
    objects::create_definition(source, &fixtures::shirts(&group, &fixtures::no_conversion())).await?;
    let collection = format!("/apis/{group}/v1/shirts");
    Ok((group, collection))
}

fn shirt(group: &str, name: &str, color: &str) -> Value {
    json!({
        "apiVersion": format!("{group}/v1"), "kind": "Shirt", "metadata": { "name": name },
        "spec": { "color": color },
    })
}

/// Whether a Status names its limit to programs, with its reason and option, and to people, with these words.
fn is_limit_status(status: &Value, reason: &str, option: &str, words: &[&str]) -> Result<()> {
    let cause = &status["details"]["causes"][0];
    ensure!(cause["reason"] == reason && cause["field"] == option, "{status}");
    let message = status["message"].as_str().context("a message")?;
    for word in words {
        ensure!(message.contains(word), "{message:?} does not say {word:?}");
    }
    Ok(())
}
