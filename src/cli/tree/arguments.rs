//! The options of `fieldcache tree`.

use clap::Args;

use crate::cli::shared_arguments::{OutputFormat, SourceArguments};

/// `fieldcache tree`.
#[derive(Debug, Args)]
#[command(
    after_help = "Shows the objects that an object owns (metadata.ownerReferences), the objects that these own, and so on. Only resources that the server caches are searched, by their indexes.

Columns:
- READY and REASON are the status and the reason of the condition Ready.
- STATUS is Terminating while the object is being deleted. Otherwise it is status.phase. Without a phase, it is InProgress while a controller has not observed the newest generation.

You need the permission to get the object, and to get dependents.view.fieldcache.dev in its namespace (ClusterRole fieldcache-dependents). You see only the dependents that you may list.

Examples:
  fieldcache tree deployment/web -n team-a --server https://fieldcache.example.com --kubeconfig reader.kubeconfig
  fieldcache tree cronjob nightly --server http://127.0.0.1:8181 -o yaml

Exit code: 0 when the object has dependents, 1 when none were found, 2 for an error."
)]
pub struct TreeArguments {
    /// The object: KIND/NAME, or KIND NAME. The kind is the plural, singular, kind or short name, with .VERSION.GROUP
    /// or .GROUP if needed
    #[arg(value_name = "KIND/NAME", required = true, num_args = 1..=2)]
    pub object: Vec<String>,
    /// The namespace of the object; default: the namespace of the kubeconfig, otherwise `default`
    #[arg(short = 'n', long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// What to read.
    #[command(flatten)]
    pub source: SourceArguments,
    /// The output format: json and yaml print the dependents as the server returns them, and their owner
    #[arg(short, long, default_value = "table")]
    pub output: OutputFormat,
}

/// The kind and the name of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ObjectName<'a> {
    pub(super) kind: &'a str,
    pub(super) name: &'a str,
}

impl TreeArguments {
    /// The kind and the name of the object.
    ///
    /// # Errors
    /// Neither KIND/NAME nor KIND NAME.
    pub(super) fn object_name(&self) -> anyhow::Result<ObjectName<'_>> {
        let (kind, name) = match &self.object[..] {
            [one] => one.split_once('/').unwrap_or((one, "")),
            [kind, name] => (&**kind, &**name),
            _ => ("", ""),
        };
        let is_part = |text: &str| !text.is_empty() && !text.contains('/');
        if !is_part(kind) || !is_part(name) {
            anyhow::bail!("write KIND/NAME, such as deployment/web, or KIND NAME");
        }
        Ok(ObjectName { kind, name })
    }
}
