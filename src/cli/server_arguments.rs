//! The options of `fieldcache serve` and `fieldcache operator`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::limits::LimitArguments;
use super::shared_arguments::{LogArguments, SourceArguments, socket_address};
use crate::audit;
use crate::server::params::go_duration;
use crate::source::self_check::SHORTEST_INTERVAL;

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
    /// Load this resource at once and never forget it: any name that kubectl takes, such as shirts or deployments.apps; repeatable
    #[arg(long = "resource", value_name = "RESOURCE", conflicts_with = "dir")]
    pub resources: Vec<String>,
    /// How fresh an answer is whose request names no resourceVersion
    #[arg(long, value_name = "CONSISTENCY", default_value = "eventual")]
    pub consistency: ConsistencyArgument,
    /// The longest time without a sign from the cluster that a copy is complete; past it reads are refused with 503
    #[arg(long, value_name = "DURATION", default_value = "90s", value_parser = max_lag, conflicts_with = "dir")]
    pub max_lag: Duration,
    /// What goes on to the cluster's API server, with the kubeconfig's rights, when it is not served here
    #[arg(long, value_name = "WHAT", default_value = "read", conflicts_with = "dir")]
    pub pass_through: PassThroughArgument,
    /// How often each copy is compared with what the cluster lists; 0 turns that off
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = self_check_interval, conflicts_with = "dir")]
    pub self_check_interval: Duration,
    /// Where to listen; loopback only, port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8181", value_parser = socket_address)]
    pub address: SocketAddr,
    /// Also serve Prometheus metrics, at /metrics of this address; off by default, loopback only, port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = socket_address)]
    pub metrics_address: Option<SocketAddr>,
    /// Serve HTTPS with this certificate: PEM, its issuers after it; read again when it is replaced
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    pub tls_cert_file: Option<PathBuf>,
    /// The private key of that certificate: PEM, not encrypted
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    pub tls_private_key_file: Option<PathBuf>,
    /// What is logged, and how.
    #[command(flatten)]
    pub log: LogArguments,
    /// How much there may be of what clients take.
    #[command(flatten)]
    pub limits: LimitArguments,
}

/// `fieldcache operator`.
#[derive(Debug, Args)]
#[command(
    after_help = "It keeps what FieldCaches name (crds/, manifests/) and serves it read-only; one replica at a time, chosen by a Lease, writes
their statuses and the SelectableResources. A View shows a selection of it under a URL of its own. About every request it asks the API server: TokenReview
who it is from, SubjectAccessReview whether it may be. manifests/rbac.yaml has the rights that its ServiceAccount needs.

Examples:
  fieldcache operator --tls-name fieldcache.fieldcache-system.svc --metrics-address 0.0.0.0:9090
  kubectl --server https://127.0.0.1:8443 --certificate-authority ca.crt --token \"$(kubectl create token NAME --audience fieldcache.dev)\" get shirts"
)]
pub struct OperatorArguments {
    /// The cluster to serve; default: KUBECONFIG, ~/.kube/config or the Pod's service account
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// A context of the kubeconfig other than its current one
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    /// Serve this resource too, as if a FieldCache named it: PLURAL.VERSION.GROUP, core PLURAL.VERSION; repeatable
    #[arg(long = "resource", value_name = "RESOURCE")]
    pub resources: Vec<String>,
    /// The namespace of the Lease by which one replica is chosen to write
    #[arg(long, value_name = "NAMESPACE", default_value = "fieldcache-system")]
    pub namespace: String,
    /// What this replica is called in the Lease; default: the host's name
    #[arg(long, value_name = "NAME")]
    pub identity: Option<String>,
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "0.0.0.0:8443", value_parser = socket_address)]
    pub address: SocketAddr,
    /// Also serve Prometheus metrics over TLS, at /metrics of this address, to whoever may get the nonResourceURL /metrics; off by default
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = socket_address)]
    pub metrics_address: Option<SocketAddr>,
    /// Also serve /livez, /readyz and /healthz at this address over plain HTTP, for probes of the kubelet: only the result, without
    /// credentials, and beside --max-connections; off by default
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = socket_address)]
    pub health_address: Option<SocketAddr>,
    /// Serve with this certificate: PEM, its issuers after it; read again when it is replaced
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file", conflicts_with_all = ["cert_dir", "tls_names"])]
    pub tls_cert_file: Option<PathBuf>,
    /// The private key of that certificate: PEM, not encrypted
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    pub tls_private_key_file: Option<PathBuf>,
    /// Keep the self-made certificate and its authority here (tls.crt, tls.key, ca.crt, ca.key); default: in memory
    #[arg(long, value_name = "PATH")]
    pub cert_dir: Option<PathBuf>,
    /// Keep them in this Secret of --namespace instead, which replicas share; it is made where it is missing
    #[arg(long, value_name = "NAME", conflicts_with_all = ["cert_dir", "tls_cert_file"])]
    pub cert_secret: Option<String>,
    /// PEM by which clients know the certificate of --tls-cert-file, for the status of Views; default: none, clients trust it anyway
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    pub tls_ca_file: Option<PathBuf>,
    /// Where clients reach this server, for the URLs in the status of Views; default: https://fieldcache.NAMESPACE.svc
    #[arg(long, value_name = "URL")]
    pub views_url: Option<String>,
    /// A name or address in the self-made certificate besides localhost; repeatable
    #[arg(long = "tls-name", value_name = "NAME")]
    pub tls_names: Vec<String>,
    /// Accept tokens made out for this audience; repeatable
    #[arg(long = "audience", value_name = "AUDIENCE", default_value = crate::access::AUDIENCE)]
    pub audiences: Vec<String>,
    /// Also accept tokens made out for the API server; whoever sees one here could use it there
    #[arg(long)]
    pub accept_api_audience: bool,
    /// The longest time without a sign from the cluster that a copy is complete; past it reads are refused with 503
    #[arg(long, value_name = "DURATION", default_value = "90s", value_parser = max_lag)]
    pub max_lag: Duration,
    /// How often each copy is compared with what the cluster lists; 0 turns that off
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = self_check_interval)]
    pub self_check_interval: Duration,
    /// How often the credential and the permissions of each watch are checked again, at least; for tests
    #[arg(long, value_name = "DURATION", default_value = "280s", value_parser = recheck_interval, hide = true)]
    pub recheck_interval: Duration,
    /// Which requests are told of in the audit log, as audit.k8s.io/v1 events of level Metadata, one line of JSON each
    #[arg(long, value_name = "WHICH", default_value = "view-rights")]
    pub audit_policy: AuditPolicyArgument,
    /// The file of the audit log, written to at its end; - is standard output, where nothing else is written
    #[arg(long, value_name = "FILE", default_value = audit::log::STANDARD_OUTPUT)]
    pub audit_log_path: String,
    /// How much there may be of what clients take.
    #[command(flatten)]
    pub limits: LimitArguments,
    /// What is logged, and how.
    #[command(flatten)]
    pub log: LogArguments,
}

/// Which requests the audit log tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AuditPolicyArgument {
    /// None
    None,
    /// Those through Views with authorization View, which the cluster's own audit log cannot tell of, and rejected ones through any
    /// name of a View
    ViewRights,
    /// Those through any View
    Views,
    /// All but those for health
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

/// How fresh an answer is whose request names no resourceVersion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ConsistencyArgument {
    /// As the copy is
    Eventual,
    /// Not older than the request
    Strong,
}

/// A lag that can be kept: the source needs this long to prove anything.
fn max_lag(text: &str) -> Result<Duration, String> {
    const SHORTEST: Duration = Duration::from_millis(1400);
    let duration = go_duration(text)?;
    if duration < SHORTEST {
        return Err("a cluster takes up to 1.4s to show how far it is: name 1.4s or more".to_owned());
    }
    Ok(duration)
}

/// Zero, or what leaves time for something else between two checks.
fn self_check_interval(text: &str) -> Result<Duration, String> {
    let duration = go_duration(text)?;
    if !duration.is_zero() && duration < SHORTEST_INTERVAL {
        return Err("a check lists the metadata of every object: name 1s or more, or 0 for none".to_owned());
    }
    Ok(duration)
}

/// Between a second and the bound that the documentation names.
fn recheck_interval(text: &str) -> Result<Duration, String> {
    let duration = go_duration(text)?;
    if duration < SHORTEST_INTERVAL || duration > crate::access::lease::EVERY {
        return Err(format!("name 1s to {}s", crate::access::lease::EVERY.as_secs()));
    }
    Ok(duration)
}

/// What goes on to the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PassThroughArgument {
    /// Nothing
    Off,
    /// Reads of what is not served here: subresources, logs, other resources and paths
    Read,
    /// The same, and every write
    All,
}
