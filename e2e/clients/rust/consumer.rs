//! Keeps all objects of a resource in a kube-rs reflector until it ends (SIGTERM). The benchmark measures the cost from
//! outside.
//!
//! Writes JSON documents to its standard output, one a line: the number of its objects once it has all, and the number
//! of later changes. Arguments: the kubeconfig, and `pods` or GROUP/VERSION/PLURAL/KIND of a custom resource.

#![expect(clippy::print_stdout, reason = "its output is read by the benchmark that starts it")]

use std::fmt::Debug;
use std::hash::Hash;

use anyhow::{Context, Result, bail};
use futures::{StreamExt, pin_mut};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::serde::de::DeserializeOwned;
use kube::api::{ApiResource, DynamicObject};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::reflector::Lookup;
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Config, Resource};
use tokio::signal::unix::{SignalKind, signal};

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (Some(kubeconfig), Some(resource)) = (arguments.next(), arguments.next()) else {
        bail!("usage: consumer KUBECONFIG pods|GROUP/VERSION/PLURAL/KIND");
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(Kubeconfig::read_from(kubeconfig)?, &options).await?;
        let client = Client::try_from(config)?;
        if resource == "pods" {
            return keep(Api::<Pod>::all(client), ()).await;
        }
        let [group, version, plural, kind] = resource.split('/').collect::<Vec<_>>()[..] else {
            bail!("{resource} is not GROUP/VERSION/PLURAL/KIND");
        };
        let resource = ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: format!("{group}/{version}"),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        };
        keep(Api::<DynamicObject>::all_with(client, &resource), resource).await
    })
}

async fn keep<Kept>(api: Api<Kept>, of: <Kept as Lookup>::DynamicType) -> Result<()>
where
    Kept: Resource + Lookup + Clone + Debug + DeserializeOwned + Send + 'static,
    <Kept as Lookup>::DynamicType: Eq + Hash + Clone + Send + Sync,
{
    let mut writer = Writer::new(of);
    let store = writer.as_reader();
    // With initial events, as client-go's informers request them.
    let events = watcher::watcher(api, watcher::Config::default().streaming_lists());
    pin_mut!(events);
    let mut end = signal(SignalKind::terminate())?;
    let mut changes = 0;
    loop {
        let event = tokio::select! {
            event = events.next() => event.context("a watcher does not end")??,
            _ = end.recv() => break,
        };
        writer.apply_watcher_event(&event);
        match event {
            Event::InitDone => println!("{{\"synced\":{}}}", store.len()),
            Event::Apply(_) | Event::Delete(_) => changes += 1,
            Event::Init | Event::InitApply(_) => {}
        }
    }
    println!("{{\"changes\":{changes}}}");
    Ok(())
}
