//! How fresh responses are, beside a real kube-apiserver: versions ahead of the store, Strong reads, lag, and cascaded
//! servers. Informers also move between servers.

mod aggregated;
mod lag;
mod moves;
mod quiet;
mod strong;

use anyhow::{Context, Result};
use e2e::http::Client;
use e2e::{fixtures, objects, unique};
use serde_json::{Value, json};

/// Shirts of a group that no other test uses.
pub(crate) struct Shirts {
    pub(crate) group: String,
    pub(crate) collection: String,
}

impl Shirts {
    /// Defines them.
    async fn define(client: &Client) -> Result<Shirts> {
        let group = unique::group("fresh");
        objects::create_definition(client, &fixtures::shirts(&group, &fixtures::no_conversion())).await?;
        Ok(Shirts { collection: format!("/apis/{group}/v1/shirts"), group })
    }

    /// Creates one and gives its version.
    async fn create(&self, client: &Client, name: &str, color: &str) -> Result<u64> {
        let object = json!({
            "apiVersion": format!("{}/v1", self.group), "kind": "Shirt",
            "metadata": { "name": name }, "spec": { "color": color },
        });
        version(&objects::create(client, &self.collection, &object).await?)
    }

    /// Colors one again and gives its version.
    async fn color(&self, client: &Client, name: &str, color: &str) -> Result<u64> {
        let patch = json!({ "spec": { "color": color } });
        version(&objects::merge(client, &format!("{}/{name}", self.collection), &patch).await?)
    }

    /// `--resource` of `serve`.
    fn resource(&self) -> String {
        format!("shirts.v1.{}", self.group)
    }
}

/// The version of an object or a list.
fn version(document: &Value) -> Result<u64> {
    let text = document["metadata"]["resourceVersion"].as_str().context("a document has no version")?;
    text.parse().with_context(|| format!("the version {text}"))
}

/// Moves the cluster's version on without touching shirts.
async fn write_elsewhere(client: &Client, namespace: &str) -> Result<u64> {
    let object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "generateName": "elsewhere-" } });
    version(&objects::create(client, &format!("/api/v1/namespaces/{namespace}/configmaps"), &object).await?)
}
