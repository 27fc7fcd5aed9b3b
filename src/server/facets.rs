//! One list as Facets: the number of selected objects, and the most frequent values of fields among them.
//!
//! The state, the selectors and the permissions are the same as for a list: see `list`. `query::facets` counts. The
//! response has no objects, so fields that a View prunes matter only because they cannot be counted.

use std::sync::Arc;

use http::Response;
use tokio::time::Instant;

use super::context::RequestContext;
use super::list::{self, ListRequest, state_to_show};
use super::no_response::NoResponse;
use super::response::document;
use super::settings::ReadConsistency;
use super::state::ServerState;
use super::{consistency, explain, read};
use crate::extract::FieldRef;
use crate::query::facets::MOST_VALUE_BYTES;
use crate::query::{Facet, FacetField, SelectedObjects, Work};
use crate::registry::{Resource, ResourceOrigin};
use crate::request::ResourcePath;
use crate::wire::api_error::ApiError;
use crate::wire::body::Body;
use crate::wire::encode::ListMeta;
use crate::wire::facets::{self, FacetOptions};
use crate::wire::negotiate::{Format, LISTS, Offer, Representation, check_route_accept, negotiate};
use crate::wire::params::check_not_sorted;
use crate::wire::{protobuf, warnings};

/// Responds with a list as Facets, if that is what the client prefers. Otherwise responds with the list itself.
///
/// # Errors
/// 406 if the client accepts neither, and those of [`counted`] and [`list::answer`].
pub(super) async fn answer(
    server: &ServerState,
    context: &RequestContext<'_>,
    address: &ResourcePath,
    resource: &Arc<Resource>,
) -> Result<Response<Body>, NoResponse> {
    if resource.origin == ResourceOrigin::BuiltIn {
        check_route_accept(context.headers, &LISTS)?;
    }
    let offered = protobuf::offered(&server.catalog(context), resource);
    let agreed = negotiate(context.headers, Offer::List, offered)?;
    match agreed.form {
        Representation::Facets => counted(server, context, address, resource, agreed.format).await,
        Representation::Whole
        | Representation::Table(_)
        | Representation::Partial(_)
        | Representation::PartialList(_)
        | Representation::AggregatedDiscovery => list::answer(server, context, address, resource).await,
    }
}

/// Responds with the facets of a list.
///
/// # Errors
/// 400 for the request, 410 for a version that is too old, 429 when a limit is reached, and those of [`state_to_show`].
async fn counted(
    server: &ServerState,
    context: &RequestContext<'_>,
    address: &ResourcePath,
    resource: &Arc<Resource>,
    format: Format,
) -> Result<Response<Body>, NoResponse> {
    let options = FacetOptions::read(&context.info.query)?;
    check_not_sorted(&context.info.query)?;
    let request = Arc::new(ListRequest::read(context, address, resource)?.not_forwarded());
    let fields: Vec<FacetField> =
        options.labels.iter().map(|label| field(resource, label)).collect::<Result<_, ApiError>>()?;
    // The memory of the selection counts towards the limit of the user until the function returns.
    let selection_bytes = request.selection().held_bytes() as u64;
    let _selection_share = server.waiting_memory(context.user, selection_bytes).admit()?;
    let consistency = consistency::consistency(server, context)?;
    let (state, from) = state_to_show(server, context, &request, consistency).await?;
    let begun = Instant::now();
    context.record.record_access(request.selection().access());
    let set_bytes = state.most_selecting_bytes(request.selection());
    let waiting = |bytes| server.waiting_memory(context.user, bytes);
    // Finds the selected objects, and the memory that counting their values will take.
    let (snapshot, selecting_request) = (state.snapshot().clone(), request.clone());
    let counted_fields = fields.clone();
    let finding = async move {
        let (mut work, mut most_bytes) = (read::work(), 0);
        let selected = SelectedObjects::find(state, selecting_request.selection(), &mut work).await;
        for field in counted_fields {
            // The facets are counted one after the other, so the facet that takes the most memory is decisive.
            most_bytes = selected.held_bytes(field, &mut work).await.max(most_bytes);
        }
        (selected, most_bytes)
    };
    let (selected, held_bytes) = read::in_turns(snapshot, waiting(set_bytes), Box::pin(finding)).await?;
    read::check_namespaces(resource, selected.state().version())?;
    let cel_warning = read::check_cel(request.selection().cel.as_deref())?;
    let further = (!fields.is_empty()).then(|| format!("count the values of {}", options.labels.join(", ")));
    let (selection, state) = (request.selection(), selected.state());
    let explanation =
        Box::pin(explain::wanted_explanation(server, context, resource, selection, state, further)).await?;
    let shard = request.selection().shard.clone();
    let meta = ListMeta { version: selected.state().version(), continue_token: String::new(), remaining: None, shard };
    let total = selected.total();
    // The values of the facets that are counted, and of one more, from which the best are taken.
    let value_bytes = (fields.len() as u64 + 1) * facet_bytes(options.limit);
    let snapshot = selected.state().snapshot().clone();
    let counting = async move {
        let (mut counted, mut work): (Vec<Facet>, _) = (Vec::with_capacity(fields.len()), Work::default());
        for field in fields {
            counted.push(selected.facet(field, options.limit, &mut work).await);
        }
        options.labels.into_iter().zip(counted).collect::<Vec<_>>()
    };
    let counted = read::in_turns(snapshot, waiting(set_bytes + held_bytes + value_bytes), Box::pin(counting)).await?;
    let took = begun.elapsed();
    let mut response = document(facets::json(&meta, total, &counted), format, context);
    warnings::add(response.headers_mut(), cel_warning.as_deref());
    if consistency == ReadConsistency::Strong {
        from.add_header(&mut response);
    }
    if let Some(explanation) = explanation {
        explain::add_explain_header(&mut response, &explanation, Some(took));
    }
    Ok(response)
}

/// The field of a label in `facets`.
///
/// # Errors
/// 400 for a field that the resource does not have or the View does not show, with the message of an invalid field
/// selector. 400 for `metadata.name`: nearly every object has a name of its own.
fn field(resource: &Resource, label: &str) -> Result<FacetField, ApiError> {
    let extractor = &resource.extractor;
    let field = extractor.resolve(label).map_err(|unsupported| ApiError::BadRequest(unsupported.message))?;
    match field {
        FieldRef::Name => Err(ApiError::BadRequest(format!(
            "facets: {label} has no counts, because nearly every object has a name of its own: use another field"
        ))),
        FieldRef::Field(index) => Ok(FacetField { field, is_many: extractor.is_many(index) }),
        FieldRef::Namespace | FieldRef::Empty => Ok(FacetField { field, is_many: false }),
    }
}

/// An upper bound of the memory of one facet with this many values, in bytes.
fn facet_bytes(limit: usize) -> u64 {
    (limit * size_of::<(String, u64)>() + MOST_VALUE_BYTES) as u64
}
