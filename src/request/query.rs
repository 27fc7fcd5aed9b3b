//! Query string -> parameters, by the rules of Go's `url.ParseQuery` and apimachinery `runtime/conversion.go`.
//!
//! Only the first value of a key counts. Does not check values; `wire::params` does.

use crate::model::percent_decode;

/// Most parameters of a query. Go's servers read 10,000 (net/url, `urlmaxqueryparams`). Each takes many times as much
/// memory as in the URL until the response is made, and Kubernetes has some twenty.
pub const MOST_PARAMETERS: usize = 256;

/// A decoded query string.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Whether a query has more than [`MOST_PARAMETERS`].
    pub fn is_too_long(text: &str) -> bool {
        text.bytes().filter(|byte| *byte == b'&').count() >= MOST_PARAMETERS
    }

    /// Decodes a query string. Leaves out pairs that cannot be decoded, as Go does.
    pub fn parse(text: &str) -> Query {
        let pairs = text
            .split('&')
            .filter(|pair| !pair.is_empty() && !pair.contains(';'))
            .filter_map(|pair| {
                let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                Some((percent_decode(key, true)?, percent_decode(value, true)?))
            })
            .collect();
        Query(pairs)
    }

    /// The first value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| &**value)
    }

    /// All values of a key.
    pub fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(name, _)| name == key).map(|(_, value)| &**value)
    }

    /// A boolean: absent, `0` and `false` are false. Every other value is true, also the empty one.
    pub fn flag(&self, key: &str) -> bool {
        self.optional_flag(key).unwrap_or(false)
    }

    /// A boolean; `None` if the key is absent.
    pub fn optional_flag(&self, key: &str) -> Option<bool> {
        self.get(key).map(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
    }
}
