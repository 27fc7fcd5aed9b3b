//! Waits until nodes, Pods and namespaces are loaded, and shows a terminal how far they are.

use std::io::IsTerminal;
use std::time::Duration;

use tokio::time::{interval, timeout};

use crate::placement_service::index::PlacementStores;
use crate::registry::{Catalog, LoadState, Registry};

/// How long nodes, Pods and namespaces may take to load: large clusters take a minute.
pub(super) const PATIENCE: Duration = Duration::from_secs(600);

/// Waits until the stores of nodes, Pods and namespaces are loaded, for up to [`PATIENCE`]. Shows progress on a
/// terminal.
///
/// # Errors
/// A store cannot be loaded, or takes too long.
pub(super) async fn placement_stores(registry: &Registry, catalog: &Catalog) -> anyhow::Result<PlacementStores> {
    let reading = PlacementStores::load(catalog, PATIENCE);
    tokio::pin!(reading);
    let mut ticks = interval(Duration::from_millis(500));
    let is_terminal = std::io::stderr().is_terminal();
    let mut has_shown = false;
    loop {
        if let Ok(stores) = timeout(Duration::from_millis(500), &mut reading).await {
            if has_shown {
                progress("");
            }
            return Ok(stores?);
        }
        ticks.tick().await;
        if is_terminal {
            has_shown = true;
            progress(&loading(registry));
        }
    }
}

/// Overwrites the line of progress on the terminal; an empty text removes it.
#[expect(clippy::print_stderr, reason = "progress is for the person at the terminal")]
pub(super) fn progress(text: &str) {
    eprint!("\r\x1b[K{text}");
}

/// The resources that are loading, with their progress, separated by semicolons.
fn loading(registry: &Registry) -> String {
    let catalog = registry.catalog();
    let texts = catalog.resources().filter_map(|resource| match resource.state.load_state() {
        LoadState::Loading(progress) => Some(format!("{}: {progress}", resource.gvr.resource)),
        LoadState::Idle
        | LoadState::SourceError { .. }
        | LoadState::OverMemory(_)
        | LoadState::Ready(_)
        | LoadState::Gone(_) => None,
    });
    texts.collect::<Vec<_>>().join("; ")
}
