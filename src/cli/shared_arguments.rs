//! Options that several commands share: what to read, what to log, how to print.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::runtime::source::SourceLocation;
use crate::source::connection::ClusterOptions;
use crate::source::kubeconfig::identity;
use crate::telemetry::{self, LogFormat};

/// What to read.
#[derive(Clone, Debug, Default, Args)]
pub struct SourceArguments {
    /// Read a folder of manifests: CRDs and objects, YAML or JSON; no cluster needed
    #[arg(long, value_name = "PATH", conflicts_with_all = ["kubeconfig", "context", "server"])]
    pub dir: Option<PathBuf>,
    /// Read the cluster of this kubeconfig; default: KUBECONFIG, ~/.kube/config or the Pod's service account
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig; default: its current context
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    /// A server URL: kube-apiserver or another fieldcache. Without --kubeconfig, the command sends no credentials
    #[arg(long, value_name = "URL")]
    pub server: Option<String>,
}

impl SourceArguments {
    /// The source that the options name.
    pub fn location(&self) -> SourceLocation {
        match &self.dir {
            Some(folder) => SourceLocation::Folder(folder.clone()),
            None => SourceLocation::Cluster(self.cluster()),
        }
    }

    /// The options of the cluster to read. Without any, they select the default kubeconfig. They have no meaning with
    /// `--dir`.
    pub fn cluster(&self) -> ClusterOptions {
        ClusterOptions {
            kubeconfig: self.kubeconfig.clone(),
            context: self.context.clone(),
            server: self.server.clone(),
        }
    }

    /// The namespace to read: `named`, which is that of `--namespace`, otherwise that of the kubeconfig, otherwise
    /// `default`. A kubeconfig that cannot be read is reported later, when the server is read.
    pub fn namespace(&self, named: Option<&str>) -> String {
        let has_kubeconfig = self.dir.is_none() && (self.server.is_none() || self.kubeconfig.is_some());
        let of_kubeconfig =
            || has_kubeconfig.then(|| identity(&self.cluster()).ok()).flatten().and_then(|identity| identity.namespace);
        let namespace = named.map(str::to_owned).or_else(of_kubeconfig);
        namespace.filter(|namespace| !namespace.is_empty()).unwrap_or_else(|| "default".to_owned())
    }
}

/// What is logged.
#[derive(Clone, Debug, Args)]
pub struct LogArguments {
    /// The log level; debug logs each request, with the id in the Audit-Id header of its response
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub log_level: LogLevelArgument,
    /// Log levels by module instead of --log-level, such as info,fieldcache=debug (directives of tracing-subscriber's
    /// EnvFilter, as in RUST_LOG)
    #[arg(long, value_name = "FILTER", conflicts_with = "log_level")]
    pub log: Option<String>,
    /// The format of log lines
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub log_format: LogFormatArgument,
}

impl LogArguments {
    /// Starts logging to standard error, with colors on a terminal.
    ///
    /// # Errors
    /// The filter is invalid.
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
        // Libraries log problems only. kube is silent, since its errors are logged where they are handled.
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
    /// Errors that need attention
    Error,
    /// Also problems that are retried
    Warn,
    /// Also changes
    Info,
    /// Also each request
    Debug,
    /// Everything
    Trace,
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum LogFormatArgument {
    /// Text, for people
    Text,
    /// One JSON object per line
    Json,
}

/// How a result is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// A table
    Table,
    /// A table with more columns
    Wide,
    /// One JSON document
    Json,
    /// One YAML document
    Yaml,
    /// Names only, one per line, as other commands accept them
    Name,
}

/// Parses an address to listen on, with a port. `localhost` is the only name that is accepted, and means
/// 127.0.0.1.
pub(super) fn socket_address(text: &str) -> Result<SocketAddr, String> {
    let literal = match text.rsplit_once(':') {
        Some((host, port)) if host.eq_ignore_ascii_case("localhost") => format!("127.0.0.1:{port}"),
        _ => text.to_owned(),
    };
    literal.parse().map_err(|error: std::net::AddrParseError| {
        format!("{error}: use an address and a port, such as 127.0.0.1:8181, [::1]:8181 or localhost:8181")
    })
}
