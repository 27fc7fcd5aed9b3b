//! Reads what is shown of an object in a tree: its uid, its owners and its state in short.
//!
//! Objects of any kind are read alike. A member that is missing or of another type is empty, so reading fails only for
//! bytes that are not JSON.

use crate::json::Json;
use crate::json::tree::Tree;

use super::document::{ObjectStatus, Owner};

/// The maximum length of a text that is read from an object, in bytes. Authors of custom resources choose reasons and
/// phases, so these can be long.
const LONGEST: usize = 256;

/// What is read from an object that may be a dependent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Candidate {
    /// metadata.uid; empty without one.
    pub uid: String,
    /// metadata.name.
    pub name: String,
    /// metadata.namespace; empty for a cluster-scoped object.
    pub namespace: String,
    /// metadata.creationTimestamp; empty without one.
    pub creation_timestamp: String,
    /// The condition Ready and the phase.
    pub status: ObjectStatus,
    /// The owners that the caller of [`Candidate::read`] wants, sorted by uid.
    pub owners: Vec<Owner>,
}

impl Candidate {
    /// Reads an object. `wanted` receives the uid of each owner reference, and returns whether the result has that
    /// owner. `None` if the bytes are not JSON.
    pub fn read(object: &[u8], mut wanted: impl FnMut(&str) -> bool) -> Option<Candidate> {
        let tree = Tree::read(object).ok()?;
        let root = Json::root(Some(&tree));
        let metadata = root.at("metadata");
        let mut owners: Vec<Owner> = Vec::new();
        for reference in metadata.at("ownerReferences").items() {
            let Some(uid) = reference.at("uid").as_str().filter(|uid| wanted(uid)) else { continue };
            let controller = reference.at("controller").as_bool().unwrap_or_default();
            owners.push(Owner { uid: uid.into_owned(), controller });
        }
        // Of two references to one owner, the one with `controller: true` stays: it is sorted before the other.
        owners.sort_by(|one, other| (&one.uid, other.controller).cmp(&(&other.uid, one.controller)));
        owners.dedup_by(|later, first| later.uid == first.uid);
        Some(Candidate {
            uid: text(metadata.at("uid")),
            name: text(metadata.at("name")),
            namespace: text(metadata.at("namespace")),
            creation_timestamp: text(metadata.at("creationTimestamp")),
            status: status(root),
            owners,
        })
    }
}

/// The state of an object in short; see [`ObjectStatus`] for the rules.
fn status(object: Json<'_>) -> ObjectStatus {
    let (metadata, status) = (object.at("metadata"), object.at("status"));
    let is_ready = |condition: &Json<'_>| condition.at("type").as_str().as_deref() == Some("Ready");
    let ready = status.at("conditions").items().find(is_ready).unwrap_or(Json::NOTHING);
    let generation = metadata.at("generation").as_i64();
    // The controller of the object has not seen the newest spec.
    let is_behind = status.at("observedGeneration").as_i64().zip(generation).is_some_and(|(seen, set)| seen < set);
    let phase = match text(status.at("phase")) {
        _ if !metadata.at("deletionTimestamp").is_null() => "Terminating".to_owned(),
        phase if !phase.is_empty() => phase,
        _ if is_behind => "InProgress".to_owned(),
        _ => String::new(),
    };
    ObjectStatus { ready: text(ready.at("status")), reason: text(ready.at("reason")), phase }
}

/// The whole characters of a JSON string within its first [`LONGEST`] bytes. Spaces replace control characters, which
/// JSON and terminals would show in another way. Empty for a value that is not a string.
fn text(value: Json<'_>) -> String {
    let text = value.as_str().unwrap_or_default();
    let ends = text.char_indices().map(|(start, character)| start + character.len_utf8());
    let end = ends.take_while(|end| *end <= LONGEST).last().unwrap_or_default();
    text[..end].chars().map(|character| if character.is_control() { ' ' } else { character }).collect()
}
