//! `fieldcache get`: prints objects like kubectl get, and queries that only a fieldcache server answers.
//!
//! [`arguments`] are the options, and [`requests`] reads pages, objects and counts from a server. With `--dir`, that is
//! a server in this process ([`local`]). [`table`] prints the Table of the server, [`columns`] the columns of
//! `--columns`, [`document`] JSON and YAML, [`facets`] numbers of objects, and [`plan`] the plan of a query, all to
//! [`streams`]. Nothing is selected
//! or sorted here: a query that the server does not answer is an error. There is no watch: kubectl has one.

pub mod arguments;
mod columns;
mod document;
mod facets;
mod local;
mod plan;
mod requests;
mod streams;
mod table;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use serde::Deserialize;
use serde_json::Value;

use super::exit::Exit;
use super::output::printable;
use super::shared_arguments::OutputFormat;
use crate::model::Scope;
use crate::registry::UpstreamDiscovery;
use crate::runtime::resource_name::Names;
use crate::server::clock::Clock;
use crate::source::connection::Connection;
use crate::source::discovery::{self, Discovered};
use arguments::{GetArguments, WantedObjects};
use columns::PathColumn;
use document::ListDocument;
use requests::{ListPages, METADATA_LIST, Parameters, Requests};
use streams::Streams;
use table::{Table, TableOptions, TablePrinting};

/// The media type of a Table. Other servers than kube-apiserver and fieldcache may have none.
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io;drop=metadata.managedFields,application/json";

/// The media type of JSON.
const JSON: &str = "application/json";

/// JSON without managed fields, from servers that support it.
const JSON_WITHOUT_MANAGED_FIELDS: &str = "application/json;drop=metadata.managedFields,application/json";

/// A resource of the server, and which of its objects are read.
struct Target<'t> {
    resource: &'t Discovered,
    /// Empty for a list.
    names: Vec<&'t str>,
}

/// What [`Query::each`] printed of a target.
struct Printed {
    /// The number of objects.
    count: usize,
    /// The number of objects that `--limit` leaves out; `None` if it leaves none out, or the number is not known.
    left_out: Option<u64>,
}

/// Runs `fieldcache get`: prints objects, or numbers of objects. Returns [`Exit::No`] if no object was found.
///
/// # Errors
/// The options do not fit together, the server cannot be reached or rejects a request, it would ignore an option, or a
/// named object does not exist.
pub async fn run(arguments: GetArguments) -> anyhow::Result<Exit> {
    let window = rustix::termios::tcgetwinsize(io::stdout()).ok();
    let width = window.map(|size| usize::from(size.ws_col));
    let mut streams = Streams { out: &mut io::stdout(), err: &mut io::stderr(), width };
    answer(&arguments, Arc::new(jiff::Timestamp::now), &mut streams).await
}

/// Like [`run`], with other streams. `clock` is the time from which ages of objects of a folder are counted.
///
/// # Errors
/// Those of [`run`].
async fn answer(arguments: &GetArguments, clock: Clock, streams: &mut Streams<'_>) -> anyhow::Result<Exit> {
    let wanted = arguments.wanted()?;
    arguments.check(&wanted)?;
    let columns = arguments.columns.as_deref().map(PathColumn::read_all).transpose()?;
    let query = Query { arguments, wanted, columns };
    match &arguments.source.dir {
        Some(folder) => {
            let (connection, following) = local::open(folder, clock).await?;
            tokio::select! {
                exit = query.print(&connection, streams) => exit,
                () = following => bail!("internal error: reading the folder ended; see the log"),
            }
        }
        None => query.print(&Connection::open(&arguments.source.cluster()).await?, streams).await,
    }
}

/// What the user wants, as far as it can be read without a server.
struct Query<'q> {
    arguments: &'q GetArguments,
    wanted: Vec<WantedObjects<'q>>,
    /// The columns of `--columns`; `None` without the option.
    columns: Option<Vec<PathColumn>>,
}

impl Query<'_> {
    /// Reads everything that the options request and prints it. Returns [`Exit::No`] if no object was found.
    ///
    /// # Errors
    /// Those of [`run`].
    async fn print(&self, connection: &Connection, streams: &mut Streams<'_>) -> anyhow::Result<Exit> {
        let arguments = self.arguments;
        let namespace = arguments.source.namespace(arguments.namespace.as_deref());
        let namespace = (!arguments.all_namespaces).then_some(&*namespace);
        let mut requests = Requests::new(connection, namespace, arguments)?;
        let served = discovery::read(connection, &UpstreamDiscovery::default()).await?.resources;
        let find = |wanted: &WantedObjects<'_>| self.find(connection, &served, wanted.kind);
        let resources = self.wanted.iter().map(find).collect::<anyhow::Result<Vec<_>>>()?;
        if let (true, [resource]) = (arguments.count || arguments.facets.is_some(), &resources[..]) {
            return facets::print(&mut requests, resource, arguments, streams).await;
        }
        for resource in &resources {
            requests.check_server(resource, streams).await?;
        }
        let names = self.wanted.iter().map(|wanted| wanted.names.clone());
        let targets: Vec<Target<'_>> =
            resources.into_iter().zip(names).map(|(resource, names)| Target { resource, names }).collect();
        let count = match (arguments.output, &self.columns) {
            (OutputFormat::Json | OutputFormat::Yaml, _) => {
                return self.documents(&mut requests, &targets, streams).await;
            }
            (OutputFormat::Name, _) => self.names(&mut requests, &targets, streams).await?,
            (OutputFormat::Table | OutputFormat::Wide, Some(columns)) => {
                self.columns(&mut requests, &targets, columns, streams).await?
            }
            (OutputFormat::Table | OutputFormat::Wide, None) => self.tables(&mut requests, &targets, streams).await?,
        };
        if count > 0 {
            return Ok(Exit::Done);
        }
        let all_namespaced = targets.iter().all(|target| target.resource.scope == Scope::Namespaced);
        match namespace.filter(|_| all_namespaced) {
            Some(namespace) => writeln!(streams.err, "No resources found in {} namespace.", printable(namespace))?,
            None => writeln!(streams.err, "No resources found")?,
        }
        Ok(Exit::No)
    }

    /// The resource with a name that the user wrote. If several resources have the name, the first one in the order of
    /// discovery is returned, as in kubectl. `served` has the resources of the server in that order.
    ///
    /// # Errors
    /// The server has no such resource; names the remedy.
    fn find<'s>(
        &self,
        connection: &Connection,
        served: &'s [Discovered],
        name: &str,
    ) -> anyhow::Result<&'s Discovered> {
        let place = connection.url();
        served.iter().find(|resource| Names::from(*resource).contain(name)).with_context(|| {
            let remedy = match &self.arguments.source.dir {
                Some(folder) => format!("`fieldcache fields --dir {}` lists the resources with selectable fields", folder.display()),
                None => format!(
                    "kubectl --server {place} api-resources lists the resources that it serves; a fieldcache in the cluster serves resources that have a FieldCache"
                ),
            };
            format!("{place} serves no resource {name:?} that can be listed and watched: {remedy}")
        })
    }

    /// Prints the Tables of the server. Returns the number of rows.
    ///
    /// # Errors
    /// Those of [`run`].
    async fn tables<'r>(
        &self,
        requests: &mut Requests<'r>,
        targets: &[Target<'r>],
        streams: &mut Streams<'_>,
    ) -> anyhow::Result<usize> {
        let mut total = 0;
        for target in targets {
            let options = self.table_options(target.resource, targets);
            let has_metadata = options.has_namespace || options.has_all_labels || !options.labels.is_empty();
            let include = if has_metadata { "Metadata" } else { "None" };
            let parameters: Parameters = vec![("includeObject", include.to_owned())];
            let mut printing = TablePrinting::new(self.arguments.no_headers, total > 0);
            if !target.names.is_empty() {
                let named = named(requests, target, (TABLE, &parameters), streams).await;
                let mut all = Table::default();
                for object in named.objects {
                    all.append(read_table(object, requests)?);
                }
                total += all.len();
                printing.print(all.headers(&options), all.cells(&options), streams)?;
                named.failure.map_or(Ok(()), Err)?;
                continue;
            }
            let mut pages = requests.list(target.resource, TABLE, &parameters);
            while let Some(page) = requests.next_page(&mut pages, streams).await? {
                let table = read_table(page, requests)?;
                total += table.len();
                printing.print(table.headers(&options), table.cells(&options), streams)?;
            }
            self.note_rest(&pages, streams)?;
        }
        Ok(total)
    }

    /// Which columns the Table of a resource has. Names have the prefix `KIND/` if `targets` has other resources too.
    fn table_options(&self, resource: &Discovered, targets: &[Target<'_>]) -> TableOptions {
        let arguments = self.arguments;
        let is_other = |target: &Target<'_>| target.resource.gvr != resource.gvr;
        let prefix = || format!("{}/", qualified_kind(resource));
        TableOptions {
            is_wide: arguments.output == OutputFormat::Wide,
            has_namespace: arguments.all_namespaces && resource.scope == Scope::Namespaced,
            name_prefix: if targets.iter().any(is_other) { prefix() } else { String::new() },
            labels: arguments.label_columns.clone(),
            has_all_labels: arguments.show_labels,
        }
    }

    /// Prints the columns of `--columns`. Returns the number of objects.
    ///
    /// # Errors
    /// Those of [`run`].
    async fn columns<'r>(
        &self,
        requests: &mut Requests<'r>,
        targets: &[Target<'r>],
        columns: &[PathColumn],
        streams: &mut Streams<'_>,
    ) -> anyhow::Result<usize> {
        let headers = || columns.iter().map(|column| column.name.clone()).collect::<Vec<String>>();
        let mut printing = TablePrinting::new(self.arguments.no_headers, false);
        let cells = |object: &Value| columns.iter().map(|column| column.cell(object)).collect::<Vec<String>>();
        let mut print = |objects: Vec<Value>, streams: &mut Streams<'_>| {
            printing.print(headers(), objects.iter().map(cells).collect(), streams)
        };
        // kube-apiserver ignores the parameter, and sends whole objects.
        let accept = columns::kept(columns).map_or_else(|| JSON.to_owned(), |kept| format!("{JSON};keep={kept}"));
        let mut total = 0;
        for target in targets {
            total += self.each(requests, target, &accept, streams, &mut print).await?.count;
        }
        Ok(total)
    }

    /// Prints names such as `pod/web-1`. Returns their number.
    ///
    /// # Errors
    /// Those of [`run`].
    async fn names<'r>(
        &self,
        requests: &mut Requests<'r>,
        targets: &[Target<'r>],
        streams: &mut Streams<'_>,
    ) -> anyhow::Result<usize> {
        let mut total = 0;
        for target in targets {
            let kind = qualified_kind(target.resource);
            let mut print = |objects: Vec<Value>, streams: &mut Streams<'_>| {
                let name = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                let lines: String = objects.iter().map(|object| format!("{kind}/{}\n", name(object))).collect();
                streams.print(&printable(&lines))
            };
            total += self.each(requests, target, METADATA_LIST, streams, &mut print).await?.count;
        }
        Ok(total)
    }

    /// Prints one document in JSON or YAML. [`Exit::No`] if it is a List without items.
    ///
    /// # Errors
    /// Those of [`run`].
    async fn documents<'r>(
        &self,
        requests: &mut Requests<'r>,
        targets: &[Target<'r>],
        streams: &mut Streams<'_>,
    ) -> anyhow::Result<Exit> {
        let arguments = self.arguments;
        let accept = if arguments.show_managed_fields { JSON } else { JSON_WITHOUT_MANAGED_FIELDS };
        let is_one = matches!(targets, [target] if target.names.len() == 1);
        let mut list = ListDocument::new(arguments.output);
        let mut remaining = None;
        let mut found = 0;
        for target in targets {
            let mut print = |mut objects: Vec<Value>, streams: &mut Streams<'_>| {
                objects.iter_mut().for_each(|object| complete(object, target.resource, arguments.show_managed_fields));
                match (is_one, &objects[..]) {
                    (true, [object]) => streams.print(&document::printed(object, arguments.output)),
                    _ => list.add(objects, streams),
                }
            };
            let printed = self.each(requests, target, accept, streams, &mut print).await?;
            found += printed.count;
            remaining = printed.left_out.map(|more| remaining.unwrap_or(0) + more).or(remaining);
        }
        if !is_one {
            list.finish(remaining, streams)?;
        }
        Ok(if found > 0 { Exit::Done } else { Exit::No })
    }

    /// Reads all objects of a target and passes them to `print`: named objects together, the objects of a list page by
    /// page. `accept` is the media type to request.
    ///
    /// # Errors
    /// Those of [`run`]. The objects that were read before the error are printed.
    async fn each<'r>(
        &self,
        requests: &mut Requests<'r>,
        target: &Target<'r>,
        accept: &str,
        streams: &mut Streams<'_>,
        print: &mut dyn FnMut(Vec<Value>, &mut Streams<'_>) -> anyhow::Result<()>,
    ) -> anyhow::Result<Printed> {
        if !target.names.is_empty() {
            // A server cannot return a single object as a PartialObjectMetadataList.
            let accept = if accept == METADATA_LIST { JSON } else { accept };
            let named = named(requests, target, (accept, &Vec::new()), streams).await;
            let count = named.objects.len();
            print(named.objects, streams)?;
            return named.failure.map_or(Ok(Printed { count, left_out: None }), Err);
        }
        let (mut pages, mut count) = (requests.list(target.resource, accept, &Vec::new()), 0);
        while let Some(page) = requests.next_page(&mut pages, streams).await? {
            let objects = items(page);
            count += objects.len();
            print(objects, streams)?;
        }
        self.note_rest(&pages, streams)?;
        Ok(Printed { count, left_out: pages.remaining.filter(|_| pages.is_cut()) })
    }

    /// Prints a note to standard error if `--limit` leaves objects out.
    ///
    /// # Errors
    /// Standard error cannot be written.
    fn note_rest(&self, pages: &ListPages<'_>, streams: &mut Streams<'_>) -> anyhow::Result<()> {
        if pages.is_cut() {
            let more = pages.remaining.map_or_else(|| "more".to_owned(), |more| format!("{more} more"));
            writeln!(streams.err, "note: there are {more} objects, which --limit omits")?;
        }
        Ok(())
    }
}

/// The named objects of a target.
struct NamedObjects {
    /// The objects that were read, in the order of the names.
    objects: Vec<Value>,
    /// The error that names all objects that do not exist, or why reading stopped; `None` if all were read.
    failure: Option<anyhow::Error>,
}

/// Reads the named objects of a target. Reading continues after an object that does not exist, and stops at another
/// error. `form` is the media type and the additional query parameters.
async fn named<'r>(
    requests: &mut Requests<'r>,
    target: &Target<'r>,
    form: (&str, &Parameters),
    streams: &mut Streams<'_>,
) -> NamedObjects {
    let (mut objects, mut missing) = (Vec::with_capacity(target.names.len()), Vec::new());
    for name in &target.names {
        match requests.object(target.resource, name, form, streams).await {
            Ok(Ok(object)) => objects.push(object),
            Ok(Err(message)) => missing.push(message),
            Err(error) => return NamedObjects { objects, failure: Some(error) },
        }
    }
    let failure = (!missing.is_empty()).then(|| anyhow!(missing.join("; ")));
    NamedObjects { objects, failure }
}

/// Reads the response `document` as a Table.
///
/// # Errors
/// The document is not a Table.
fn read_table(document: Value, requests: &Requests<'_>) -> anyhow::Result<Table> {
    let url = requests.connection.url();
    if document["kind"] != "Table" {
        bail!("{url} returned no Table: use -o name, -o json, -o yaml or --columns");
    }
    Table::deserialize(document).with_context(|| format!("{url}: Table"))
}

/// The items of a list; none if the document has no array `items`.
fn items(mut list: Value) -> Vec<Value> {
    match list.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

/// The kind of a resource as kubectl prints it before a name: `pod`, or `shirt.stable.example.com`.
fn qualified_kind(resource: &Discovered) -> String {
    let kind = resource.kind.to_lowercase();
    match &*resource.gvr.group {
        "" => kind,
        group => format!("{kind}.{group}"),
    }
}

/// Changes an object of a list to what kubectl prints. Adds `apiVersion` and `kind`, which items of built-in kinds do
/// not have. Removes managed fields, which not every server leaves out, unless `shows_managed_fields`.
fn complete(object: &mut Value, resource: &Discovered, shows_managed_fields: bool) {
    let Some(members) = object.as_object_mut() else { return };
    let version = || Value::from(resource.gvr.group_version().to_string());
    members.entry("apiVersion").or_insert_with(version);
    members.entry("kind").or_insert_with(|| Value::from(&*resource.kind));
    if !shows_managed_fields && let Some(metadata) = members.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}
