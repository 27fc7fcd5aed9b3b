//! What the clients keep: all objects of one resource.

use anyhow::Result;
use e2e::control_plane::ControlPlane;
use e2e::corpus::load::{pods_into_etcd, secrets_into_etcd, shirts_into_etcd};
use e2e::corpus::pods::Pods;
use e2e::corpus::secrets::Secrets;
use e2e::corpus::shirts::Shirts;
use serde_json::{Value, json};

/// A corpus of a built-in resource or of a custom one.
#[derive(Debug, Clone)]
pub(super) enum Kept {
    Pods(Pods),
    Shirts(Shirts),
    Secrets(Secrets),
}

impl Kept {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Kept::Pods(_) => "Pods",
            Kept::Shirts(_) => "shirts",
            Kept::Secrets(_) => "Secrets",
        }
    }

    pub(super) fn count(&self) -> u64 {
        match self {
            Kept::Pods(corpus) => corpus.count,
            Kept::Shirts(corpus) => corpus.count,
            Kept::Secrets(corpus) => corpus.count,
        }
    }

    /// Memory that the servers take for an object, roughly, in addition to what they take before the first client.
    pub(super) fn server_bytes_an_object(&self) -> u64 {
        match self {
            Kept::Pods(_) => 15_000,
            Kept::Shirts(_) => 5_000,
            Kept::Secrets(_) => 120_000,
        }
    }

    /// The path of the collection of all namespaces.
    pub(super) fn everywhere(&self) -> String {
        match self {
            Kept::Pods(_) => "/api/v1/pods".to_owned(),
            Kept::Shirts(corpus) => corpus.everywhere(),
            Kept::Secrets(_) => "/api/v1/secrets".to_owned(),
        }
    }

    /// The resource of a View that keeps five of its fields.
    pub(super) fn shown(&self) -> Value {
        match self {
            Kept::Pods(_) => json!({
                "group": "", "resource": "pods",
                "keep": [".metadata.labels", ".spec.nodeName", ".spec.serviceAccountName", ".status.phase", ".status.podIP"],
            }),
            Kept::Shirts(corpus) => json!({
                "group": corpus.group, "resource": "shirts",
                "keep": [".metadata.labels", ".metadata.creationTimestamp", ".spec.color", ".spec.size", ".spec.material.fabric"],
            }),
            Kept::Secrets(_) => json!({
                "group": "", "resource": "secrets",
                "keep": [".metadata.labels", ".metadata.creationTimestamp", ".metadata.ownerReferences", ".immutable", ".type"],
            }),
        }
    }

    /// The path of an object.
    pub(super) fn path(&self, index: u64) -> String {
        let object = match self {
            Kept::Pods(corpus) => corpus.object(index),
            Kept::Shirts(corpus) => corpus.object(index),
            Kept::Secrets(corpus) => return corpus.path(index),
        };
        let text = |member: &str| object["metadata"][member].as_str().map(str::to_owned).unwrap_or_default();
        let collection = match self {
            Kept::Pods(corpus) => corpus.collection(&text("namespace")),
            Kept::Shirts(corpus) => corpus.collection(&text("namespace")),
            Kept::Secrets(corpus) => corpus.collection(&text("namespace")),
        };
        format!("{collection}/{}", text("name"))
    }

    /// Brings all objects into a control plane.
    pub(super) async fn load(&self, control_plane: &ControlPlane) -> Result<()> {
        match self {
            Kept::Pods(corpus) => pods_into_etcd(control_plane, corpus, |_| {}).await,
            Kept::Shirts(corpus) => shirts_into_etcd(control_plane, corpus, |_| {}).await,
            Kept::Secrets(corpus) => secrets_into_etcd(control_plane, corpus).await,
        }
    }
}
