//! The options of `fieldcache serve` and `fieldcache operator`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::limits::LimitArguments;
use super::shared_arguments::{LogArguments, SourceArguments, socket_address};
use crate::audit;
use crate::source::self_check::SHORTEST_INTERVAL;
use crate::wire::params::go_duration;

/// `fieldcache serve`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  fieldcache serve --dir manifests/samples
  fieldcache serve --kubeconfig ~/.kube/config --resource shirts
  kubectl --server http://127.0.0.1:8181 get shirts -A --field-selector spec.color=blue")]
pub struct ServeArguments {
    /// What to read.
    #[command(flatten)]
    pub source: SourceArguments,
    /// Load this resource at the start, and keep it loaded without requests, within --memory-limit. Any name that
    /// kubectl accepts, such as shirts or deployments.apps; repeatable
    #[arg(long = "resource", value_name = "RESOURCE", conflicts_with = "dir")]
    pub resources: Vec<String>,
    /// Consistency of reads without a resourceVersion
    #[arg(long, value_name = "CONSISTENCY", default_value = "eventual")]
    pub consistency: ConsistencyArgument,
    /// The maximum time without confirmed progress from the cluster. Beyond it, the server rejects reads with 503,
    /// except Strong reads without a resourceVersion and lists at an exact resourceVersion
    #[arg(long, value_name = "DURATION", default_value = "90s", value_parser = max_lag, conflicts_with = "dir")]
    pub max_lag: Duration,
    /// Which requests the server forwards to the API server, with the kubeconfig's credentials, if it does not serve
    /// them itself
    #[arg(long, value_name = "WHAT", default_value = "read", conflicts_with = "dir")]
    pub pass_through: PassThroughArgument,
    /// The interval at which fieldcache compares each store with a list of the cluster; 0 turns the comparison off
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = self_check_interval, conflicts_with = "dir")]
    pub self_check_interval: Duration,
    /// The address to listen on; loopback only, port 0 selects a free port
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8181", value_parser = socket_address)]
    pub address: SocketAddr,
    /// Also serve Prometheus metrics, at /metrics of this address; off by default, loopback only, port 0 selects a free
    /// port
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = socket_address)]
    pub metrics_address: Option<SocketAddr>,
    /// Serve HTTPS with this certificate: a PEM file, with its issuers after it; reloaded when it is replaced
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    pub tls_cert_file: Option<PathBuf>,
    /// The private key of --tls-cert-file: PEM, not encrypted
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    pub tls_private_key_file: Option<PathBuf>,
    /// What is logged, and how.
    #[command(flatten)]
    pub log: LogArguments,
    /// Limits.
    #[command(flatten)]
    pub limits: LimitArguments,
}

/// `fieldcache operator`.
#[derive(Debug, Args)]
#[command(
    after_help = "The operator caches the resources of FieldCaches (crds/, manifests/) and serves them read-only. A View shows a selection of these resources under its own URL. One replica, elected by a Lease, writes the statuses of FieldCaches and Views, and the SelectableResources. The API server authenticates and authorizes requests, by TokenReview and SubjectAccessReview. manifests/rbac.yaml has the permissions that the ServiceAccount needs.

Examples:
  fieldcache operator --tls-name fieldcache.fieldcache-system.svc --metrics-address 0.0.0.0:9090
  kubectl --server https://127.0.0.1:8443 --certificate-authority ca.crt --token \"$(kubectl create token NAME --audience fieldcache.dev)\" get shirts"
)]
pub struct OperatorArguments {
    /// The kubeconfig of the cluster to serve; default: KUBECONFIG, ~/.kube/config or the Pod's service account
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig; default: its current context
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    /// Cache and serve this resource without a FieldCache: PLURAL.VERSION.GROUP (core group: PLURAL.VERSION);
    /// repeatable
    #[arg(long = "resource", value_name = "RESOURCE")]
    pub resources: Vec<String>,
    /// The namespace of the Lease for leader election
    #[arg(long, value_name = "NAMESPACE", default_value = "fieldcache-system")]
    pub namespace: String,
    /// The name of this replica in the Lease; default: the hostname and the process id
    #[arg(long, value_name = "NAME")]
    pub identity: Option<String>,
    /// The address to listen on; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "0.0.0.0:8443", value_parser = socket_address)]
    pub address: SocketAddr,
    /// Also serve Prometheus metrics over TLS, at /metrics of this address, to users who may get the nonResourceURL
    /// /metrics; off by default
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = socket_address)]
    pub metrics_address: Option<SocketAddr>,
    /// Also serve /livez, /readyz and /healthz at this address over plain HTTP, for probes of the kubelet. Probes need
    /// no credentials, their responses contain only the result, and --max-connections does not count their connections.
    /// Off by default
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = socket_address)]
    pub health_address: Option<SocketAddr>,
    /// Serve with this certificate: a PEM file, with its issuers after it; reloaded when it is replaced
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file", conflicts_with_all = ["cert_dir", "tls_names"])]
    pub tls_cert_file: Option<PathBuf>,
    /// The private key of --tls-cert-file: PEM, not encrypted
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    pub tls_private_key_file: Option<PathBuf>,
    /// Store the self-signed certificate and its CA in this folder (tls.crt, tls.key, ca.crt, ca.key); default: in
    /// memory
    #[arg(long, value_name = "PATH")]
    pub cert_dir: Option<PathBuf>,
    /// Store the self-signed certificate and its CA in this Secret of --namespace, which replicas share; fieldcache
    /// creates it if it is missing
    #[arg(long, value_name = "NAME", conflicts_with_all = ["cert_dir", "tls_cert_file"])]
    pub cert_secret: Option<String>,
    /// The CA certificates (PEM) of --tls-cert-file, for the status of Views. Default: none, because clients trust the
    /// certificate without them
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    pub tls_ca_file: Option<PathBuf>,
    /// The URL of this server for clients, in the status of Views; default: https://fieldcache.NAMESPACE.svc
    #[allow(rustdoc::bare_urls, reason = "the comment is also the help of the option, unchanged")]
    #[arg(long, value_name = "URL")]
    pub views_url: Option<String>,
    /// A DNS name or IP address in the self-signed certificate, in addition to localhost; repeatable
    #[arg(long = "tls-name", value_name = "NAME")]
    pub tls_names: Vec<String>,
    /// Accept tokens with this audience; repeatable
    #[arg(long = "audience", value_name = "AUDIENCE", default_value = crate::access::AUDIENCE)]
    pub audiences: Vec<String>,
    /// Also accept tokens with the audience of the API server. A program that obtains such a token from this server
    /// could use it at the API server
    #[arg(long)]
    pub accept_api_audience: bool,
    /// The maximum time without confirmed progress from the cluster. Beyond it, the server rejects reads with 503,
    /// except Strong reads without a resourceVersion and lists at an exact resourceVersion
    #[arg(long, value_name = "DURATION", default_value = "90s", value_parser = max_lag)]
    pub max_lag: Duration,
    /// The interval at which fieldcache compares each store with a list of the cluster; 0 turns the comparison off
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = self_check_interval)]
    pub self_check_interval: Duration,
    /// How often the credential and the permissions of each watch are checked again, at least; for tests
    #[arg(long, value_name = "DURATION", default_value = "280s", value_parser = recheck_interval, hide = true)]
    pub recheck_interval: Duration,
    /// Which requests the audit log contains, as audit.k8s.io/v1 events of level Metadata, one JSON object per line
    #[arg(long, value_name = "WHICH", default_value = "view-rights")]
    pub audit_policy: AuditPolicyArgument,
    /// The file to which the audit log is appended; - is standard output, where nothing else is written
    #[arg(long, value_name = "FILE", default_value = audit::log::STANDARD_OUTPUT)]
    pub audit_log_path: String,
    /// Limits.
    #[command(flatten)]
    pub limits: LimitArguments,
    /// What is logged, and how.
    #[command(flatten)]
    pub log: LogArguments,
}

/// Which requests the audit log contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AuditPolicyArgument {
    /// None
    None,
    /// Requests through Views with authorization View, because the cluster's audit log does not contain the users of
    /// these Views. Also rejected requests through any View
    ViewRights,
    /// Requests through any View
    Views,
    /// All requests except health checks
    All,
}

impl From<AuditPolicyArgument> for audit::Policy {
    fn from(argument: AuditPolicyArgument) -> audit::Policy {
        match argument {
            AuditPolicyArgument::None => audit::Policy::None,
            AuditPolicyArgument::ViewRights => audit::Policy::ViewRights,
            AuditPolicyArgument::Views => audit::Policy::Views,
            AuditPolicyArgument::All => audit::Policy::All,
        }
    }
}

/// The consistency of reads without a resourceVersion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ConsistencyArgument {
    /// Immediately from the store, which can be behind the cluster
    Eventual,
    /// At least as fresh as the request
    Strong,
}

/// Parses `--max-lag`. It must be at least the time in which the source can confirm its progress.
fn max_lag(text: &str) -> Result<Duration, String> {
    const SHORTEST: Duration = Duration::from_millis(1400);
    let duration = go_duration(text)?;
    if duration < SHORTEST {
        return Err("a cluster takes up to 1.4s to confirm progress: use 1.4s or more".to_owned());
    }
    Ok(duration)
}

/// Parses `--self-check-interval`: zero, for no checks, or an interval that leaves time for other work between two
/// checks.
fn self_check_interval(text: &str) -> Result<Duration, String> {
    let duration = go_duration(text)?;
    if !duration.is_zero() && duration < SHORTEST_INTERVAL {
        return Err("a check lists the metadata of every object: use 1s or more, or 0 for none".to_owned());
    }
    Ok(duration)
}

/// Parses `--recheck-interval`: from one second to the default, which bounds how long a watch continues after its
/// permission is revoked.
fn recheck_interval(text: &str) -> Result<Duration, String> {
    let duration = go_duration(text)?;
    if duration < SHORTEST_INTERVAL || duration > crate::access::lease::EVERY {
        return Err(format!("use 1s to {}s", crate::access::lease::EVERY.as_secs()));
    }
    Ok(duration)
}

/// Which requests are forwarded to the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PassThroughArgument {
    /// Nothing
    Off,
    /// Reads that the server does not serve itself: subresources, logs, other resources and paths
    Read,
    /// Also every write
    All,
}
