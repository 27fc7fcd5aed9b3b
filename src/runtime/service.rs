//! A service that is open: bound sockets, an open source, a server. Its tasks are started together and end together.

use std::future::{Future, pending};
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use futures::future::BoxFuture;
use kube::Client;
use tokio::signal::unix::{SignalKind, signal};

use super::certificate_renewer::CertificateRenewer;
use super::client_authorities;
use super::source::FollowedSource;
use super::tasks::{OnEnd, Task, Tasks};
use crate::access::AccessControl;
use crate::audit::Log;
use crate::flow_control::connections::{Connections, METRICS_CONNECTIONS};
use crate::metrics::Metrics;
use crate::model::Gvr;
use crate::operator::election::{self, Election};
use crate::operator::{self, Controllers};
use crate::registry::Registry;
use crate::server::Server;
use crate::server::heartbeat::Heartbeat;
use crate::server::probes::ProbeListener;
use crate::transport::listen::Listener;

/// The option that binds the listener of metrics.
pub(super) const METRICS_ADDRESS: &str = "--metrics-address";

/// The listener of metrics with a limit on its connections that it does not share with other listeners.
pub(super) fn metrics_connections(listener: Listener) -> Listener {
    listener.with_connections(Arc::new(Connections::new(METRICS_CONNECTIONS)))
}

/// The name of the task with the controllers.
const CONTROLLERS: &str = "controllers";

/// What a command has opened. Its tasks run once [`Service::run`] is called.
pub struct Service {
    pub(super) source: FollowedSource,
    pub(super) listener: Listener,
    pub(super) server: Arc<Server>,
    pub(super) metrics: Option<(Listener, Metrics)>,
    /// The parts that only the operator has; `None` for `serve`.
    pub(super) cluster: Option<ClusterService>,
}

/// The parts of a service that only the operator has.
pub(super) struct ClusterService {
    pub(super) client: Client,
    pub(super) access: Arc<AccessControl>,
    pub(super) audit: Option<Arc<Log>>,
    /// `None` where the certificate is read from files.
    pub(super) certificate_renewer: Option<CertificateRenewer>,
    pub(super) operator: Controllers,
    pub(super) election: Election,
    pub(super) heartbeat: Heartbeat,
    pub(super) probes: Option<ProbeListener>,
}

impl Service {
    /// The resources that the service serves.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.source.registry
    }

    /// The name of the source: a folder or a server URL.
    pub fn source_name(&self) -> &str {
        &self.source.name
    }

    /// The resources that are loaded at the start and never unloaded.
    pub fn pinned(&self) -> &[Gvr] {
        &self.source.pinned
    }

    /// The address of the listener.
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// The address of the metrics, if they are served.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(|(listener, _)| listener.address())
    }

    /// Runs until SIGINT or SIGTERM, and then until the requests in progress have their responses. `status`: a task
    /// that shows progress to the user.
    ///
    /// # Errors
    /// Names the task that ended because of an internal error.
    pub async fn run(mut self, status: Option<BoxFuture<'static, ()>>) -> anyhow::Result<()> {
        let stop = interrupted()?;
        let cluster = self.cluster.as_mut();
        // Health checks run until this function returns, so that the kubelet learns that the server is no longer ready.
        let _probing = match cluster.and_then(|cluster| cluster.probes.take()) {
            Some(listener) => {
                tracing::info!("health checks: http://{}/readyz", listener.address());
                Some(listener.start(self.server.clone()).context("cannot start the thread for health checks")?)
            }
            None => None,
        };
        let cluster = self.cluster.as_ref();
        let release = cluster.map(|cluster| (cluster.client.clone(), cluster.election.clone()));
        let audit = cluster.and_then(|cluster| cluster.audit.clone());
        let mut tasks = Tasks::start(self.tasks(stop, status));
        tasks.ended().await?;
        if let Some((client, election)) = release {
            // Otherwise another replica would wait until the Lease expires.
            tasks.abort(CONTROLLERS);
            election::release(client, &election).await;
        }
        // Metrics are served until the last request has its response.
        drop(tasks);
        if let Some(log) = audit {
            log.finish().await;
        }
        Ok(())
    }

    /// The tasks of the command, each with its name and what its end means. In addition, there are the threads of the
    /// source, of health checks, of the audit log and of tokio; the first task ends when the thread of the source ends.
    /// The server ends after `stop` resolves.
    pub(super) fn tasks(
        self,
        stop: impl Future<Output = ()> + Send + 'static,
        status: Option<BoxFuture<'static, ()>>,
    ) -> Vec<Task> {
        let Service { source, listener, server, metrics, cluster } = self;
        let index = server.placement_index().follow(source.registry.clone());
        let source_ended = source.ended;
        let mut tasks = vec![
            Task::new("source", OnEnd::Fail, async { drop(source_ended.await) }),
            Task::new("placement index", OnEnd::Fail, async { match index.await {} }),
            // A task of its own, so that connections are accepted also while other tasks compute.
            Task::new("server", OnEnd::Finish, listener.run(server, stop)),
        ];
        tasks.extend(metrics.map(|(listener, metrics)| {
            Task::new("metrics", OnEnd::Continue, listener.run(Arc::new(metrics), pending()))
        }));
        tasks.extend(status.map(|status| Task::new("status", OnEnd::Continue, status)));
        if let Some(cluster) = cluster {
            let ClusterService { client, access, certificate_renewer, operator, heartbeat, .. } = cluster;
            tasks.extend([
                Task::new("client CA certificates", OnEnd::Fail, async move {
                    client_authorities::follow(client, |data| access.set_authentication_config(data)).await;
                }),
                Task::new(CONTROLLERS, OnEnd::Fail, operator::run(operator)),
                Task::new("heartbeat", OnEnd::Continue, async { match heartbeat.beat().await {} }),
            ]);
            tasks.extend(
                certificate_renewer.map(|own| Task::new("certificate", OnEnd::Fail, async move { own.run().await })),
            );
        }
        tasks
    }
}

/// A future that resolves at the first SIGINT or SIGTERM. Fails if the handlers of the signals cannot be installed.
fn interrupted() -> anyhow::Result<impl Future<Output = ()> + Send + 'static> {
    let mut interrupted =
        signal(SignalKind::interrupt()).context("cannot install the handlers of SIGINT and SIGTERM")?;
    let mut terminated =
        signal(SignalKind::terminate()).context("cannot install the handlers of SIGINT and SIGTERM")?;
    Ok(async move {
        tokio::select! {
            _ = interrupted.recv() => {}
            _ = terminated.recv() => {}
        }
    })
}
