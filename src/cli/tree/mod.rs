//! `fieldcache tree`: the objects that an object owns, over all cached kinds, as a tree with their state.
//!
//! A server finds them ([`remote`]); with `--dir`, this process does ([`local`]). [`arguments`] are the options, and
//! [`picture`] prints the tree. Notes about what may be missing go to standard error.

pub mod arguments;
mod local;
mod owner;
mod picture;
mod remote;
#[cfg(test)]
mod tests;

use crate::dependents::DependentsDocument;
use crate::dependents::document::SearchedResource;
use crate::model::Moment;

use super::exit::{self, Exit};
use super::output::{printed, write_out};
use super::shared_arguments::OutputFormat;
use arguments::TreeArguments;
use picture::OwnerTree;

/// Runs `fieldcache tree`: prints the tree below an object. Returns [`Exit::No`] if no dependents were found.
///
/// # Errors
/// The object is missing, the server cannot be reached or does not serve dependents, or a permission is missing.
pub async fn run(arguments: TreeArguments) -> anyhow::Result<Exit> {
    let now = Moment::of_microseconds(jiff::Timestamp::now().as_microsecond());
    let (text, notes, exit) = answer(&arguments, now).await?;
    write_out(&text)?;
    notes.iter().for_each(|note| exit::note(note));
    Ok(exit)
}

/// The text that the command prints, the notes about what may be missing in it, and its exit code: [`Exit::No`] if no
/// dependents were found. `now` is the time from which ages are counted.
///
/// # Errors
/// Those of [`run`].
pub(super) async fn answer(arguments: &TreeArguments, now: Moment) -> anyhow::Result<(String, Vec<String>, Exit)> {
    let object = arguments.object_name()?;
    let namespace = arguments.source.namespace(arguments.namespace.as_deref());
    let (owner, found) = match &arguments.source.dir {
        Some(_) => local::dependents(arguments, object, &namespace).await?,
        None => remote::dependents(arguments, object, &namespace).await?,
    };
    // JSON and YAML have these facts as members of the document, so they need no notes.
    let notes = match arguments.output {
        OutputFormat::Json | OutputFormat::Yaml => Vec::new(),
        OutputFormat::Table | OutputFormat::Wide | OutputFormat::Name => notes(&found),
    };
    let exit = if found.dependents.is_empty() { Exit::No } else { Exit::Done };
    Ok((printed(&OwnerTree { owner, found, now }, arguments.output), notes, exit))
}

/// What may be missing in the tree, and how to get it.
fn notes(found: &DependentsDocument) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(limit) = &found.truncated {
        notes.push(format!("the tree is not complete: {limit}; show the tree of one of these dependents instead"));
    }
    if !found.not_permitted.is_empty() {
        notes.push(format!(
            "you may not list these resources in all of the searched namespaces, so dependents of these kinds can be missing: {}",
            listed(&found.not_permitted)
        ));
    }
    if !found.not_ready.is_empty() {
        notes.push(format!(
            "the server has not loaded these resources, so they were not searched: {}; `fieldcache serve` loads a resource at its first list, or with --resource",
            listed(&found.not_ready)
        ));
    }
    if found.dependents.is_empty() {
        notes.push("no dependents were found; only resources that the server caches are searched".to_owned());
    }
    notes
}

/// The maximum number of resources that a note names.
const MOST_NAMED: usize = 12;

/// The names of the first [`MOST_NAMED`] resources, separated by commas, and how many more there are.
fn listed(resources: &[SearchedResource]) -> String {
    let name = |resource: &SearchedResource| match &*resource.group {
        "" => resource.resource.clone(),
        group => format!("{}.{group}", resource.resource),
    };
    let named = resources.iter().take(MOST_NAMED).map(name).collect::<Vec<_>>().join(", ");
    match resources.len().saturating_sub(MOST_NAMED) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}
