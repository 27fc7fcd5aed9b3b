//! Decodes the parameters of a query string, by the rules of Go's `url.ParseQuery` and apimachinery
//! `runtime/conversion.go`.
//!
//! Values are validated in `wire::params`.

use crate::model::percent_decode;

/// The maximum number of parameters of a query. Kubernetes has about twenty. Go's servers accept 10,000 (net/url,
/// `urlmaxqueryparams`), but until the response is created, each takes many times as much memory as in the URL.
pub const MOST_PARAMETERS: usize = 256;

/// A decoded query string.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Whether a query string has more than [`MOST_PARAMETERS`] parameters. Empty ones count.
    pub fn is_too_long(text: &str) -> bool {
        text.bytes().filter(|byte| *byte == b'&').count() >= MOST_PARAMETERS
    }

    /// Decodes a query string. Omits pairs that cannot be decoded or have a semicolon, as Go does.
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

    /// The first value of a key; `None` if the query does not have the key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| &**value)
    }

    /// All values of a key.
    pub fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(name, _)| name == key).map(|(_, value)| &**value)
    }

    /// All parameters, as key and value, in the order of the query string.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }

    /// The value of a boolean parameter. False if it is missing, `0`, or `false` in any case; every other value is
    /// true, also the empty one.
    pub fn flag(&self, key: &str) -> bool {
        self.optional_flag(key).unwrap_or(false)
    }

    /// The value of a boolean parameter, as in [`Query::flag`]; `None` if it is missing.
    pub fn optional_flag(&self, key: &str) -> Option<bool> {
        self.get(key).map(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
    }
}
