//! Corpus (iii): Secrets as in a cluster whose applications Helm installs. Nine of ten are releases of 10 to 30 KB, and
//! the others certificates and passwords of up to 4 KB. The data is random, so nothing compresses it.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::time;
use crate::random::Random;

/// How many namespaces the Secrets are spread over.
const NAMESPACES: u64 = 40;

/// What distinguishes one corpus from another.
#[derive(Debug, Clone)]
pub struct Secrets {
    /// How many there are.
    pub count: u64,
    /// The seed.
    pub seed: u64,
}

impl Secrets {
    /// The namespaces of the Secrets.
    #[must_use]
    pub fn namespaces(&self) -> Vec<String> {
        (0..NAMESPACES).map(namespace).collect()
    }

    /// The collection in one namespace.
    #[must_use]
    pub fn collection(&self, namespace: &str) -> String {
        format!("/api/v1/namespaces/{namespace}/secrets")
    }

    /// The path of a Secret.
    #[must_use]
    pub fn path(&self, index: u64) -> String {
        format!("{}/{}", self.collection(&namespace(index % NAMESPACES)), name(index))
    }

    /// Secret `index` as kube-apiserver stores it.
    #[must_use]
    pub fn stored(&self, index: u64) -> Value {
        let mut random = Random::from_seed(self.seed, index);
        let created = time(index * 17 % 5_000_000);
        let is_release = !index.is_multiple_of(10);
        let (kind, key, length, manager) = match (is_release, index % 20) {
            (true, _) => ("helm.sh/release.v1", "release", random.between(10_000, 30_000), "Helm"),
            (false, 0) => ("kubernetes.io/tls", "tls.key", random.between(1_000, 4_000), "cert-manager"),
            (false, _) => ("Opaque", "password", random.between(16, 500), "kubectl"),
        };
        let data: Vec<u8> = (0..length).map(|_| u8::try_from(random.below(256)).unwrap_or_default()).collect();
        let labels = json!({ "app.kubernetes.io/name": format!("app-{}", index % 400), "owner": manager.to_lowercase(), "version": "7" });
        let fields = |names: &[&str]| -> Value { names.iter().map(|name| (format!("f:{name}"), json!({}))).collect() };
        json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {
                "name": name(index), "namespace": namespace(index % NAMESPACES), "uid": random.uid(),
                "creationTimestamp": created, "labels": labels,
                "managedFields": [{
                    "manager": manager, "operation": "Update", "apiVersion": "v1", "time": created, "fieldsType": "FieldsV1",
                    "fieldsV1": {
                        "f:data": fields(&[key]), "f:type": {},
                        "f:metadata": { "f:labels": fields(&["app.kubernetes.io/name", "owner", "version"]) },
                    },
                }],
            },
            "data": { key: BASE64_STANDARD.encode(data) }, "type": kind,
        })
    }
}

fn namespace(number: u64) -> String {
    format!("team-{number:02}")
}

fn name(index: u64) -> String {
    format!("sh.helm.release.v1.app-{index:06}.v7")
}
