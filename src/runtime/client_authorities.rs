//! Watches ConfigMap `kube-system/extension-apiserver-authentication`, in which kube-apiserver publishes the CA
//! certificates of clients and of front proxies. Its data is for [`crate::access`].
//!
//! If the ConfigMap is deleted, the last data stays valid, as upstream: kube-apiserver creates the ConfigMap again.

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::watcher::{Config, Event};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::operator::api_error::{LastProblem, described_watch};
use crate::operator::lenient::Lenient;

const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";

/// Calls `take` with the data of the ConfigMap at first and after each change, for as long as the future is polled.
/// Each failure is retried with growing pauses, and logged once.
pub(super) async fn follow(client: Client, mut take: impl FnMut(&Value)) {
    let config_maps: Api<Lenient<ConfigMap>> = Api::namespaced(client, NAMESPACE);
    // RBAC can grant list and watch of a single object only if the request selects it by metadata.name.
    let named = Config::default().fields(&format!("metadata.name={NAME}"));
    // Each success resets the backoff, and the watcher reports the beginning of each list as a success.
    let succeeded = |event: &Result<Event<_>, _>| std::future::ready(!matches!(event, Ok(Event::Init)));
    let mut events = watcher(config_maps, named).filter(succeeded).default_backoff().boxed();
    let mut logged = LastProblem::default();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Apply(Lenient(config_map)) | Event::InitApply(Lenient(config_map))) => {
                logged.forget();
                take(&json!(config_map.data));
            }
            Ok(Event::Init | Event::InitDone | Event::Delete(_)) => {}
            Err(error) => {
                let problem = described_watch(&error);
                if logged.record_if_new(&problem) {
                    tracing::warn!(
                        problem,
                        "cannot read client CA certificates from ConfigMap kube-system/extension-apiserver-authentication, \
                         retrying; manifests/authentication-reader.yaml grants the permission"
                    );
                }
            }
        }
    }
}
