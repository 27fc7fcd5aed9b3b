//! The commands and their options. Each command checks what its options mean.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use super::get::arguments::GetArguments;
use super::place::arguments::PlaceArguments;
use super::server_arguments::{OperatorArguments, ServeArguments};
use super::shared_arguments::{OutputFormat, SourceArguments};
use super::tree::arguments::TreeArguments;
use crate::wire::params::go_duration;

/// Field-filtered informer caches for Kubernetes.
///
/// Reads CustomResourceDefinitions, caches objects in indexed stores and serves them with the Kubernetes API. Point
/// kubectl or any other client at it and select by field.
#[derive(Debug, Parser)]
#[command(name = "fieldcache", version, max_term_width = 100, disable_help_subcommand = true)]
pub struct Arguments {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
#[expect(clippy::large_enum_variant, reason = "there is one, at the start")]
pub enum Command {
    /// Serve a folder of manifests, or a cluster, to kubectl and every other client
    Serve(Box<ServeArguments>),
    /// Validate selectableFields in CRD files offline, with kube-apiserver's rules
    Check(CheckArguments),
    /// Show which fields are selectable
    Fields(FieldsArguments),
    /// Write the generated OpenAPI document
    Openapi(OpenapiArguments),
    /// Run in the cluster: cache the resources of FieldCaches and serve them over TLS to authorized users
    Operator(OperatorArguments),
    /// Print a kubeconfig for reading through a View
    Kubeconfig(KubeconfigArguments),
    /// Show which resources would benefit most from caching (uses kube-apiserver metrics)
    Advise(AdviseArguments),
    /// Print objects like kubectl get, selected with CEL, sorted, or counted by values
    Get(Box<GetArguments>),
    /// Show where a Pod can run, and why not elsewhere
    Place(Box<PlaceArguments>),
    /// Show the objects that an object owns, as a tree with their state
    Tree(TreeArguments),
    /// Print the CustomResourceDefinitions of fieldcache's own kinds
    Crds(CrdsArguments),
}

/// `fieldcache check`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit code: 0 when every CustomResourceDefinition is accepted, 1 when one is rejected, 2 when a file cannot be read."
)]
pub struct CheckArguments {
    /// Files with CustomResourceDefinitions, YAML or JSON; - reads standard input
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// The output format
    #[arg(short, long, default_value = "table")]
    pub output: OutputFormat,
}

/// `fieldcache fields`.
#[derive(Debug, Args)]
pub struct FieldsArguments {
    /// The resource: plural, singular, kind or short name, with .VERSION.GROUP or .GROUP if needed; default: all
    /// resources with fields
    pub resource: Option<String>,
    /// What to read.
    #[command(flatten)]
    pub source: SourceArguments,
    /// The output format
    #[arg(short, long, default_value = "table")]
    pub output: OutputFormat,
}

/// `fieldcache kubeconfig`.
#[derive(Debug, Args)]
#[command(
    after_help = "You need the permission to get the View, and the View must be Ready. In the printed kubeconfig, the server is the View's endpoint. The user and the namespace are those of the current context, with absolute file names.

The operator authenticates users by the credentials in the printed kubeconfig:
- The command copies a client certificate, and no other credentials.
- A token must have the audience fieldcache.dev. The operator rejects tokens for the API server, unless it runs with --accept-api-audience.
- In a Pod, mount a token with this audience (projected volume, serviceAccountToken), and name its file with --token-file.
- Elsewhere, --service-account requests a token for a ServiceAccount, valid for an hour.

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
    /// The kubeconfig with the cluster of the View, and the credentials; default: KUBECONFIG, ~/.kube/config or the
    /// Pod's service account
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig; default: its current context
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    /// Another address of the View's endpoint, such as a port-forward; the View's path is appended unless the URL has a
    /// path
    #[arg(long, value_name = "URL")]
    pub server: Option<String>,
    /// Use the token in this file, which clients read again when it changes
    #[arg(long, value_name = "FILE", conflicts_with = "service_account")]
    pub token_file: Option<PathBuf>,
    /// Embed a new token for this ServiceAccount; you need the permission to create serviceaccounts/token
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub service_account: Option<String>,
    /// Copy the credentials of the user unchanged. A server that receives a token for the API server can use it there.
    /// The operator rejects such tokens, unless it runs with --accept-api-audience
    #[arg(long, conflicts_with_all = ["service_account", "token_file"])]
    pub allow_api_server_credentials: bool,
    /// The output format
    #[arg(short, long, default_value = "yaml")]
    pub output: OutputFormat,
}

/// `fieldcache advise`.
#[derive(Debug, Args)]
#[command(after_help = "The command shows these counts for each resource:
- the objects
- the open watches, whose clients each hold a copy of up to all objects
- the events that were sent to watches
- the lists and their total duration

SHARE is the mean of the resource's shares of all copies, of all events and of the duration of all lists. Each API server has its own counters, which start with it.

You need the permission to get /metrics.

Examples:
  fieldcache advise
  fieldcache advise --for 30s -o wide")]
pub struct AdviseArguments {
    /// The kubeconfig of the cluster to read; default: KUBECONFIG, ~/.kube/config or the Pod's service account
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig; default: its current context
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    /// A server URL instead of that of the kubeconfig, such as the URL of one of several API servers. Without
    /// --kubeconfig, the command sends no credentials
    #[arg(long, value_name = "URL")]
    pub server: Option<String>,
    /// Count for this time instead of since the start of the API server
    #[arg(long = "for", value_name = "DURATION", value_parser = go_duration)]
    pub duration: Option<Duration>,
    /// Show all resources instead of the first 20
    #[arg(long)]
    pub all: bool,
    /// The output format
    #[arg(short, long, default_value = "table")]
    pub output: OutputFormat,
}

/// `fieldcache crds`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  fieldcache crds | kubectl apply --server-side -f -")]
pub struct CrdsArguments {
    /// The output format
    #[arg(short, long, default_value = "yaml")]
    pub output: OutputFormat,
}

/// `fieldcache openapi`.
#[derive(Debug, Args)]
pub struct OpenapiArguments {
    /// What to read.
    #[command(flatten)]
    pub source: SourceArguments,
    /// The version of the document
    #[arg(long, value_name = "VERSION", default_value = "v3")]
    pub openapi_version: OpenapiVersion,
    /// v3 only: the document of one group version, such as stable.example.com/v1; default: the discovery index
    #[arg(long, value_name = "GROUP/VERSION")]
    pub group_version: Option<String>,
    /// Write to a file instead of standard output
    #[arg(long, value_name = "FILE")]
    pub output_file: Option<PathBuf>,
    /// The output format
    #[arg(short, long, default_value = "json")]
    pub output: OutputFormat,
}

/// OpenAPI versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OpenapiVersion {
    /// Swagger 2.0: one document
    V2,
    /// OpenAPI 3.0: an index and a document for each group version
    V3,
}
