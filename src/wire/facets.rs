//! The response form Facets of a list: its media type, its query parameters, and its JSON.
//!
//! `query::facets` counts, and `server::facets` responds. Only fieldcache has this form; kube-apiserver ignores its
//! parameters.

use super::api_error::ApiError;
use super::encode::{ListMeta, write_string, write_type};
use super::params::integer;
use crate::model::quote;
use crate::query::Facet;
use crate::request::Query;

/// The group of the kind Facets.
pub const GROUP: &str = "view.fieldcache.dev";

/// The version of the kind Facets.
pub const VERSION: &str = "v1alpha1";

/// The media type that requests Facets.
pub const MEDIA_TYPE: &str = "application/json;as=Facets;g=view.fieldcache.dev;v=v1alpha1";

/// The maximum number of values of each facet if the request has no `facetLimit`.
const DEFAULT_LIMIT: usize = 20;

/// The maximum of `facetLimit`.
const MOST_LIMIT: i64 = 1000;

/// The maximum number of fields in `facets`. The work of a request is proportional to it.
const MOST_FACETS: usize = 16;

/// The parameters of a request for Facets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FacetOptions {
    /// The labels of the fields, as the client wrote them; empty if it requests only the number of objects.
    pub labels: Vec<String>,
    /// The maximum number of values of each facet.
    pub limit: usize,
}

impl FacetOptions {
    /// Reads the parameters `facets` and `facetLimit`.
    ///
    /// # Errors
    /// 400 for too many or repeated fields, and for a limit that is no number, or that is too small or too large. 400
    /// for parameters that select a page: Facets are about all objects of the list.
    pub fn read(query: &Query) -> Result<FacetOptions, ApiError> {
        let bad_request = |message: String| Err(ApiError::BadRequest(message));
        let is_limited = integer(query, "limit")?.is_some_and(|limit| limit > 0);
        let continues = query.get("continue").is_some_and(|token| !token.is_empty());
        if let Some(parameter) = is_limited.then_some("limit").or(continues.then_some("continue")) {
            return bad_request(format!(
                "the query parameter {parameter} selects a page, but Facets count all objects of a list: remove it"
            ));
        }
        let text = query.get("facets").unwrap_or_default();
        let labels: Vec<&str> = text.split(',').filter(|_| !text.is_empty()).collect();
        if labels.len() > MOST_FACETS {
            return bad_request(format!("facets: at most {MOST_FACETS} fields are allowed"));
        }
        if let Some((_, label)) = labels.iter().enumerate().find(|(index, label)| labels[..*index].contains(label)) {
            return bad_request(format!("facets: the field {} is repeated", quote(label)));
        }
        let limit = match integer(query, "facetLimit")? {
            None => DEFAULT_LIMIT,
            Some(limit @ 1..=MOST_LIMIT) => usize::try_from(limit).unwrap_or(DEFAULT_LIMIT),
            Some(_) => return bad_request(format!("facetLimit: must be a number from 1 to {MOST_LIMIT}")),
        };
        Ok(FacetOptions { labels: labels.into_iter().map(str::to_owned).collect(), limit })
    }

    /// Checks that a request that does not get Facets has none of the parameters of Facets. Such a response would
    /// ignore them.
    ///
    /// # Errors
    /// 400 that names the parameter and the media type of Facets.
    pub fn check_absent(query: &Query) -> Result<(), ApiError> {
        match ["facets", "facetLimit"].into_iter().find(|parameter| query.get(parameter).is_some()) {
            None => Ok(()),
            Some(parameter) => Err(ApiError::BadRequest(format!(
                "the query parameter {parameter} is only allowed in lists with the header Accept: {MEDIA_TYPE}"
            ))),
        }
    }
}

/// The kind Facets as JSON. `meta` is the metadata of the list, and `total` the number of its objects. `facets` has the
/// label of each requested field, and the facet of the field.
pub fn json(meta: &ListMeta, total: u64, facets: &[(String, Facet)]) -> Vec<u8> {
    let mut out = Vec::new();
    write_type("Facets", &format!("{GROUP}/{VERSION}"), &mut out);
    out.extend_from_slice(b",\"metadata\":");
    meta.write_typed(&mut out);
    write_number("total", total, &mut out);
    out.extend_from_slice(b",\"facets\":[");
    for (index, (label, facet)) in facets.iter().enumerate() {
        out.extend_from_slice(if index == 0 { b"{\"field\":" } else { b",{\"field\":" });
        write_string(label, &mut out);
        write_number("distinct", facet.distinct, &mut out);
        out.extend_from_slice(b",\"values\":[");
        for (index, (value, count)) in facet.values.iter().enumerate() {
            out.extend_from_slice(if index == 0 { b"{\"value\":" } else { b",{\"value\":" });
            write_string(value, &mut out);
            write_number("count", *count, &mut out);
            out.push(b'}');
        }
        out.push(b']');
        write_number("other", facet.other, &mut out);
        write_number("absent", facet.absent, &mut out);
        if facet.unknown > 0 {
            write_number("unknown", facet.unknown, &mut out);
        }
        out.push(b'}');
    }
    out.extend_from_slice(b"]}");
    out
}

/// Writes a JSON member with a number, and the comma after the previous member.
fn write_number(name: &str, number: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(format!(",\"{name}\":{number}").as_bytes());
}
