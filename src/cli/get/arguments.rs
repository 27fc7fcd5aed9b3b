//! The options of `fieldcache get`, and how RESOURCE, NAME, KIND/NAME and `--sort-by` are read.

use anyhow::{anyhow, bail};
use clap::Args;

use crate::cli::shared_arguments::{OutputFormat, SourceArguments};

/// `fieldcache get`.
#[derive(Debug, Args)]
#[command(
    after_help = "Prints objects like kubectl get, from any server: kube-apiserver, fieldcache, or a View, whose URL is the server. With --dir, this process reads the folder itself, with the code of the server. The command reads and prints lists page by page.

These options need a fieldcache server, because kube-apiserver does not support them: --where, --sort-by, --facets, --explain, and --count with selectors. The command checks whether the server is a fieldcache server, and fails if it is not. kube-apiserver rejects the additional operators of --field-selector.

There is no --watch: kubectl get --watch works with the same server.

Examples:
  fieldcache get shirts -A --field-selector 'spec.color in (blue,red),spec.quantity>10'
  fieldcache get shirts --where \"self.spec.color == 'blue' || self.spec.quantity > 10\"
  fieldcache get shirts -A --sort-by -spec.quantity,metadata.name --limit 3
  fieldcache get pods -A --count -l app=shop --server http://127.0.0.1:8181
  fieldcache get shirts -A --where \"self.spec.quantity > 10\" --explain
  fieldcache get pods -A --facets spec.nodeName,status.phase --facet-limit 5
  fieldcache get pods -A --columns metadata.name,IMAGES:spec.containers[*].image
  fieldcache get pod/web-1 shirt/example1 -n team-a -o yaml --dir manifests/samples

Exit code: 0 when an object was found, 1 when a list or a count has none, 2 for an error, such as a name that does not exist."
)]
pub struct GetArguments {
    /// The resource: the plural, singular, kind or short name, with .VERSION.GROUP or .GROUP if needed; several are
    /// separated by commas. Or KIND/NAME of an object
    pub resource: String,
    /// Names of objects of the resource, to get these instead of a list; or KIND/NAME of further objects
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// The namespace; default: the namespace of the kubeconfig, otherwise `default`
    #[arg(short = 'n', long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// List the objects of all namespaces
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
    /// Select by labels, such as app=shop,tier!=backend
    #[arg(short = 'l', long = "selector", value_name = "SELECTOR")]
    pub label_selector: Option<String>,
    /// Select by fields, such as spec.color=blue. A fieldcache server also has the operators in, notin, >, >=, <, <=,
    /// ^= (prefix), FIELD (has a value) and !FIELD; `fieldcache fields` lists the fields
    #[arg(long, value_name = "SELECTOR")]
    pub field_selector: Option<String>,
    /// Select by a CEL expression over self, the object
    #[arg(long = "where", value_name = "EXPRESSION")]
    pub expression: Option<String>,
    /// Sort by selectable fields, - in reverse: spec.size, .spec.size and {.spec.size} are the same
    #[arg(long, value_name = "FIELD,...", allow_hyphen_values = true)]
    pub sort_by: Option<String>,
    /// Print at most this many objects of each resource, and how many more there are
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: Option<u64>,
    /// Read lists in pages of this many objects; 0 reads a list at once
    #[arg(long, value_name = "COUNT", default_value = "500")]
    pub chunk_size: u64,
    /// Print only the number of objects
    #[arg(long, conflicts_with_all = ["facets", "sort_by", "limit", "columns", "show_labels", "label_columns"])]
    pub count: bool,
    /// Instead of objects, print the most frequent values of these fields, each with its number of objects; at a
    /// terminal also with bars
    #[arg(long, value_name = "FIELD,...", conflicts_with_all = ["sort_by", "limit", "columns", "show_labels", "label_columns"])]
    pub facets: Option<String>,
    /// The maximum number of values of each field of --facets [default: 20]
    #[arg(long, value_name = "COUNT", requires = "facets")]
    pub facet_limit: Option<u64>,
    /// Print these columns instead of those of the server. PATH is like `spec.containers[*].image`, `spec.args[0]` or
    /// `metadata.labels['a.b/c']`, and `\.` is a dot in the name of a field. For these columns, the command reads whole
    /// objects
    #[arg(long, value_name = "[NAME:]PATH,...", conflicts_with_all = ["show_labels", "label_columns"])]
    pub columns: Option<String>,
    /// Add a column with all labels
    #[arg(long)]
    pub show_labels: bool,
    /// Add a column for each of these labels
    #[arg(short = 'L', long, value_name = "LABEL,...", value_delimiter = ',')]
    pub label_columns: Vec<String>,
    /// Also print how the server finds the objects, to standard error: the steps of its plan, with numbers of objects
    #[arg(long)]
    pub explain: bool,
    /// Print no headers of columns
    #[arg(long)]
    pub no_headers: bool,
    /// Print metadata.managedFields in JSON and YAML
    #[arg(long)]
    pub show_managed_fields: bool,
    /// What to read.
    #[command(flatten)]
    pub source: SourceArguments,
    /// The output format. json and yaml print one document: a List, or the object if one is named, or the Facets of the
    /// server. With --facets, name prints a field selector for each value
    #[arg(short, long, default_value = "table")]
    pub output: OutputFormat,
}

/// A resource by the name that the user wrote, and which of its objects are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WantedObjects<'a> {
    /// Plural, singular, kind or short name, with version and group if needed.
    pub(super) kind: &'a str,
    /// Names of objects; empty for a list.
    pub(super) names: Vec<&'a str>,
}

impl GetArguments {
    /// The resources and object names that the positional arguments request, in their order. The forms are RESOURCE,
    /// RESOURCE NAME... and KIND/NAME.... Consecutive KIND/NAME arguments of one kind become one entry.
    ///
    /// # Errors
    /// An argument is empty, or RESOURCE and KIND/NAME are mixed.
    pub(super) fn wanted(&self) -> anyhow::Result<Vec<WantedObjects<'_>>> {
        let malformed = || anyhow!("write RESOURCE, RESOURCE NAME, or KIND/NAME, such as pods, pod web-1 or pod/web-1");
        let is_part = |text: &str| !text.is_empty() && !text.contains('/');
        let (first, names) = (&self.resource, &self.names);
        if !first.contains('/') {
            if names.iter().any(|name| name.contains('/')) {
                bail!("{first:?} is a resource, so the objects after it must be names without KIND/: {}", malformed());
            }
            let kinds: Vec<&str> = first.split(',').collect();
            if !kinds.iter().all(|kind| is_part(kind)) || !names.iter().all(|name| is_part(name)) {
                return Err(malformed());
            }
            let names = || names.iter().map(String::as_str).collect();
            return Ok(kinds.into_iter().map(|kind| WantedObjects { kind, names: names() }).collect());
        }
        let mut wanted: Vec<WantedObjects<'_>> = Vec::new();
        for object in std::iter::once(first).chain(names) {
            let (kind, name) = object.split_once('/').unwrap_or((object, ""));
            if !is_part(kind) || !is_part(name) || kind.contains(',') {
                bail!("{object:?} is not KIND/NAME: {}", malformed());
            }
            match wanted.last_mut() {
                Some(last) if last.kind == kind => last.names.push(name),
                _ => wanted.push(WantedObjects { kind, names: vec![name] }),
            }
        }
        Ok(wanted)
    }

    /// Checks rules between options that clap cannot express. `wanted` is the result of [`GetArguments::wanted`].
    ///
    /// # Errors
    /// Names the options that cannot be used together, and what to remove.
    pub(super) fn check(&self, wanted: &[WantedObjects<'_>]) -> anyhow::Result<()> {
        if self.columns.is_some() && self.output != OutputFormat::Table {
            bail!("--columns prints a table: remove -o, or use -o json or -o yaml without --columns");
        }
        if let Some(option) = self.count.then_some("--count").or(self.facets.as_ref().map(|_| "--facets"))
            && wanted.len() != 1
        {
            bail!("{option} counts the objects of one resource: run the command once for each resource");
        }
        if wanted.iter().all(|wanted| wanted.names.is_empty()) {
            return Ok(());
        }
        if self.all_namespaces {
            bail!(
                "the name of an object is unique only in its namespace: use -n NAMESPACE instead of --all-namespaces"
            );
        }
        let options = [
            ("--selector", self.label_selector.is_some()),
            ("--field-selector", self.field_selector.is_some()),
            ("--where", self.expression.is_some()),
            ("--sort-by", self.sort_by.is_some()),
            ("--limit", self.limit.is_some()),
            ("--count", self.count),
            ("--facets", self.facets.is_some()),
            ("--explain", self.explain),
        ];
        match options.into_iter().find(|(_, is_set)| *is_set) {
            None => Ok(()),
            Some((option, _)) => {
                bail!("{option} is only for lists, but the command names objects: remove {option} or the names")
            }
        }
    }

    /// The value of the query parameter `sortBy`; `None` without `--sort-by`.
    ///
    /// # Errors
    /// A field is empty, or a brace is not closed.
    pub(super) fn sort_fields(&self) -> anyhow::Result<Option<String>> {
        let Some(text) = &self.sort_by else { return Ok(None) };
        let fields = text.split(',').map(sort_field).collect::<anyhow::Result<Vec<String>>>()?;
        Ok(Some(fields.join(",")))
    }
}

/// One field of `--sort-by` as the server reads it: `-{.spec.size}` is `-spec.size`.
///
/// # Errors
/// The field is empty, or a brace is not closed.
fn sort_field(text: &str) -> anyhow::Result<String> {
    let (order, path) = match text.trim().strip_prefix('-') {
        Some(path) => ("-", path),
        None => ("", text.trim()),
    };
    match without_braces(path).map(|path| path.strip_prefix('.').unwrap_or(path)) {
        Some(label) if !label.is_empty() => Ok(format!("{order}{label}")),
        _ => bail!("--sort-by: {text:?} is not a field such as spec.size, -spec.size or {{.spec.size}}"),
    }
}

/// The path without the braces `{}` around it, in which kubectl writes paths. A path without braces is returned as it
/// is. `None` if only one of the two braces is there.
pub(super) fn without_braces(path: &str) -> Option<&str> {
    match (path.strip_prefix('{'), path.ends_with('}')) {
        (Some(rest), true) => rest.strip_suffix('}'),
        (None, false) => Some(path),
        _ => None,
    }
}
