//! What was typed. Types only; what they mean is checked where they are used.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use super::limits::LimitArguments;
use super::place::arguments::PlaceArguments;
use crate::audit;
use crate::server::params::go_duration;
use crate::source::self_check::SHORTEST_INTERVAL;
use crate::telemetry::{self, LogFormat};

/// Field-filtered informer caches for Kubernetes.
///
/// Reads CustomResourceDefinitions, keeps one indexed copy of the objects and serves it on the ordinary Kubernetes
/// wire: point kubectl or any client at it and select by field.
#[derive(Debug, Parser)]
#[command(name = "fieldcache", version, max_term_width = 100, disable_help_subcommand = true)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
#[expect(clippy::large_enum_variant, reason = "there is one, at the start")]
pub enum Command {
    /// Serve a folder of manifests, or a cluster, to kubectl and every other client
    Serve(Box<ServeArguments>),
    /// Judge the selectableFields of CustomResourceDefinitions as kube-apiserver would, offline
    Check(CheckArguments),
    /// Show which fields are selectable
    Fields(FieldsArguments),
    /// Write the generated OpenAPI document
    Openapi(OpenapiArguments),
    /// Serve what FieldCaches name in the cluster, over TLS, to whoever may see it
    Operator(OperatorArguments),
    /// Print a kubeconfig with which any client reads through a View
    Kubeconfig(KubeconfigArguments),
    /// Say for which resources a cache would save most, from kube-apiserver's metrics
    Advise(AdviseArguments),
    /// Query with sort, count and facets (not there yet)
    #[command(hide = true)]
    Get(Later),
    /// Say where a Pod may run, and why not elsewhere
    Place(Box<PlaceArguments>),
    /// Print the CustomResourceDefinitions of fieldcache's own kinds
    Crds(CrdsArguments),
}

/// Whatever follows a command that is not there yet.
#[derive(Debug, Args)]
pub struct Later {
    /// Ignored.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    pub rest: Vec<String>,
}

/// What to read.
#[derive(Clone, Debug, Default, Args)]
pub struct SourceArguments {
    /// Read a folder of manifests: CRDs and objects, YAML or JSON; no cluster needed
    #[arg(long, value_name = "PATH", conflicts_with_all = ["kubeconfig", "context", "server"])]
    pub dir: Option<PathBuf>,
    /// Read a cluster; default: KUBECONFIG, ~/.kube/config or the Pod's service account
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// A context of the kubeconfig other than its current one
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    /// A server URL: kube-apiserver or another fieldcache, without credentials unless --kubeconfig is given
    #[arg(long, value_name = "URL")]
    pub server: Option<String>,
}

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

/// What is logged.
#[derive(Clone, Debug, Args)]
pub struct LogArguments {
    /// How much to log; debug has a line for each request, with the id that its answer carries as Audit-Id
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub log_level: LogLevelArgument,
    /// Which log lines to show, in tracing's syntax, instead of a level
    #[arg(long, value_name = "FILTER", conflicts_with = "log_level")]
    pub log: Option<String>,
    /// How log lines look
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub log_format: LogFormatArgument,
}

impl LogArguments {
    /// Logs from now on.
    ///
    /// # Errors
    /// Says what is wrong with the filter.
    pub fn start(&self) -> Result<(), String> {
        let format = match self.log_format {
            LogFormatArgument::Text => LogFormat::Text,
            LogFormatArgument::Json => LogFormat::Json,
        };
        let level = match self.log_level {
            LogLevelArgument::Error => "error",
            LogLevelArgument::Warn => "warn",
            LogLevelArgument::Info => "info",
            LogLevelArgument::Debug => "debug",
            LogLevelArgument::Trace => "trace",
        };
        // Of libraries only what is wrong, and not what kube says of each answer that is an error: that is logged where it is handled.
        let others = if level == "error" { "error" } else { "warn" };
        let filter = self
            .log
            .clone()
            .unwrap_or_else(|| format!("{others},kube_client=off,kube_runtime=error,fieldcache={level}"));
        telemetry::start(&filter, format, std::io::stderr().is_terminal())
    }
}

/// How much is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogLevelArgument {
    /// What went wrong for good
    Error,
    /// The same, and what is tried again
    Warn,
    /// The same, and what changed
    Info,
    /// The same, and each request
    Debug,
    /// Everything
    Trace,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum LogFormatArgument {
    /// For people
    Text,
    /// One JSON object a line
    Json,
}

/// How an answer is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Columns for people
    Table,
    /// More columns
    Wide,
    /// One JSON document
    Json,
    /// The same as one YAML document
    Yaml,
    /// Names only, one a line, as other commands take them
    Name,
}

/// `fieldcache check`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit code: 0 when every CustomResourceDefinition is accepted, 1 when one is refused, 2 for an unreadable file."
)]
pub struct CheckArguments {
    /// Files with CustomResourceDefinitions, YAML or JSON; - reads standard input
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// How to print
    #[arg(short, long, default_value = "table")]
    pub output: Output,
}

/// `fieldcache fields`.
#[derive(Debug, Args)]
pub struct FieldsArguments {
    /// A resource: plural, singular, kind or short name, with .VERSION.GROUP or .GROUP where needed; default: all that have fields
    pub resource: Option<String>,
    /// What to read.
    #[command(flatten)]
    pub source: SourceArguments,
    /// How to print
    #[arg(short, long, default_value = "table")]
    pub output: Output,
}

/// An address to listen on. `localhost` is the only name: it is the same address everywhere.
fn socket_address(text: &str) -> Result<SocketAddr, String> {
    let literal = match text.rsplit_once(':') {
        Some((host, port)) if host.eq_ignore_ascii_case("localhost") => format!("127.0.0.1:{port}"),
        _ => text.to_owned(),
    };
    literal.parse().map_err(|error: std::net::AddrParseError| {
        format!("{error}: name an address and a port, such as 127.0.0.1:8181, [::1]:8181 or localhost:8181")
    })
}

/// `fieldcache kubeconfig`.
#[derive(Debug, Args)]
#[command(
    after_help = "It needs the right to get the View, and the View must be Ready. The cluster in the kubeconfig is the View's endpoint; user and namespace are those of the context that is read, with file names made absolute.

The operator knows people by what their kubeconfig shows:
- A client certificate works as it is, and nothing else is copied.
- A token must be made out for the audience fieldcache.dev, which those for the API server are not. In a Pod, mount one (projected volume, serviceAccountToken, this audience) and name its file with --token-file. Elsewhere, --service-account asks for one of a ServiceAccount; it is good for an hour.

Examples:
  fieldcache kubeconfig blue-shirts > blue.kubeconfig
  kubectl --kubeconfig <(fieldcache kubeconfig blue-shirts) get shirts -A
  fieldcache kubeconfig blue-shirts --token-file /var/run/secrets/fieldcache.dev/token
  fieldcache kubeconfig blue-shirts --service-account team-a/reader
  fieldcache kubeconfig blue-shirts --server https://127.0.0.1:8443
    (kubectl -n fieldcache-system port-forward service/fieldcache 8443:443)"
)]
pub struct KubeconfigArguments {
    /// The View
    pub view: String,
    /// The cluster that has the View, and who asks; default: KUBECONFIG, ~/.kube/config or the Pod's service account
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// A context of the kubeconfig other than its current one
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    /// Another way to the View's endpoint, such as a port-forward; the View's path is put behind it unless it has one
    #[arg(long, value_name = "URL")]
    pub server: Option<String>,
    /// The user shows the token in this file, which is read again when it changes
    #[arg(long, value_name = "FILE", conflicts_with = "service_account")]
    pub token_file: Option<PathBuf>,
    /// The user shows a token of this ServiceAccount, made out now: needs the right to create serviceaccounts/token
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub service_account: Option<String>,
    /// Copies the credentials of the user as they are, although the operator rejects tokens for the API server and whoever receives one can use it there
    #[arg(long, conflicts_with_all = ["service_account", "token_file"])]
    pub allow_api_server_credentials: bool,
    /// How to print
    #[arg(short, long, default_value = "yaml")]
    pub output: Output,
}

/// `fieldcache advise`.
#[derive(Debug, Args)]
#[command(
    after_help = "Counted for each resource: the objects there are; open watches, whose readers each hold a copy of up to all of them; events sent to watches; lists, and the time they took. SHARE is the mean of three shares of the whole: of the copies, of the events, of the time of lists. Counters begin with the start of the API server that answers; others count for themselves.

It needs the right to get /metrics.

Examples:
  fieldcache advise
  fieldcache advise --for 30s -o wide"
)]
pub struct AdviseArguments {
    /// The cluster to read; default: KUBECONFIG, ~/.kube/config or the Pod's service account
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// A context of the kubeconfig other than its current one
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    /// Another server URL than the kubeconfig's, such as that of one of several API servers; without credentials unless --kubeconfig is given
    #[arg(long, value_name = "URL")]
    pub server: Option<String>,
    /// Count what happens in this time instead of since the start of the API server
    #[arg(long = "for", value_name = "DURATION", value_parser = go_duration)]
    pub duration: Option<Duration>,
    /// Show all resources instead of the first 20
    #[arg(long)]
    pub all: bool,
    /// How to print
    #[arg(short, long, default_value = "table")]
    pub output: Output,
}

/// `fieldcache crds`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  fieldcache crds | kubectl apply --server-side -f -")]
pub struct CrdsArguments {
    /// How to print
    #[arg(short, long, default_value = "yaml")]
    pub output: Output,
}

/// `fieldcache openapi`.
#[derive(Debug, Args)]
pub struct OpenapiArguments {
    /// What to read.
    #[command(flatten)]
    pub source: SourceArguments,
    /// Which document
    #[arg(long, value_name = "VERSION", default_value = "v3")]
    pub openapi_version: OpenapiVersion,
    /// v3 only: the document of one group and version, such as stable.example.com/v1; default: the discovery index
    #[arg(long, value_name = "GROUP/VERSION")]
    pub group_version: Option<String>,
    /// Write to a file instead of standard output
    #[arg(long, value_name = "FILE")]
    pub output_file: Option<PathBuf>,
    /// How to print
    #[arg(short, long, default_value = "json")]
    pub output: Output,
}

/// OpenAPI versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OpenapiVersion {
    /// Swagger 2.0: one document
    V2,
    /// OpenAPI 3.0: an index and a document for each group and version
    V3,
}
