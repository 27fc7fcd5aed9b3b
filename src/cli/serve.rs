//! `fieldcache serve`: checks the options, prints commands to paste, and shows progress.

#![expect(clippy::print_stderr, reason = "progress is for the person at the terminal")]

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use futures::FutureExt;
use tokio::time::{interval, timeout};

use super::exit::Exit;
use super::output::{printable, write_out};
use super::server_arguments::{ConsistencyArgument, PassThroughArgument, ServeArguments};
use crate::model::Gvr;
use crate::registry::{Catalog, LoadState, Registry, Resource, ResourceOrigin};
use crate::runtime::serve::{self, ServeOptions};
use crate::runtime::source::SourceOptions;
use crate::server::pass_through::PassThrough;
use crate::server::settings::ReadConsistency;
use crate::store::Snapshot;
use crate::transport::tls::CertificateFiles;

/// How often progress is updated.
const PROGRESS_STEP: Duration = Duration::from_millis(250);
/// How long the greeting waits until a resource is loaded, so that its example selects a value that exists.
const GREETING_PATIENCE: Duration = Duration::from_secs(3);

/// Runs until SIGINT or SIGTERM.
///
/// # Errors
/// The server cannot be started: an option is invalid, or something cannot be opened or bound. Or a task ended because
/// of an internal error.
pub async fn run(arguments: ServeArguments) -> anyhow::Result<Exit> {
    let addresses = [("--address", Some(arguments.address)), ("--metrics-address", arguments.metrics_address)];
    for (option, address) in addresses {
        if let Some(address) = address.filter(|address| !address.ip().is_loopback()) {
            bail!(
                "{option} {address} is not a loopback address: `serve` has no authentication, so it listens on this machine only; use 127.0.0.1"
            );
        }
    }
    if let (Some(option), Some(folder)) = (arguments.limits.history_option(), &arguments.source.dir) {
        bail!("{option} needs a cluster, and --dir {} is a folder: remove one of them", folder.display());
    }
    arguments.log.start().map_err(anyhow::Error::msg)?;
    let options = options(arguments);
    let certificate = options.certificate.as_ref().map(|files| files.certificate.clone());
    let service = serve::open(options).await?;
    let reached = Reached { address: service.address(), certificate, metrics: service.metrics_address() };
    let (registry, pinned) = (service.registry().clone(), service.pinned().to_vec());
    let source = service.source_name().to_owned();
    let status = async move {
        tokio::join!(greet(&registry, (&source, &pinned), &reached), show_progress(&registry));
        // The server or a signal ends the command, not this future.
        std::future::pending::<()>().await;
    };
    service.run(Some(status.boxed())).await?;
    Ok(Exit::Done)
}

/// The options of `serve`, from its arguments.
fn options(arguments: ServeArguments) -> ServeOptions {
    let certificate = match (arguments.tls_cert_file, arguments.tls_private_key_file) {
        (Some(certificate), Some(key)) => Some(CertificateFiles { certificate, key }),
        _ => None,
    };
    let source = SourceOptions {
        resources: arguments.resources,
        max_lag: arguments.max_lag,
        self_check: Some(arguments.self_check_interval).filter(|interval| !interval.is_zero()),
        history: arguments.limits.history(),
        memory_limit: arguments.limits.memory_limit,
        ..SourceOptions::default()
    };
    ServeOptions {
        location: arguments.source.location(),
        source,
        address: arguments.address,
        metrics_address: arguments.metrics_address,
        certificate,
        pass_through: match arguments.pass_through {
            PassThroughArgument::Off => PassThrough::Off,
            PassThroughArgument::Read => PassThrough::Read,
            PassThroughArgument::All => PassThrough::All,
        },
        consistency: match arguments.consistency {
            ConsistencyArgument::Eventual => ReadConsistency::Eventual,
            ConsistencyArgument::Strong => ReadConsistency::Strong,
        },
        limits: arguments.limits.settings(),
    }
}

/// How clients reach this server.
pub(super) struct Reached {
    /// The address of the API.
    pub(super) address: SocketAddr,
    /// The file of the certificate; `None` for plain HTTP.
    pub(super) certificate: Option<PathBuf>,
    /// The address of the metrics, if they are served.
    pub(super) metrics: Option<SocketAddr>,
}

impl Reached {
    fn url(&self) -> String {
        let scheme = if self.certificate.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// The beginning of a `curl` command for this server. The option for the CA names the serving certificate itself:
    /// curl and Go accept it as a trust anchor.
    fn curl(&self) -> String {
        self.with_authority("curl".to_owned(), "--cacert")
    }

    /// The beginning of a `kubectl` command for this server. Over TLS, kubectl prompts for a user name if it has no
    /// credentials, so the command has a token; the server ignores it.
    fn kubectl(&self) -> String {
        let token = if self.certificate.is_some() { " --token none" } else { "" };
        self.with_authority(format!("kubectl --server {}{token}", self.url()), "--certificate-authority")
    }

    /// Adds the option that names the certificate authority to a command; for plain HTTP, returns the command
    /// unchanged.
    fn with_authority(&self, command: String, option: &str) -> String {
        match &self.certificate {
            Some(file) => format!("{command} {option} {}", shell_word(&file.display().to_string())),
            None => command,
        }
    }
}

/// Quotes a text as one word of a shell.
fn shell_word(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+:@%".contains(&byte);
    if text.bytes().all(is_plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// Prints the addresses, how much is loaded, and commands to paste. `source` is the name of the cluster or folder, and
/// `pinned` are the resources of `--resource`.
async fn greet(registry: &Registry, (source, pinned): (&str, &[Gvr]), reached: &Reached) {
    let catalog = registry.catalog();
    let example = match timeout(GREETING_PATIENCE, first_loaded(&catalog, pinned)).await {
        Ok(Some(example)) => Some(example),
        Ok(None) | Err(_) => None,
    };
    let text = greeting(&catalog, (source, pinned), reached, example);
    if let Err(error) = write_out(&printable(&text)) {
        tracing::warn!(error = %error, "cannot write the startup message to standard output");
    }
}

/// Waits for the first resource that is loaded and has fields and objects, custom resources before built-in ones. If
/// `pinned` has any, it is one of these. `None` if there is no such resource. Waits, without a timeout, while a
/// candidate is not loaded.
pub(super) async fn first_loaded(catalog: &Catalog, pinned: &[Gvr]) -> Option<(Arc<Resource>, Snapshot)> {
    let mut wanted: Vec<&Arc<Resource>> = catalog
        .resources()
        .filter(|resource| {
            // A pinned one will be loaded.
            let is_wanted = match resource.state.load_state() {
                LoadState::Gone(_) => false,
                LoadState::Idle => pinned.contains(&resource.gvr),
                LoadState::Loading(_)
                | LoadState::SourceError { .. }
                | LoadState::OverMemory(_)
                | LoadState::Ready(_) => pinned.is_empty() || pinned.contains(&resource.gvr),
            };
            is_wanted && !resource.extractor.fields().is_empty()
        })
        .collect();
    wanted.sort_by_key(|resource| resource.origin != ResourceOrigin::Custom);
    for resource in wanted {
        let mut states = resource.state.subscribe();
        let found = states.wait_for(|state| matches!(state, LoadState::Ready(_))).await.ok().map(|state| state.clone());
        if let Some(LoadState::Ready(snapshot)) = found
            && !snapshot.is_empty()
        {
            return Some((resource.clone(), snapshot));
        }
    }
    None
}

/// A sentence about how much is loaded. Stores without objects are not counted.
fn loaded(catalog: &Catalog) -> String {
    let (mut resources, mut objects, mut is_on_demand) = (0, 0, false);
    for resource in catalog.resources() {
        match resource.state.load_state() {
            LoadState::Ready(snapshot) if snapshot.is_empty() => {}
            LoadState::Ready(snapshot) => {
                resources += 1;
                objects += snapshot.len();
            }
            LoadState::Idle => is_on_demand = true,
            LoadState::Loading(_) | LoadState::SourceError { .. } | LoadState::OverMemory(_) | LoadState::Gone(_) => {}
        }
    }
    let others = if is_on_demand { "; other resources are loaded at their first list or watch" } else { "" };
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    format!("loaded: {objects} object{} of {resources} resource{}{others}", plural(objects), plural(resources))
}

/// The text that `serve` prints when it is ready: URL, resources and examples. `source` and `pinned` are as for
/// [`greet`]; `example` is the resource that examples select from, if one is loaded.
pub(super) fn greeting(
    catalog: &Catalog,
    (source, pinned): (&str, &[Gvr]),
    reached: &Reached,
    example: Option<(Arc<Resource>, Snapshot)>,
) -> String {
    let (url, curl, kubectl) = (reached.url(), reached.curl(), reached.kubectl());
    let with_fields = catalog.resources().filter(|resource| !resource.extractor.fields().is_empty()).count();
    let total = catalog.resources().count();
    let mut text = format!(
        "serving {source} at {url} (fieldcache {})\n{}\n{total} resources, {with_fields} of them with selectable fields: {kubectl} api-resources\n\n",
        env!("CARGO_PKG_VERSION"),
        loaded(catalog)
    );
    match example.and_then(|(resource, snapshot)| example_selector(&resource, &snapshot).map(|found| (resource, found))) {
        Some((resource, (label, value))) => {
            let path = format!("{}/{}", resource.gvr.group_version().path(), resource.gvr.resource);
            text.push_str(&format!(
                "  {curl} '{url}/{path}?fieldSelector={}'\n  {kubectl} get {} -A --field-selector {label}={value}\n",
                crate::model::percent::percent_encode(&format!("{label}={value}")),
                resource.gvr.resource,
            ));
        }
        None if !pinned.is_empty() => {
            let Gvr { resource, .. } = &pinned[0];
            let path = pinned[0].group_version().path();
            text.push_str(&format!("  {curl} '{url}/{path}/{resource}'\n  {kubectl} get {resource} -A\n"));
        }
        None => text.push_str(&format!(
            "  {curl} '{url}/api/v1/pods?fieldSelector=status.phase%3DRunning'\n  {kubectl} get pods -A --field-selector status.phase=Running\n"
        )),
    }
    if let Some(address) = reached.metrics {
        text.push_str(&format!("\nmetrics: http://{address}/metrics\n"));
    }
    text.push_str("\nCtrl-C ends the server.\n");
    text
}

/// The field and the value that the most objects have, as label and value. Only fields of type string are considered.
/// Values that need quotes in a shell or a selector are skipped; `None` if there are no others.
pub(super) fn example_selector(resource: &Resource, snapshot: &Snapshot) -> Option<(String, String)> {
    let mut best: BTreeMap<u64, (String, String)> = BTreeMap::new();
    for (index, field) in resource.extractor.fields().iter().enumerate() {
        let index = crate::model::FieldIndex(u16::try_from(index).ok()?);
        for (value, posting) in snapshot.postings().field_values(index) {
            let plain =
                !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
            if plain && field.kind == "string" {
                best.entry(posting.len()).or_insert_with(|| (field.label.clone(), value.into_owned()));
            }
        }
    }
    best.pop_last().map(|(_, found)| found)
}

/// Shows the progress of loading on a terminal: a line that is overwritten while resources load, and one that stays for
/// each loaded resource. Does not return, unless standard error is not a terminal.
async fn show_progress(registry: &Registry) {
    if !std::io::stderr().is_terminal() {
        return;
    }
    let mut loading: BTreeMap<String, String> = BTreeMap::new();
    let mut ticks = interval(PROGRESS_STEP);
    loop {
        ticks.tick().await;
        for resource in registry.catalog().resources() {
            let name = resource.gvr.to_string();
            match resource.state.load_state() {
                LoadState::Loading(progress) => {
                    if loading.get(&name) != Some(&progress) {
                        eprint!("\r\x1b[K{name}: {progress}");
                        loading.insert(name, progress);
                    }
                }
                LoadState::Ready(snapshot) => {
                    if loading.remove(&name).is_some() {
                        let mebibytes = snapshot.json_bytes() as f64 / f64::from(1 << 20);
                        eprintln!("\r\x1b[K{name}: {} objects, {mebibytes:.1} MiB", snapshot.len());
                    }
                }
                LoadState::Idle | LoadState::SourceError { .. } | LoadState::OverMemory(_) | LoadState::Gone(_) => {
                    loading.remove(&name);
                }
            }
        }
    }
}
