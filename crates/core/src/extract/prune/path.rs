//! The grammar of pruned and kept paths: `.spec.secret`, `.metadata.annotations['example.com/key']`.
//!
//! A path has one name for each level. The name follows a dot, or is in brackets and quotes if it has a dot, a bracket
//! or a quote itself. There is no escape, so a name cannot have both kinds of quotes. Lists have no step: a path
//! continues in each of their elements.

/// The reason why a path cannot be pruned or kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPath {
    /// The path does not start with a dot.
    #[error("must start with a dot and a name, such as .spec.secret")]
    NoDot,
    /// Nothing follows a dot, or is between quotes.
    #[error("has an empty name at byte {at}")]
    EmptyName {
        /// Byte offset.
        at: usize,
    },
    /// A bracket holds something else than one quoted name.
    #[error(
        "has a bracket at byte {at} without a single name in quotes, such as ['example.com/key']; a path has no list indexes, because it applies to each element"
    )]
    Bracket {
        /// Byte offset.
        at: usize,
    },
    /// A character that is only possible in quotes.
    #[error("has {found:?} at byte {at}: write the name in brackets and quotes, such as ['example.com/key']")]
    NeedsQuotes {
        /// Byte offset.
        at: usize,
        /// The character.
        found: char,
    },
    /// Clients do not work without it.
    #[error(
        "cannot be pruned: clients identify and select objects by apiVersion, kind, metadata.name, metadata.namespace, \
         metadata.uid, metadata.resourceVersion and metadata.labels"
    )]
    Required,
}

/// An upper bound for the number of names in a path. It only counts bytes that can begin a name, so it is fast for any
/// text.
pub fn most_names(path: &str) -> usize {
    path.bytes().filter(|byte| matches!(byte, b'.' | b'[')).count()
}

/// Parses a path to its names, from the outside in.
///
/// # Errors
/// [`InvalidPath`] with the cause and its position.
pub fn names(path: &str) -> Result<Vec<String>, InvalidPath> {
    if !path.starts_with('.') {
        return Err(InvalidPath::NoDot);
    }
    let mut names = Vec::new();
    let mut at = 0;
    while at < path.len() {
        let rest = &path[at..];
        let (name, length) = if let Some(rest) = rest.strip_prefix('.') {
            let length = rest.find(['.', '[', ']', '\'', '"']).unwrap_or(rest.len());
            (&rest[..length], length + 1)
        } else if rest.starts_with('[') {
            quoted(rest).ok_or(InvalidPath::Bracket { at })?
        } else {
            let found = rest.chars().next().unwrap_or_default();
            return Err(InvalidPath::NeedsQuotes { at, found });
        };
        if name.is_empty() {
            return Err(if names.is_empty() { InvalidPath::NoDot } else { InvalidPath::EmptyName { at } });
        }
        names.push(name.to_owned());
        at += length;
    }
    Ok(names)
}

/// Parses a path to prune to its names.
///
/// # Errors
/// As [`names`], and [`InvalidPath::Required`] for a path that cannot be pruned.
pub fn prunable_names(path: &str) -> Result<Vec<String>, InvalidPath> {
    let names = names(path)?;
    if is_required(&names) { Err(InvalidPath::Required) } else { Ok(names) }
}

/// The name in a leading `['name']` or `["name"]`, and the length of both brackets with their content, in bytes. `None`
/// if the text does not begin with one.
fn quoted(text: &str) -> Option<(&str, usize)> {
    let mark = text.get(1..2).filter(|mark| matches!(*mark, "'" | "\""))?;
    let inside = &text[2..];
    let length = inside.find(mark)?;
    inside[length + 1..].starts_with(']').then_some((&inside[..length], length + 4))
}

/// Whether the path names a part that every client needs.
fn is_required(names: &[String]) -> bool {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    matches!(
        names[..],
        ["apiVersion" | "kind" | "metadata"]
            | ["metadata", "name" | "namespace" | "uid" | "resourceVersion"]
            | ["metadata", "labels", ..]
    )
}
