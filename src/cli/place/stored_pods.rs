//! `--misplaced` and `--uses-match-label-keys`: reports about Pods that run.

use anyhow::bail;
use serde_json::{Value, json};

use super::arguments::PlaceArguments;
use super::nodes::{no_such_stored_node, node_names};
use super::table::reason;
use crate::cli::exit::Exit;
use crate::cli::output::{Printed, TextTable, printed};
use crate::placement::misplaced::{LabelKeyUse, Resident};
use crate::placement::{Eviction, Options};
use crate::placement_service::index::{IndexSnapshot, PlacementStores};

/// The text and the exit code of `--uses-match-label-keys`, or of `--misplaced`: [`Exit::No`] if a Pod could not be
/// placed again or is evicted.
///
/// # Errors
/// The node of `--node` does not exist.
pub(super) fn answer(
    arguments: &PlaceArguments,
    stores: &PlacementStores,
    indexed: &IndexSnapshot,
    options: &Options,
) -> anyhow::Result<(String, Exit)> {
    if arguments.uses_match_label_keys {
        return Ok((printed(&LabelKeys(&indexed.cluster.label_key_uses()), arguments.output), Exit::Done));
    }
    let names = match &arguments.node {
        Some(name) => vec![name.clone()],
        None => node_names(stores).collect(),
    };
    let mut found = Vec::new();
    for name in names {
        match indexed.cluster.misplaced(&name, options) {
            Some(residents) => found.extend(residents.into_iter().map(|resident| (name.clone(), resident))),
            None => bail!(no_such_stored_node(&name, stores)),
        }
    }
    let exit = if found.is_empty() { Exit::Done } else { Exit::No };
    Ok((printed(&Misplaced(&found), arguments.output), exit))
}

/// Pods that could not be placed again on their nodes, each with its node, to be printed.
struct Misplaced<'a>(&'a [(String, Resident)]);

impl Printed for Misplaced<'_> {
    fn document(&self) -> Value {
        self.0.iter().map(|(node, resident)| resident_json(node, resident)).collect()
    }

    fn table(&self, is_wide: bool) -> String {
        misplaced(self.0, is_wide)
    }

    fn names(&self) -> Vec<String> {
        self.0.iter().map(|(_, resident)| format!("pod/{}", resident.pod.name)).collect()
    }
}

/// The table of Pods that could not be placed on their node again; a sentence if there are none. The wide form has all
/// reasons, otherwise the first one and the number of the others.
fn misplaced(found: &[(String, Resident)], is_wide: bool) -> String {
    let mut table = TextTable::new(&["NAMESPACE", "POD", "NODE", "EVICTED", "COULD NOT BE PLACED THERE AGAIN"]);
    if found.is_empty() {
        return "Every Pod could be placed again where it runs, and no taint evicts a Pod.\n".to_owned();
    }
    for (node, resident) in found {
        let mut why: Vec<String> = resident.rejections.iter().map(reason).collect();
        why.dedup();
        let more = why.len().saturating_sub(1);
        let why = match (is_wide, more) {
            (true, _) | (false, 0) => why.join("; "),
            (false, more) => format!("{} (and {more} more)", why[0]),
        };
        let evicted = match (resident.eviction, &resident.tainted_since) {
            (Eviction::Never, _) => "never".to_owned(),
            (Eviction::Now, _) => "now".to_owned(),
            (Eviction::After(seconds), None) => format!("after {seconds} s"),
            (Eviction::After(seconds), Some(since)) => format!("after {seconds} s, tainted since {since}"),
        };
        table.push(vec![resident.pod.namespace.clone(), resident.pod.name.clone(), node.clone(), evicted, why]);
    }
    table.print()
}

/// A Pod that could not be placed on its node again, as JSON.
fn resident_json(node: &str, resident: &Resident) -> Value {
    let (when, seconds) = match resident.eviction {
        Eviction::Never => ("Never", None),
        Eviction::Now => ("Now", Some(0)),
        Eviction::After(seconds) => ("After", Some(seconds)),
    };
    let mut eviction = json!({ "when": when });
    if let Some(seconds) = seconds {
        eviction["seconds"] = json!(seconds);
    }
    if let Some(since) = &resident.tainted_since {
        eviction["taintedSince"] = json!(since);
    }
    json!({
        "namespace": resident.pod.namespace, "name": resident.pod.name, "node": node,
        "rejections": resident.rejections, "eviction": eviction,
    })
}

/// Uses of matchLabelKeys and mismatchLabelKeys in Pods, to be printed.
struct LabelKeys<'a>(&'a [LabelKeyUse]);

impl Printed for LabelKeys<'_> {
    fn document(&self) -> Value {
        let one = |one: &LabelKeyUse| {
            json!({
                "namespace": one.pod.namespace, "name": one.pod.name, "fieldPath": one.field_path,
                "matchLabelKeys": one.match_label_keys, "mismatchLabelKeys": one.mismatch_label_keys,
                "derived": one.derived,
            })
        };
        self.0.iter().map(one).collect()
    }

    fn table(&self, _: bool) -> String {
        label_keys(self.0)
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.0.iter().map(|one| format!("pod/{}", one.pod.name)).collect();
        names.dedup();
        names
    }
}

/// The table of Pods that use matchLabelKeys or mismatchLabelKeys; a sentence if there are none.
fn label_keys(uses: &[LabelKeyUse]) -> String {
    if uses.is_empty() {
        return "No Pod uses matchLabelKeys or mismatchLabelKeys in its affinity.\n".to_owned();
    }
    let mut table = TextTable::new(&["NAMESPACE", "POD", "MATCH KEYS", "MISMATCH KEYS", "DERIVED", "TERM"]);
    for one in uses {
        let derived = if one.derived.is_empty() { "nothing".to_owned() } else { one.derived.join(",") };
        table.push(vec![
            one.pod.namespace.clone(),
            one.pod.name.clone(),
            one.match_label_keys.join(","),
            one.mismatch_label_keys.join(","),
            derived,
            one.field_path.clone(),
        ]);
    }
    table.print()
}
