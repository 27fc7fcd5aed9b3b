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
use crate::source::forward::Forwarder;
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

/// A source that has been opened: its registry is filled with the first catalog.
pub struct OpenSource {
    /// What is served; goes on changing while `following` runs.
    pub registry: Arc<Registry>,
    /// What is read, for people: a folder or a server URL.
    pub name: String,
    /// What is loaded at once and never forgotten.
    pub pinned: Vec<Gvr>,
    /// What is known of all resources, served or not; nothing of a folder.
    pub definitions: watch::Receiver<Arc<Definitions>>,
    /// Keeps the registry in step with the source; dropped, it stops.
    pub following: BoxFuture<'static, ()>,
}

/// How a cluster is followed.
#[derive(Clone, Debug)]
pub struct SourceOptions {
    /// `--resource`: what is loaded at once and never forgotten.
    pub resources: Vec<String>,
    /// What is served, and nothing else; `None`: everything, when it is asked for.
    pub named: Option<watch::Receiver<Arc<BTreeSet<Gvr>>>>,
    /// The extra fields of what is served.
    pub store_options: Option<watch::Receiver<Arc<StoreOptions>>>,
    /// `--max-lag`.
    pub max_lag: Duration,
    /// `--self-check-interval`; `None`: never, as for a command that reads once.
    pub self_check: Option<Duration>,
    /// `--history-changes` and `--history-memory`.
    pub history: HistoryLimits,
    /// `--memory-limit`.
    pub memory_limit: Option<Bytes>,
    /// Says how to grant the permission to list and watch a resource; `None`: in the words for the user of a kubeconfig.
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

/// A source that is followed on a thread of its own.
pub struct FollowedSource {
    /// What is served; goes on changing.
    pub registry: Arc<Registry>,
    /// What is read, for people: a folder or a server URL.
    pub name: String,
    /// What is loaded at once and never forgotten.
    pub pinned: Vec<Gvr>,
    /// What is known of all resources, served or not; nothing of a folder.
    pub definitions: watch::Receiver<Arc<Definitions>>,
    /// Done when the thread has ended, which only a defect can bring about.
    pub ended: oneshot::Receiver<()>,
}

/// Opens the source and follows it on a thread of its own.
///
/// Reading is long work without a pause: a relist, the training of a dictionary. On the threads of the server it would
/// hold up answers; beside them the kernel shares the processor. And what one thread allocates lies together.
///
/// # Errors
/// As [`open`].
pub async fn follow(location: SourceLocation, options: SourceOptions) -> anyhow::Result<FollowedSource> {
    let runtime =
        runtime::Builder::new_current_thread().enable_all().build().context("starting the source's runtime")?;
    let (tell, opened) = oneshot::channel();
    let (held_until_the_end, ended) = oneshot::channel();
    let read = move || {
        let _held = held_until_the_end;
        runtime.block_on(async {
            match open(&location, &options).await {
                Ok(OpenSource { registry, name, pinned, definitions, following }) => {
                    // Nobody listens any more when the program is ending.
                    if tell.send(Ok((registry, name, pinned, definitions))).is_ok() {
                        following.await;
                    }
                }
                Err(error) => drop(tell.send(Err(error))),
            }
        });
    };
    thread::Builder::new().name("source".to_owned()).spawn(read).context("starting the source's thread")?;
    let (registry, name, pinned, definitions) =
        opened.await.context("the source met a defect while it was opened")??;
    Ok(FollowedSource { registry, name, pinned, definitions, ended })
}

/// Opens the source and reads what it serves.
///
/// # Errors
/// Says which folder, kubeconfig or cluster, what is wrong and what to do.
pub async fn open(location: &SourceLocation, options: &SourceOptions) -> anyhow::Result<OpenSource> {
    let memory = Memory::new(options.memory_limit);
    let registry = Arc::new(Registry::with_memory(Catalog::default(), memory));
    match location {
        SourceLocation::Folder(folder) => open_folder(folder.clone(), registry).await,
        SourceLocation::Cluster(cluster) => open_cluster(cluster, options, registry).await,
    }
}

/// What stands behind the source and answers what we do not; `None` for a folder, which nothing stands behind. Its
/// connections belong to the runtime that asks, so that forwarded answers do not wait for the source's thread.
///
/// # Errors
/// Says which kubeconfig, what is wrong and what to do.
pub async fn upstream(location: &SourceLocation) -> anyhow::Result<Option<Arc<dyn Upstream>>> {
    match location {
        SourceLocation::Folder(_) => Ok(None),
        SourceLocation::Cluster(cluster) => Ok(Some(Arc::new(Forwarder::open(cluster).await?))),
    }
}

/// `--resource`.
///
/// # Errors
/// Says how one is written.
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

async fn open_folder(folder: PathBuf, registry: Arc<Registry>) -> anyhow::Result<OpenSource> {
    let name = folder.display().to_string();
    let filled = registry.clone();
    let opening = tokio::task::spawn_blocking(move || folder_feeds::FolderFeeds::open(&folder, filled));
    let feeds = opening.await.context("reading the folder")??;
    // Whoever asks for them has no folder.
    let (_, definitions) = watch::channel(Arc::default());
    Ok(OpenSource { registry, name, pinned: Vec::new(), definitions, following: Box::pin(feeds.run()) })
}

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
        store_options: options.store_options.clone().unwrap_or_else(|| watch::channel(Arc::default()).1),
        max_lag: options.max_lag,
        self_check: options.self_check,
        history: options.history,
        how_to_permit: options.how_to_permit,
    };
    let cluster = Cluster::start(connection, settings, registry.clone(), version)
        .await
        .context("reading what the cluster serves")?;
    Ok(OpenSource { registry, name, pinned, definitions: cluster.definitions(), following: Box::pin(cluster.run()) })
}

/// `--resource` of a cluster: of several resources of a name the first of discovery, as in kubectl.
async fn find_resources(connection: &Connection, texts: &[String]) -> anyhow::Result<Vec<Gvr>> {
    if texts.is_empty() {
        return Ok(Vec::new());
    }
    let known = discovery::read(connection, &UpstreamDiscovery::default())
        .await
        .context("reading what the cluster serves")?
        .resources;
    let find = |text: &String| {
        let found = known.iter().find(|resource| Names::from(*resource).contain(text));
        found.map(|resource| resource.gvr.clone()).with_context(|| {
            format!(
                "--resource {text}: cluster {} serves no such resource that can be listed and watched; `fieldcache fields` lists those with fields",
                connection.url()
            )
        })
    };
    texts.iter().map(find).collect()
}
