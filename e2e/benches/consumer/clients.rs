//! The clients that are measured: unmodified libraries, each in a process of its own.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use e2e::clients::{Toolkit, interpreter, locate};
use e2e::process::{Invocation, Process};
use serde_json::Value;

use super::Side;
use super::kept::Kept;
use super::relay::Relay;

/// How long a client may take until its store is complete.
const SYNC_DEADLINE: Duration = Duration::from_secs(900);

/// How long a client may take to end.
const END_DEADLINE: Duration = Duration::from_secs(60);

/// A library and its settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Consumer {
    /// client-go's informer that requests JSON; the dynamic one where the resource is custom.
    InformerJson,
    /// client-go's typed informer that requests protobuf, then JSON.
    InformerProtobuf,
    /// The cache of a controller-runtime manager.
    Manager,
    /// client-go's metadata informer.
    Metadata,
    /// kube-rs's reflector.
    Reflector,
    /// The Python client: list, then watch.
    Python,
    /// The manager, which requests objects without managed fields.
    ManagerDrop,
    /// The manager, beside fieldcache through a View that keeps five fields.
    ManagerKeep,
}

impl Consumer {
    const ALL: [Consumer; 8] = [
        Consumer::InformerJson,
        Consumer::InformerProtobuf,
        Consumer::Manager,
        Consumer::Metadata,
        Consumer::Reflector,
        Consumer::Python,
        Consumer::ManagerDrop,
        Consumer::ManagerKeep,
    ];

    /// Those that there are for a resource: custom resources have no protobuf.
    pub(super) fn for_kept(kept: &Kept) -> impl Iterator<Item = Consumer> + use<> {
        let (is_custom, is_secret) = (matches!(kept, Kept::Shirts(_)), matches!(kept, Kept::Secrets(_)));
        Consumer::ALL.into_iter().filter(move |consumer| match consumer {
            Consumer::InformerProtobuf if is_custom => false,
            consumer => !is_secret || consumer.receives_less(),
        })
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Consumer::InformerJson => "client-go informer, JSON",
            Consumer::InformerProtobuf => "client-go informer, protobuf",
            Consumer::Manager => "controller-runtime manager",
            Consumer::Metadata => "metadata informer",
            Consumer::Reflector => "kube-rs reflector",
            Consumer::Python => "Python client",
            Consumer::ManagerDrop => "controller-runtime manager with drop=metadata.managedFields",
            Consumer::ManagerKeep => "controller-runtime manager, of fieldcache a View that keeps five fields",
        }
    }

    /// The most that the client may take beside fieldcache, as a multiple of what it takes beside kube-apiserver, and of which figures.
    /// `None` for a client whose settings are not those of a new project.
    pub(super) fn target(self) -> Option<(f64, &'static [&'static str])> {
        match self {
            Consumer::InformerJson => None,
            Consumer::ManagerDrop => Some((0.5, &["CPU", "peak", "resting"])),
            Consumer::ManagerKeep => Some((0.1, &["CPU", "received"])),
            Consumer::InformerProtobuf
            | Consumer::Manager
            | Consumer::Metadata
            | Consumer::Reflector
            | Consumer::Python => Some((1.0, &["time", "CPU", "peak", "resting", "received"])),
        }
    }

    /// Whether the client requests less than whole objects.
    pub(super) fn receives_less(self) -> bool {
        matches!(self, Consumer::ManagerDrop | Consumer::ManagerKeep)
    }

    /// Whether the client is not to receive changes that it does not show.
    pub(super) fn is_quiet(self) -> bool {
        self == Consumer::ManagerKeep
    }

    /// Memory that it takes for an object once its store is complete, roughly.
    pub(super) fn bytes_an_object(self, kept: &Kept) -> u64 {
        let kilobytes = match (self, kept) {
            (Consumer::Metadata, Kept::Pods(_)) => 13,
            (Consumer::Reflector, Kept::Pods(_)) => 66,
            (Consumer::Python, Kept::Pods(_)) => 70,
            (_, Kept::Pods(_)) => 22,
            (Consumer::Metadata, Kept::Shirts(_)) => 7,
            (Consumer::Reflector | Consumer::Python, Kept::Shirts(_)) => 17,
            (_, Kept::Shirts(_)) => 19,
            (_, Kept::Secrets(_)) => 60,
        };
        kilobytes * 1_000
    }

    fn invocation(self, kept: &Kept, kubeconfig: &Path) -> Result<Invocation> {
        let kubeconfig = kubeconfig.display().to_string();
        let form = match self {
            Consumer::InformerJson => "consume-json",
            Consumer::InformerProtobuf => "consume-protobuf",
            Consumer::Manager | Consumer::ManagerKeep => "consume-manager",
            Consumer::ManagerDrop => "consume-manager-drop",
            Consumer::Metadata => "consume-metadata",
            Consumer::Reflector => {
                // It is built beside this program, as an example: only there it may use what is for tests only.
                let program = std::env::current_exe()?.with_file_name("examples").join("kube-rs-consumer");
                let resource = match kept {
                    Kept::Pods(_) => "pods".to_owned(),
                    Kept::Secrets(_) => "secrets".to_owned(),
                    Kept::Shirts(corpus) => format!("{}/v1/shirts/Shirt", corpus.group),
                };
                return Ok(Invocation::new(program).arguments([kubeconfig, resource]));
            }
            Consumer::Python => "",
        };
        let invocation = match self {
            Consumer::Python => interpreter(Toolkit::Python)?.arguments([Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("clients/python/consumer.py")
                .display()
                .to_string()]),
            _ => locate(Toolkit::Go)?.arguments([format!("-client={form}")]),
        };
        let (group, resource, kind) = match kept {
            Kept::Pods(_) => ("", "pods", "Pod"),
            Kept::Secrets(_) => ("", "secrets", "Secret"),
            Kept::Shirts(corpus) => (corpus.group.as_str(), "shirts", "Shirt"),
        };
        let options = [("kubeconfig", &*kubeconfig), ("group", group), ("resource", resource), ("kind", kind)];
        Ok(invocation.arguments(options.map(|(name, value)| format!("-{name}={value}"))))
    }
}

/// A running client.
pub(super) struct Running {
    pub(super) process: Process,
    /// Between the client and the server; no other client uses it.
    relay: Relay,
}

impl Running {
    /// Starts one that reads from the server of this side.
    pub(super) async fn start(consumer: Consumer, kept: &Kept, side: &Side, directory: &Path) -> Result<Running> {
        let relay = Relay::start(&side.address).await?;
        let mut document = side.kubeconfig.clone();
        // The URL of a View has a path.
        let server = &mut document["clusters"][0]["cluster"]["server"];
        let path = server.as_str().and_then(|url| url.strip_prefix(&*side.address)).unwrap_or_default().to_owned();
        *server = format!("{}{path}", relay.base()).into();
        let kubeconfig = directory.join("kubeconfig");
        std::fs::write(&kubeconfig, document.to_string()).context("writing the kubeconfig of a client")?;
        let invocation = consumer.invocation(kept, &kubeconfig)?.environment("HOME", directory.display().to_string());
        Ok(Running { process: Process::start("consumer", &invocation, directory)?, relay })
    }

    /// Bytes that it has received so far.
    pub(super) fn received(&self) -> u64 {
        self.relay.received()
    }

    /// Waits until its store is complete; returns how many objects are in it.
    pub(super) async fn synced(&self) -> Result<u64> {
        self.number("synced", SYNC_DEADLINE).await
    }

    /// Ends it; returns how many changes it received.
    pub(super) async fn end(&self) -> Result<u64> {
        self.process.signal("TERM")?;
        let changes = self.number("changes", END_DEADLINE).await?;
        let code = self.process.ended(END_DEADLINE).await?;
        anyhow::ensure!(code == 0, "a consumer ended with {code}: {}", self.process.tail());
        Ok(changes)
    }

    async fn number(&self, member: &str, deadline: Duration) -> Result<u64> {
        let what = format!("a consumer says {member:?}");
        let number = |line: &str| serde_json::from_str::<Value>(line).ok()?.get(member)?.as_u64();
        self.process.line(&what, deadline, number).await.context("measuring a client")
    }
}
