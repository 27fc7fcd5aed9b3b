//! The stage of the whole suite: a control plane of its own, fieldcache in front of it, and objects that do not change.
//!
//! The order matters. The history of fieldcache begins at its own first list of a resource, so it starts and lists
//! everything before the objects are created. Older versions are compacted in etcd, so that "too old" means the same on
//! both sides. Request cases only read what is here. Watch scripts work in the group [`LIVE`] and in namespaces of
//! their own.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use e2e::control_plane::{ControlPlane, Settings};
use e2e::eventually::eventually;
use e2e::fieldcache::Fieldcache;
use e2e::http::{Client, Request};
use e2e::objects;
use http::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::fixtures;

/// The group whose objects stay as they are.
pub(crate) const SHOP: &str = "shop.example.com";
/// The group in which watch scripts make their objects.
pub(crate) const LIVE: &str = "live.example.com";

/// How long fieldcache may take to follow a change or to load a resource.
const FOLLOWING: Duration = Duration::from_secs(30);

/// Collections that are loaded before anything is created in them, and followed afterwards.
const COLLECTIONS: [&str; 25] = [
    "/apis/shop.example.com/v1/shirts",
    "/apis/shop.example.com/v1beta1/shirts",
    "/apis/shop.example.com/v1/banners",
    "/apis/live.example.com/v1/shirts",
    "/apis/live.example.com/v1beta1/shirts",
    "/apis/live.example.com/v1/banners",
    "/api/v1/configmaps",
    "/api/v1/events",
    "/api/v1/limitranges",
    "/api/v1/namespaces",
    "/api/v1/nodes",
    "/api/v1/persistentvolumes",
    "/api/v1/pods",
    "/api/v1/replicationcontrollers",
    "/api/v1/secrets",
    "/api/v1/services",
    "/apis/apps/v1/deployments",
    "/apis/apps/v1/replicasets",
    "/apis/batch/v1/jobs",
    "/apis/certificates.k8s.io/v1/certificatesigningrequests",
    "/apis/coordination.k8s.io/v1/leases",
    "/apis/discovery.k8s.io/v1/endpointslices",
    "/apis/events.k8s.io/v1/events",
    "/apis/resource.k8s.io/v1/resourceslices",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
];

/// What the templates of cases may name, `{NAME}`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Variables(BTreeMap<String, String>);

impl Variables {
    /// The same and one more.
    pub(crate) fn set(&mut self, name: &str, value: impl Into<String>) {
        self.0.insert(name.to_owned(), value.into());
    }

    /// The value of a name.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    /// `template` with every `{NAME}` and `{token:VERSION:KEY}` replaced.
    ///
    /// # Errors
    /// When a name is unknown.
    pub(crate) fn fill(&self, template: &str) -> Result<String> {
        let mut text = String::new();
        let mut rest = template;
        while let Some((before, after)) = rest.split_once('{') {
            let (name, after) = after.split_once('}').with_context(|| format!("an open brace in {template}"))?;
            text.push_str(before);
            match name.strip_prefix("token:").and_then(|token| token.split_once(':')) {
                Some((version, key)) => text.push_str(&continue_token(self.value(version, template)?, key)),
                None => text.push_str(self.value(name, template)?),
            }
            rest = after;
        }
        Ok(text + rest)
    }

    fn value(&self, name: &str, template: &str) -> Result<&str> {
        self.0.get(name).map(String::as_str).with_context(|| format!("no variable {name:?} for {template}"))
    }
}

/// A token as kube-apiserver makes them: the last key handed out and a zero byte.
pub(crate) fn continue_token(version: &str, key: &str) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(format!("{{\"v\":\"meta.k8s.io/v1\",\"rv\":{version},\"start\":\"{key}\\u0000\"}}"))
}

/// The running pieces and what the cases may know about them.
pub(crate) struct Stage {
    pub(crate) control_plane: ControlPlane,
    pub(crate) fieldcache: Fieldcache,
    /// Reads `fieldcache` as its source.
    pub(crate) chained: Fieldcache,
    pub(crate) variables: Variables,
}

impl Stage {
    /// The one stage of this test binary.
    ///
    /// # Errors
    /// When it could not be set; every later asker gets the same error.
    pub(crate) async fn shared() -> Result<&'static Stage> {
        static SHARED: OnceCell<Result<Stage, String>> = OnceCell::const_new();
        let set = SHARED.get_or_init(async || Box::pin(Stage::set()).await.map_err(|error| format!("{error:#}")));
        set.await.as_ref().map_err(|error| anyhow!("the parity stage was not set: {error}"))
    }

    async fn set() -> Result<Stage> {
        // kube-apiserver must not compact what the cases request, however slow the machine is.
        let apiserver_arguments = vec!["--etcd-compaction-interval=0".to_owned()];
        let control_plane = ControlPlane::start(Settings { apiserver_arguments, ..Settings::default() }).await?;
        let apiserver = control_plane.client();
        let mut variables = Variables::default();
        for group in [SHOP, LIVE] {
            for definition in [fixtures::shirts(group), fixtures::banners(group)] {
                objects::create_definition(&apiserver, &definition).await?;
            }
        }
        // Everything before this revision is unknown to fieldcache and, once compacted, to kube-apiserver.
        let fence = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "before" } });
        let fence = objects::create(&apiserver, "/api/v1/namespaces", &fence).await?;
        let compacted = version_of(&fence);
        compact(&control_plane, &compacted).await?;
        variables.set("ancient", "2");

        // With everything forwarded that is not served, so that as little as possible may differ.
        let kubeconfig = control_plane.kubeconfig().display().to_string();
        let arguments = ["--kubeconfig", &kubeconfig, "--pass-through", "all"].map(str::to_owned);
        let fieldcache = Fieldcache::serve(arguments).await?;
        // A second one that reads the first: all must be the same there.
        let arguments = ["--server", fieldcache.address(), "--pass-through", "all"].map(str::to_owned);
        let chained = Fieldcache::serve(arguments).await?;
        let copies = [fieldcache.client(), chained.client()];
        let mut collections = Vec::new();
        for collection in COLLECTIONS {
            // Older servers lack some: cases about them compare how the two sides say so.
            if apiserver.get(&format!("{collection}?limit=1")).await?.status != StatusCode::NOT_FOUND {
                collections.push(collection);
            }
        }
        for collection in &collections {
            for copy in &copies {
                load(copy, collection).await?;
            }
        }
        fixtures::create_all(&apiserver, &mut variables, &collections).await?;
        for collection in &collections {
            follow(&apiserver, &copies, collection).await?;
        }
        let shirts = apiserver.get_json("/apis/shop.example.com/v1/shirts").await?;
        variables.set("current", newest(&shirts).to_string());
        variables.set("future", "999999999");
        variables.set("newest", "-1");
        Ok(Stage { control_plane, fieldcache, chained, variables })
    }
}

/// Waits until all servers' stores of a collection, or of a selected part of it, have what was written to it before
/// this call.
///
/// kube-apiserver answers from a cache of its own when it is requested version 0, and that cache can lag too. No other
/// client may write to it meanwhile.
///
/// # Errors
/// When a store does not follow in time.
pub(crate) async fn follow(apiserver: &Client, copies: &[Client], collection: &str) -> Result<()> {
    let wanted = versions(&apiserver.get_json(collection).await?);
    let of_copy = format!("{collection}{}resourceVersion=0", if collection.contains('?') { '&' } else { '?' });
    for client in std::iter::once(apiserver).chain(copies) {
        eventually(&format!("{collection} as it is"), FOLLOWING, async || {
            let held = versions(&client.get_json(&of_copy).await?);
            ensure!(held == wanted, "it is {held:?} instead of {wanted:?}");
            Ok(())
        })
        .await?;
    }
    Ok(())
}

/// Key and version of every item of a list.
fn versions(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().map_or(&[][..], Vec::as_slice);
    let text = |item: &Value, name: &str| item["metadata"][name].as_str().unwrap_or_default().to_owned();
    items
        .iter()
        .map(|item| format!("{}/{}@{}", text(item, "namespace"), text(item, "name"), version_of(item)))
        .collect()
}

async fn load(copy: &Client, collection: &str) -> Result<()> {
    let what = format!("fieldcache lists {collection}");
    eventually(&what, FOLLOWING, async || copy.get_json(&format!("{collection}?limit=1")).await).await?;
    Ok(())
}

/// The highest resourceVersion among the items of a list.
pub(crate) fn newest(list: &Value) -> u64 {
    let items = list["items"].as_array().map_or(&[][..], Vec::as_slice);
    items.iter().filter_map(|item| version_of(item).parse().ok()).max().unwrap_or(1)
}

/// `metadata.resourceVersion`.
pub(crate) fn version_of(object: &Value) -> String {
    object["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned()
}

/// Makes etcd forget what is older than `revision`, through its JSON gateway.
async fn compact(control_plane: &ControlPlane, revision: &str) -> Result<()> {
    let etcd = e2e::http::Endpoint::plain(&control_plane.etcd_address())?.client();
    let request = Request::new(Method::POST, "/v3/kv/compaction").json(&json!({ "revision": revision }));
    etcd.send(request).await?.success().context("compacting etcd")?;
    Ok(())
}
