//! `sortBy` of a list: its fields, and where its page begins.
//!
//! `query::sort` finds the objects, and `list` writes the page.

use super::read;
use crate::extract::FieldRef;
use crate::model::{Scope, quote};
use crate::query::sort_token::SortToken;
use crate::query::{CompactSelection, SelectedObjects, Selection, SortField, SortOrder, SortedListing, State};
use crate::registry::Resource;
use crate::request::Query;
use crate::store::Object;
use crate::wire::api_error::ApiError;

/// The maximum number of fields in `sortBy`. The work of a list is proportional to it.
const MOST_KEYS: usize = 8;

/// The work to find one object of a page, in steps of [`Work`](crate::query::Work).
const STEPS_OF_OBJECT: u64 = 16;

/// The selected objects of a sorted list, and where its page begins among them.
pub(super) struct FoundObjects {
    /// The objects that the list shows, without their order.
    pub(super) selected: SelectedObjects,
    /// The last object of the previous page; `None` on the first page.
    after: Option<Object>,
    /// The number of objects of all previous pages.
    taken: u64,
}

/// One page of a sorted list.
pub(super) struct SortedPage {
    /// The objects from the first one of the page on.
    pub(super) listing: SortedListing,
    /// The token of the next page; empty on the last one.
    pub(super) continue_token: String,
    /// The number of objects after this page; `None` on the last one.
    pub(super) remaining: Option<u64>,
    /// The estimated length of all objects of the page, in bytes.
    pub(super) bytes: u64,
}

/// The order of a list.
#[derive(Debug)]
pub(super) struct Sorting {
    pub(super) order: SortOrder,
    /// The token of the request; `None` for the first page.
    pub(super) token: Option<SortToken>,
    /// The value of `sortBy`, as the client wrote it.
    text: String,
}

impl Sorting {
    /// Reads `sortBy` and the continue token. Returns `None` without `sortBy`. `selection` has the selectors of the
    /// request.
    ///
    /// # Errors
    /// 400 for a field that the resource does not have, that the View does not show, or that can have several values.
    /// 400 for a repeated field, too many fields, and a token of another list.
    pub(super) fn read(query: &Query, resource: &Resource, selection: &Selection) -> Result<Option<Sorting>, ApiError> {
        let Some(text) = query.get("sortBy").filter(|text| !text.is_empty()) else { return Ok(None) };
        let mut keys: Vec<SortField> = Vec::new();
        for part in text.split(',') {
            let key = key(part, resource)?;
            if keys.iter().any(|other| other.field == key.field && key.field != FieldRef::Empty) {
                let label = quote(part.strip_prefix('-').unwrap_or(part));
                return Err(ApiError::BadRequest(format!("sortBy: the field {label} is repeated")));
            }
            keys.push(key);
            if keys.len() > MOST_KEYS {
                return Err(ApiError::BadRequest(format!("sortBy: at most {MOST_KEYS} fields are allowed")));
            }
        }
        let has_one_namespace = selection.namespace.is_some() || resource.scope == Scope::Cluster;
        let token = match query.get("continue").filter(|token| !token.is_empty()) {
            None => None,
            Some(token) => {
                let token = SortToken::decode(token).filter(|token| token.sort_by == text);
                Some(token.ok_or_else(|| invalid_token(text))?)
            }
        };
        Ok(Some(Sorting { order: SortOrder::new(&keys, has_one_namespace), token, text: text.to_owned() }))
    }

    /// The value of `sortBy`.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Finds the objects of a state that the list shows: those that `selection` selects.
    ///
    /// # Errors
    /// 400 for a token after an object that the list does not show.
    pub(super) async fn find(&self, state: State, selection: &Selection) -> Result<FoundObjects, ApiError> {
        let mut work = read::work();
        let (after, taken) = match &self.token {
            None => (None, 0),
            Some(token) => {
                let after = state.get(&token.after).cloned().ok_or_else(|| invalid_token(&self.text))?;
                // A page after an object that the list does not show would reveal the values of that object.
                if !CompactSelection::new(selection).test(&after, &mut work).await {
                    return Err(invalid_token(&self.text));
                }
                (Some(after), token.taken)
            }
        };
        let selected = SelectedObjects::find(state, selection, &mut work).await;
        Ok(FoundObjects { selected, after, taken })
    }

    /// Finds the page among the objects that the list shows. `limit` is the maximum number of objects; `None` for all
    /// further objects. `length` returns the length in bytes with which an object counts in the estimated length of the
    /// page.
    pub(super) async fn page(
        &self,
        found: FoundObjects,
        limit: Option<usize>,
        length: impl Fn(&Object) -> u64,
    ) -> SortedPage {
        let (mut work, FoundObjects { selected, after, taken }) = (read::work(), found);
        let listing = SortedListing::begin(&selected, &self.order, after.as_ref(), limit, &mut work).await;
        // Walks over a copy of the listing, to find the last object and the length of the page before it is sent.
        let (mut rest, mut bytes, mut taken, mut last) = (listing.clone(), 0, taken, None);
        for object in rest.by_ref().take(limit.unwrap_or(usize::MAX)) {
            bytes += length(&object);
            taken = taken.saturating_add(1);
            last = Some(object);
            work.spend(STEPS_OF_OBJECT).await;
        }
        let Some(last) = last.filter(|_| rest.peek().is_some()) else {
            return SortedPage { listing, continue_token: String::new(), remaining: None, bytes };
        };
        let (version, sort_by) = (selected.state().version(), self.text.clone());
        let continue_token = SortToken { version, sort_by, after: last.key().to_owned(), taken }.encode();
        let remaining = Some(selected.total().saturating_sub(taken));
        SortedPage { listing, continue_token, remaining, bytes }
    }
}

/// Reads one field of `sortBy`: the label of a field, in descending order if `-` precedes it.
///
/// # Errors
/// 400 that states what can be sorted.
fn key(part: &str, resource: &Resource) -> Result<SortField, ApiError> {
    let (label, is_descending) = match part.strip_prefix('-') {
        Some(label) => (label, true),
        None => (part, false),
    };
    let field = resource.extractor.resolve(label).map_err(|unsupported| {
        let message = unsupported.message;
        ApiError::BadRequest(format!("sortBy: {message}; use a field that field selectors accept"))
    })?;
    match field {
        FieldRef::Field(index) if resource.extractor.is_many(index) => Err(ApiError::BadRequest(format!(
            "sortBy: the field {} can have several values: sort by a field with one value",
            quote(label)
        ))),
        FieldRef::Field(_) | FieldRef::Name | FieldRef::Namespace | FieldRef::Empty => {
            Ok(SortField { field, is_descending })
        }
    }
}

/// The error for a continue token of another list. `text` is the value of `sortBy`.
fn invalid_token(text: &str) -> ApiError {
    ApiError::BadRequest(format!(
        "invalid continue token: it is not from this list with sortBy={text}, or its last object is no longer in the list: start \
         a new list without the continue parameter"
    ))
}
