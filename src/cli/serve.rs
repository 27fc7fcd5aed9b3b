//! `fieldcache serve`: opens the source, listens, tells a person what to paste, and ends cleanly.

#![expect(clippy::print_stderr, reason = "progress is for the person at the terminal")]
#![expect(clippy::disallowed_methods, reason = "the listener is a task of its own, started and joined here")]

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{interval, timeout};

use super::exit::Exit;
use super::low::{LogFormatArgument, ServeArguments};
use super::output::write_out;
use super::source;
use crate::registry::{Catalog, LiveState, Registry, Resource, ResourceOrigin};
use crate::server::guards::Guard;
use crate::server::listen::Listener;
use crate::server::{Server, Settings};
use crate::store::{Attribute, Snapshot};
use crate::telemetry::{self, LogFormat};

/// A request itself starts the load of a resource, so it waits for it.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often progress is looked at.
const PROGRESS_STEP: Duration = Duration::from_millis(250);
/// How long the greeting waits for pinned resources, so that its example has a value that is there.
const GREETING_PATIENCE: Duration = Duration::from_secs(3);

/// Runs until it is interrupted.
///
/// # Errors
/// Says what could not be opened or bound.
pub async fn run(arguments: ServeArguments) -> anyhow::Result<Exit> {
    if !arguments.address.ip().is_loopback() {
        bail!(
            "--address {} is not a loopback address: `serve` answers without credentials, so it listens on this machine only; use 127.0.0.1",
            arguments.address
        );
    }
    let format = match arguments.log_format {
        LogFormatArgument::Text => LogFormat::Text,
        LogFormatArgument::Json => LogFormat::Json,
    };
    telemetry::start(&arguments.log, format, std::io::stderr().is_terminal()).map_err(anyhow::Error::msg)?;
    // Bound first: a port that is in use should be known before minutes of reading.
    let listener = Listener::bind(arguments.address).await?;
    let opened = source::open(&arguments.source, &arguments.resources).await?;
    let address = listener.address();
    let settings = Settings { patience: PATIENCE, guard: Some(Guard::default()), ..Settings::default() };
    let server = Arc::new(Server::new(opened.registry.clone(), settings));
    let mut interrupted = signal(SignalKind::interrupt()).context("waiting for signals")?;
    let mut terminated = signal(SignalKind::terminate()).context("waiting for signals")?;
    let stop = async move {
        tokio::select! {
            _ = interrupted.recv() => {}
            _ = terminated.recv() => {}
        }
    };
    let registry = opened.registry;
    // A task of its own: connections are taken however long the source keeps this one busy.
    let serving = tokio::spawn(listener.run(server, stop));
    let around = async {
        tokio::join!(greet(&registry, &opened.name, address), show_progress(&registry), opened.following);
    };
    tokio::select! {
        served = serving => served.context("the listener met a defect")?,
        () = around => {}
    }
    Ok(Exit::Done)
}

/// Prints where it listens, and commands to paste.
async fn greet(registry: &Registry, source: &str, address: SocketAddr) {
    let catalog = registry.catalog();
    let example = match timeout(GREETING_PATIENCE, first_loaded(&catalog)).await {
        Ok(Some(example)) => Some(example),
        Ok(None) | Err(_) => None,
    };
    let text = greeting(&catalog, source, address, example);
    if let Err(error) = write_out(&text) {
        tracing::warn!(error = %error, "the greeting could not be written");
    }
}

/// The first custom resource with fields that is loaded or loading; `None` when none is.
pub(super) async fn first_loaded(catalog: &Catalog) -> Option<(Arc<Resource>, Snapshot)> {
    let wanted = catalog.resources().filter(|resource| {
        resource.origin == ResourceOrigin::Custom
            && !resource.plan.fields().is_empty()
            && !matches!(resource.live.state(), LiveState::Idle | LiveState::Gone)
    });
    for resource in wanted {
        let mut states = resource.live.subscribe();
        let found = states.wait_for(|state| matches!(state, LiveState::Ready(_))).await.ok().map(|state| state.clone());
        if let Some(LiveState::Ready(snapshot)) = found
            && !snapshot.is_empty()
        {
            return Some((resource.clone(), snapshot));
        }
    }
    None
}

pub(super) fn greeting(
    catalog: &Catalog,
    source: &str,
    address: SocketAddr,
    example: Option<(Arc<Resource>, Snapshot)>,
) -> String {
    let url = format!("http://{address}");
    let with_fields = catalog.resources().filter(|resource| !resource.plan.fields().is_empty()).count();
    let total = catalog.resources().count();
    let mut text = format!(
        "serving {source} at {url} (fieldcache {})\n{total} resources, {with_fields} of them with selectable fields: kubectl --server {url} api-resources\n\n",
        env!("CARGO_PKG_VERSION")
    );
    match example.and_then(|(resource, snapshot)| example_selector(&resource, &snapshot).map(|found| (resource, found))) {
        Some((resource, (label, value))) => {
            let path = format!("{}/{}", resource.gvr.group_version().path(), resource.gvr.resource);
            text.push_str(&format!(
                "  curl '{url}/{path}?fieldSelector={}'\n  kubectl --server {url} get {} -A --field-selector {label}={value}\n",
                percent_encode(&format!("{label}={value}")),
                resource.gvr.resource,
            ));
        }
        None => text.push_str(&format!(
            "  curl '{url}/api/v1/pods?fieldSelector=status.phase%3DRunning'\n  kubectl --server {url} get pods -A --field-selector status.phase=Running\n"
        )),
    }
    text.push_str("\nCtrl-C ends it.\n");
    text
}

/// A field and the value that most objects have in it; values that a shell or a selector would have to quote are passed
/// over.
pub(super) fn example_selector(resource: &Resource, snapshot: &Snapshot) -> Option<(String, String)> {
    let mut best: BTreeMap<u64, (String, String)> = BTreeMap::new();
    for (index, field) in resource.plan.fields().iter().enumerate() {
        let attribute = Attribute::Field(crate::model::FieldIndex(u16::try_from(index).ok()?));
        for (value, posting) in snapshot.postings().values(&attribute) {
            let plain =
                !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
            if plain && field.kind == "string" {
                best.entry(posting.len()).or_insert_with(|| (field.label.clone(), value.to_owned()));
            }
        }
    }
    best.pop_last().map(|(_, found)| found)
}

fn percent_encode(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

/// On a terminal, one line that is written over while resources load, and one that stays when one is loaded.
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
            match resource.live.state() {
                LiveState::Loading(progress) => {
                    if loading.get(&name) != Some(&progress) {
                        eprint!("\r\x1b[K{name}: {progress}");
                        loading.insert(name, progress);
                    }
                }
                LiveState::Ready(snapshot) => {
                    if loading.remove(&name).is_some() {
                        let mebibytes = snapshot.json_bytes() as f64 / f64::from(1 << 20);
                        eprintln!("\r\x1b[K{name}: {} objects, {mebibytes:.1} MiB", snapshot.len());
                    }
                }
                LiveState::Idle | LiveState::Refused { .. } | LiveState::Gone => {
                    loading.remove(&name);
                }
            }
        }
    }
}
