//! A cluster or a folder, read into a registry: for as long as a future is polled, or on a thread of its own.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use futures::future::BoxFuture;
use tokio::runtime;
use tokio::sync::{oneshot, watch};

use super::resource_name::Names;
use crate::model::Gvr;
use crate::model::quantity::Bytes;
use crate::registry::upstream::Upstream;
use crate::registry::{Catalog, Definitions, Memory, Registry, UpstreamDiscovery};
use crate::source::cluster::Cluster;
use crate::source::cluster_settings::{ClusterSettings, Demand};
use crate::source::connection::{ClusterOptions, Connection};
use crate::source::forward::UpstreamClient;
use crate::source::list_watch::DEFAULT_MAX_LAG;
use crate::source::store_options::StoreOptions;
use crate::source::{discovery, folder_feeds};
use crate::store::HistoryLimits;

/// Where objects come from.
#[derive(Clone, Debug)]
pub enum SourceLocation {
    /// `--dir`: a folder of manifests.
    Folder(PathBuf),
    /// `--kubeconfig`, `--context` and `--server`: a cluster, or another fieldcache.
    Cluster(ClusterOptions),
}

/// A source that has been opened: its registry has the first catalog of resources.
pub struct OpenSource {
    /// The resources that are served. It changes while `following` is polled.
    pub registry: Arc<Registry>,
    /// The name of the source in messages: a folder or a server URL.
    pub name: String,
    /// Resources that are loaded at once and never unloaded.
    pub pinned: Vec<Gvr>,
    /// The metadata of all resources that the cluster serves, including those that fieldcache does not cache. Empty for
    /// a folder.
    pub definitions: watch::Receiver<Arc<Definitions>>,
    /// Updates the registry from the source as long as it is polled.
    pub following: BoxFuture<'static, ()>,
}

/// How a source is read.
#[derive(Clone, Debug)]
pub struct SourceOptions {
    /// `--resource`: resources that are loaded at once and never unloaded.
    pub resources: Vec<String>,
    /// The only resources that are served; `None`: all, loaded at their first request.
    pub named: Option<watch::Receiver<Arc<BTreeSet<Gvr>>>>,
    /// Extra fields and scopes of stores.
    pub store_options: Option<watch::Receiver<Arc<StoreOptions>>>,
    /// `--max-lag`.
    pub max_lag: Duration,
    /// `--self-check-interval`; `None`: no check, as for a command that reads once.
    pub self_check: Option<Duration>,
    /// `--history-changes` and `--history-memory`.
    pub history: HistoryLimits,
    /// `--memory-limit`.
    pub memory_limit: Option<Bytes>,
    /// Explains how to grant the permission to list and watch a resource. `None`: the explanation is for the user of a
    /// kubeconfig.
    pub how_to_permit: Option<fn(&Gvr) -> String>,
}

impl Default for SourceOptions {
    fn default() -> SourceOptions {
        SourceOptions {
            resources: Vec::new(),
            named: None,
            store_options: None,
            max_lag: DEFAULT_MAX_LAG,
            self_check: None,
            history: HistoryLimits::default(),
            memory_limit: None,
            how_to_permit: None,
        }
    }
}

/// A source that is read on a thread of its own.
pub struct FollowedSource {
    /// The resources that are served. It changes while the thread runs.
    pub registry: Arc<Registry>,
    /// The name of the source in messages: a folder or a server URL.
    pub name: String,
    /// Resources that are loaded at once and never unloaded.
    pub pinned: Vec<Gvr>,
    /// The metadata of all resources that the cluster serves, including those that fieldcache does not cache. Empty for
    /// a folder.
    pub definitions: watch::Receiver<Arc<Definitions>>,
    /// Resolves when the thread has ended, which only an internal error causes.
    pub ended: oneshot::Receiver<()>,
}

/// Opens the source and reads it on a thread of its own.
///
/// To read a source is long work without a pause: a relist, the training of a dictionary. On the threads of the server,
/// it would delay responses. On a thread of its own, the kernel lets both run by turns. Memory that one thread
/// allocates is also less fragmented.
///
/// # Errors
/// As [`open`].
pub async fn follow(location: SourceLocation, options: SourceOptions) -> anyhow::Result<FollowedSource> {
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime that reads the source")?;
    let (report, opened) = oneshot::channel();
    let (held_until_the_end, ended) = oneshot::channel();
    let read = move || {
        // Dropped when the thread ends, even by a panic: then `ended` resolves.
        let _held = held_until_the_end;
        runtime.block_on(async {
            match open(&location, &options).await {
                Ok(OpenSource { registry, name, pinned, definitions, following }) => {
                    // The receiver is gone when the program is ending.
                    if report.send(Ok((registry, name, pinned, definitions))).is_ok() {
                        following.await;
                    }
                }
                Err(error) => drop(report.send(Err(error))),
            }
        });
    };
    thread::Builder::new()
        .name("source".to_owned())
        .spawn(read)
        .context("cannot start the thread that reads the source")?;
    let (registry, name, pinned, definitions) = opened
        .await
        .context("internal error: the thread of the source ended while it opened the source; see the log")??;
    Ok(FollowedSource { registry, name, pinned, definitions, ended })
}

/// Opens the source and reads which resources it has.
///
/// # Errors
/// Names the folder, kubeconfig or cluster, the problem and the remedy.
pub async fn open(location: &SourceLocation, options: &SourceOptions) -> anyhow::Result<OpenSource> {
    let memory = Memory::new(options.memory_limit);
    let registry = Arc::new(Registry::with_memory(Catalog::default(), memory));
    match location {
        SourceLocation::Folder(folder) => open_folder(folder.clone(), registry).await,
        SourceLocation::Cluster(cluster) => open_cluster(cluster, options, registry).await,
    }
}

/// A client of the source's API server, for requests that are forwarded; `None` for a folder. Its connections belong to
/// the runtime of the caller, so that forwarded responses do not wait for the thread of the source.
///
/// # Errors
/// Names the kubeconfig, the problem and the remedy.
pub async fn upstream(location: &SourceLocation) -> anyhow::Result<Option<Arc<dyn Upstream>>> {
    match location {
        SourceLocation::Folder(_) => Ok(None),
        SourceLocation::Cluster(cluster) => Ok(Some(Arc::new(UpstreamClient::open(cluster).await?))),
    }
}

/// Parses the values of `--resource` of the operator, each `PLURAL.VERSION.GROUP`.
///
/// # Errors
/// Names the first value with another form, and explains the form.
pub fn parse_resources(texts: &[String]) -> anyhow::Result<Vec<Gvr>> {
    let parse = |text: &String| {
        Gvr::parse(text).with_context(|| {
            format!(
                "--resource {text:?} is not PLURAL.VERSION.GROUP (core: PLURAL.VERSION), such as shirts.v1.stable.example.com"
            )
        })
    };
    texts.iter().map(parse).collect()
}

/// Reads a folder of manifests into the registry. The returned source has the task that follows the folder.
async fn open_folder(folder: PathBuf, registry: Arc<Registry>) -> anyhow::Result<OpenSource> {
    let name = folder.display().to_string();
    let filled = registry.clone();
    let opening = tokio::task::spawn_blocking(move || folder_feeds::FolderFeeds::open(&folder, filled));
    let feeds = opening.await.context("reading the folder")??;
    // Only the operator uses definitions, and it reads no folder.
    let (_, definitions) = watch::channel(Arc::default());
    Ok(OpenSource { registry, name, pinned: Vec::new(), definitions, following: Box::pin(feeds.run()) })
}

/// Connects to a cluster, and fills the registry with its resources. The returned source has the task that reads them.
async fn open_cluster(
    cluster: &ClusterOptions,
    options: &SourceOptions,
    registry: Arc<Registry>,
) -> anyhow::Result<OpenSource> {
    let connection = Connection::open(cluster).await?;
    let name = connection.url().to_owned();
    let version = discovery::version(&connection).await??;
    let pinned = find_resources(&connection, &options.resources).await?;
    let settings = ClusterSettings {
        demand: match &options.named {
            Some(named) => Demand::Named(named.clone()),
            None => Demand::OnRequest { pinned: pinned.clone() },
        },
        // Without a sender, the default options never change.
        store_options: options.store_options.clone().unwrap_or_else(|| watch::channel(Arc::default()).1),
        max_lag: options.max_lag,
        self_check: options.self_check,
        history: options.history,
        how_to_permit: options.how_to_permit,
    };
    let cluster = Cluster::start(connection, settings, registry.clone(), version)
        .await
        .context("cannot read which resources the cluster serves")?;
    Ok(OpenSource { registry, name, pinned, definitions: cluster.definitions(), following: Box::pin(cluster.run()) })
}

/// Finds the resources that the values of `--resource` name. If several resources have a name, it is the first of them
/// in discovery, as in kubectl.
async fn find_resources(connection: &Connection, texts: &[String]) -> anyhow::Result<Vec<Gvr>> {
    if texts.is_empty() {
        return Ok(Vec::new());
    }
    let known = discovery::read(connection, &UpstreamDiscovery::default())
        .await
        .context("cannot read which resources the cluster serves")?
        .resources;
    let find = |text: &String| {
        let found = known.iter().find(|resource| Names::from(*resource).contain(text));
        found.map(|resource| resource.gvr.clone()).with_context(|| {
            format!(
                "--resource {text}: cluster {} serves no such resource that can be listed and watched; `fieldcache fields` lists the resources with selectable fields",
                connection.url()
            )
        })
    };
    texts.iter().map(find).collect()
}
