//! Label selectors, field selectors, shard selectors, their JSON forms, and the syntax of labels.

mod documentation;
mod extended;
mod field;
mod label;
mod operator;
mod shard;
mod syntax;
mod wire;

/// Labels as a record has them: sorted by key.
fn labels(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let mut labels: Vec<(String, String)> =
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    labels.sort();
    labels
}
