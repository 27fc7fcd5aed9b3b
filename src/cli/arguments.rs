//! What was typed. Types only; what they mean is checked where they are used.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use super::place::arguments::PlaceArguments;
use super::server_arguments::{OperatorArguments, ServeArguments};
use super::shared_arguments::{Output, SourceArguments};
use crate::server::params::go_duration;

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
