//! kube-rs reading through a View. The README shows what is between the marks.

use std::path::Path;

use anyhow::Result;
use futures::{Stream, StreamExt};
use kube::api::{ApiResource, DynamicObject};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Config};

// README: kube-rs
/// Blue shirts out of fieldcache, as they come and change.
async fn blue_shirts(
    kubeconfig: &Path,
    shirt: &ApiResource,
) -> Result<impl Stream<Item = Result<DynamicObject, watcher::Error>> + use<>> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let reads = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let shirts: Api<DynamicObject> = Api::all_with(Client::try_from(reads)?, shirt);
    let blue = watcher::Config::default().fields("spec.color=blue");
    Ok(watcher(shirts, blue).default_backoff().applied_objects())
}
// README: end

/// The names of the first blue shirts that come, in order, as many as there are.
///
/// # Errors
/// When it cannot begin.
pub(super) async fn first_blue_shirts(kubeconfig: &Path, count: usize) -> Result<Vec<String>> {
    let shirt = ApiResource {
        group: "stable.example.com".to_owned(),
        version: "v1".to_owned(),
        api_version: "stable.example.com/v1".to_owned(),
        kind: "Shirt".to_owned(),
        plural: "shirts".to_owned(),
    };
    // An error is reported, and the watcher goes on.
    let found = blue_shirts(kubeconfig, &shirt).await?.filter_map(|shirt| std::future::ready(shirt.ok()));
    let shirts: Vec<DynamicObject> = found.take(count).collect().await;
    let mut names: Vec<String> = shirts.into_iter().filter_map(|shirt| shirt.metadata.name).collect();
    names.sort();
    Ok(names)
}
