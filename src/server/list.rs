//! One LIST: which state is shown, which page of it, and the response in pieces.
//!
//! The state is chosen by the matrix of resourceVersion, resourceVersionMatch, limit and continue (apiserver
//! `storage/interfaces.go` and `storage/cacher/delegator.go`), here always of the one store. The response is built
//! while it is sent: a request holds its snapshot and one piece, however large the list is and however slow the client.

use std::iter::Peekable;
use std::sync::Arc;

use futures::future::BoxFuture;
use http::Response;
use tokio::time::Instant;

use crate::model::{Scope, Version};
use crate::protobuf::Encoder;
use crate::query::{ContinueToken, Selection, State};
use crate::registry::{Resource, ResourceOrigin, ResourceState};
use crate::store::{Object, Revocation, Snapshot};

use super::clock::Clock;
use super::consistency::{self, ReadFrom};
use super::context::RequestContext;
use super::explain;
use super::list_page::{FoundPage, KEPT_PAGE, PageObjects, take_page};
use super::no_response::NoResponse;
use super::read;
use super::response::streamed;
use super::settings::ReadConsistency;
use super::sorting::Sorting;
use super::state::ServerState;
use crate::flow_control::lists::{LARGE, ListAdmission};
use crate::flow_control::long_work::{LONG, may_read};
use crate::flow_control::unread;
use crate::request::ResourcePath;
use crate::wire::api_error::ApiError;
use crate::wire::body::Body;
use crate::wire::encode::{CHUNK, Chunks, Envelope, Show, Shown};
use crate::wire::facets::FacetOptions;
use crate::wire::negotiate::{Format, LISTS, Offer, Protobuf, Representation, check_route_accept, negotiate};
use crate::wire::params::{ListOptions, read_version};
use crate::wire::past;
use crate::wire::pieces::Pieces;
use crate::wire::table;
use crate::wire::table::{Columns, Include};
use crate::wire::{protobuf, warnings, yaml};

/// The factor by which indentation lengthens usual objects, to estimate the length of a list before it is written.
pub(super) const INDENTED: u64 = 2;

/// kube-apiserver's message for a page whose version is too old.
const EXPIRED_PAGE: &str = "The provided continue parameter is too old to display a consistent list result. You can \
    start a new list without the continue parameter, or use the continue token in this response to retrieve the \
    remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were \
    created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";

/// kube-apiserver's message for a list at a version that is too old.
const EXPIRED_LIST: &str = "The resourceVersion for the provided list is too old.";

/// Responds with a list.
///
/// # Errors
/// 400, 406 and 410 for the request, 429 when a limit is reached, and those of [`state_to_show`].
pub(super) async fn answer(
    server: &ServerState,
    context: &RequestContext<'_>,
    address: &ResourcePath,
    resource: &Arc<Resource>,
) -> Result<Response<Body>, NoResponse> {
    answer_after(server, context, address, resource, None).await
}

/// A step between the selection of the objects of a list and its response. The list then has at most [`Self::most`]
/// objects, which stay as they were selected, whatever the step does.
pub(super) trait ListStep: Send + Sync {
    /// The maximum number of objects.
    fn most(&self) -> usize;

    /// Runs the step. `names`: the names of the objects of the list, in its order. `further`: the number of objects that
    /// the request selects beyond the maximum. The result replaces the response of the list, unless it is `None`.
    ///
    /// # Errors
    /// Those of the step. They replace the response too.
    fn run(&self, names: Vec<String>, further: u64) -> BoxFuture<'_, Result<Option<Response<Body>>, ApiError>>;
}

/// Responds with a list like [`answer`], after a step with its objects. Everything that the client can get wrong is
/// checked before the step.
///
/// # Errors
/// Those of [`answer`] and of the step.
pub(super) async fn answer_after(
    server: &ServerState,
    context: &RequestContext<'_>,
    address: &ResourcePath,
    resource: &Arc<Resource>,
    step: Option<&dyn ListStep>,
) -> Result<Response<Body>, NoResponse> {
    answer_in(server, context, address, resource, (protobuf::offered(&server.catalog(context), resource), step)).await
}

/// Responds with a list, after `step` if there is one. `whole` is the resource with all parts of its objects; the client
/// can request only some parts in the Accept header (`drop`, `keep`). `offered` states whether protobuf can be
/// negotiated. If an object has no protobuf form, this function calls itself with an offer without protobuf. This comes
/// before the step.
async fn answer_in(
    server: &ServerState,
    context: &RequestContext<'_>,
    address: &ResourcePath,
    whole: &Arc<Resource>,
    (offered, step): (Protobuf, Option<&dyn ListStep>),
) -> Result<Response<Body>, NoResponse> {
    if whole.origin == ResourceOrigin::BuiltIn {
        check_route_accept(context.headers, &LISTS)?;
    }
    let agreed = negotiate(context.headers, Offer::Resource, offered)?;
    FacetOptions::check_absent(&context.info.query)?;
    let resource = &whole.for_request(&agreed.parts);
    let mut request = ListRequest::read(context, address, resource)?;
    // Only a fieldcache understands `keep`.
    if !agreed.parts.kept.is_empty() {
        request = request.not_forwarded();
    }
    // The client's own limit, which does not reject the request.
    let own_limit = request.wanted.limit;
    if let Some(step) = step {
        request = request.kept_up_to(step.most());
    }
    let request = Arc::new(request);
    let selection = &request.selection;
    // The selection is in memory while the list waits: for the store, a turn, or a permit. So it counts for the user.
    let selection_bytes = selection.held_bytes() as u64;
    let selection_share = server.waiting_memory(context.user, selection_bytes).admit()?;
    let consistency = consistency::consistency(server, context)?;
    let (state, mut from) = state_to_show(server, context, &request, consistency).await?;
    // As in kube-apiserver, objects are converted last. Any other error takes precedence over a wrong representation.
    if let Representation::Partial(_) = agreed.form {
        return Err(ApiError::NotAcceptable(format!(
            "you requested PartialObjectMetadata, but the requested object is a list ({})",
            go_type(resource, &resource.list_kind)
        ))
        .into());
    }
    let include = Include::read(&context.info.query, &agreed.form)?;
    let mut begun = Instant::now();
    let (mut state, mut page) = take_page(server, context, &request, state).await?;
    // A large list needs a permit, because only some large lists are written at the same time.
    let mut permit = None;
    let is_indented = agreed.format == Format::Yaml || context.pretty();
    let bytes = page.bytes.saturating_mul(if is_indented { INDENTED } else { 1 });
    if bytes > LARGE {
        permit = Some(match server.limits.lists().acquire(context.user, bytes).map_err(ApiError::Limited)? {
            ListAdmission::Granted(permit) => permit,
            ListAdmission::Queued(waiting) => {
                // The state is released while the request is queued. Afterwards the list shows a newer state.
                drop((page, state));
                if let Some(cel) = &selection.cel {
                    cel.forget_found();
                }
                let permit = Box::pin(waiting.wait()).await.map_err(ApiError::Limited)?;
                (state, from) = state_to_show(server, context, &request, consistency).await?;
                begun = Instant::now();
                (state, page) = take_page(server, context, &request, state).await?;
                permit
            }
        });
    }
    // Until the response counts its memory, that of the page counts.
    let _page_share = server.waiting_memory(context.user, page.held_bytes).admit()?;
    let took = begun.elapsed();
    read::check_namespaces(resource, state.version())?;
    let cel_warning = read::check_cel(selection.cel.as_deref())?;
    context.record.record_access(selection.access());
    let further = request.sorting.as_ref().map(|sorting| format!("sort by {}", sorting.text()));
    let explanation =
        Box::pin(explain::wanted_explanation(server, context, resource, selection, &state, further)).await?;
    let page_held_bytes = page.held_bytes;
    let first_length = page.objects.first_length();
    // The length of the longest object bounds the memory for rendering YAML and Tables.
    let is_rendered = agreed.format == Format::Yaml || matches!(agreed.form, Representation::Table(_));
    let longest = if is_rendered { page.objects.longest() } else { 0 };
    let table = match &agreed.form {
        Representation::Table(version) => Some(server.columns.get(resource, version, include)),
        Representation::Whole
        | Representation::Partial(_)
        | Representation::PartialList(_)
        | Representation::AggregatedDiscovery
        | Representation::Facets => None,
    };
    let held_bytes = page_held_bytes
        + table.as_ref().map_or(0, |columns| columns.most_held(longest))
        + match agreed.format {
            Format::Json => 0,
            Format::Yaml => yaml::most_held(longest),
            Format::Protobuf => protobuf::MOST_HELD,
        };
    let names = step.map(|_| page.objects.names());
    let further = page.meta.remaining.filter(|_| own_limit != request.wanted.limit).unwrap_or(0);
    // The response counts when it begins. A list that needs a long turn counts before, because otherwise lists that are
    // rejected then would use up the long turns of other users. The memory of the page is counted already.
    let response_bytes = if first_length > LONG { unread::STREAMED + held_bytes - page_held_bytes } else { 0 };
    let _response_share = server.waiting_memory(context.user, response_bytes).admit()?;
    let (pieces, revocation) = if agreed.format == Format::Protobuf {
        let catalog = server.catalog(context);
        // In a box, so that lists in other formats hold no memory for this future.
        let written = Box::pin(async {
            let Some(shape) = protobuf::Objects::for_format(&catalog, resource, &agreed.form) else { return Ok(None) };
            // Both listings are in memory while the length is measured, which takes many turns.
            let both_bytes = 2 * page_held_bytes;
            let both_share = (both_bytes > 0).then(|| server.limits.unread().admit(context.user, both_bytes));
            let _both_share = both_share.transpose().map_err(ApiError::Limited)?;
            let (state, measured_page) = take_page(server, context, &request, state).await?;
            encoded_pieces([measured_page, page], state, resource, shape).await
        });
        match written.await? {
            Some(pieces) => pieces,
            None => {
                // Releases what this attempt counts for the user, because the next attempt counts it again.
                drop((permit, selection_share, request));
                return Box::pin(answer_in(server, context, address, whole, (offered.without(), step))).await;
            }
        }
    } else {
        if table.as_ref().is_some_and(|columns| columns.are_sorted()) {
            // Such a Table has an order of its own, so all objects are read before the first row is written.
            let page_bytes = usize::try_from(page.bytes).unwrap_or(usize::MAX);
            let long_turn = server.limits.seats().wait_for_long_turn(context.user, page_bytes).await;
            long_turn.map_err(ApiError::Limited)?;
        }
        // The pieces hold the state, and release it if it is revoked.
        let snapshot = state.snapshot();
        let made =
            pieces(page, snapshot, resource, agreed.format, &agreed.form, table.as_ref(), &server.settings.clock);
        drop(state);
        made
    };
    if let Some((step, names)) = step.zip(names)
        && let Some(response) = step.run(names, further).await?
    {
        return Ok(response);
    }
    // `streamed` makes the first pieces, so the memory of the response is counted for them too. A long first object
    // needs a long turn (`flow_control::long_work`).
    let first_length = table.as_ref().map_or(first_length, |columns| columns.work().bytes(first_length));
    let long_turn = server.limits.seats().wait_for_long_turn(context.user, first_length).await;
    long_turn.map_err(ApiError::Limited)?;
    // Through a View that prunes, short lists have no Content-Length. It would reveal that one turn was enough to read
    // their objects, including the pruned parts.
    let mut response = streamed(pieces, agreed.format, context, !resource.is_shown_whole());
    // `streamed` has made the first pieces. If the state was revoked meanwhile, they may lack objects.
    if revocation.is_revoked() {
        return Err(past::revoked_error().into());
    }
    response.body_mut().end_when_revoked(revocation);
    response.body_mut().add_held_bytes(held_bytes);
    if let Some(permit) = permit {
        response.body_mut().hold(permit);
    }
    if agreed.misses_protobuf {
        protobuf::add_missed_header(resource, &mut response);
    }
    warnings::add(response.headers_mut(), cel_warning.as_deref());
    if consistency == ReadConsistency::Strong {
        from.add_header(&mut response);
    }
    if let Some(explanation) = explanation {
        explain::add_explain_header(&mut response, &explanation, Some(took));
    }
    Ok(response)
}

/// The state that a request shows, and how it was reached. Waits until the store is loaded, until its lag is small
/// enough (not for a Strong read or an exact version), and until it has reached the version that the request needs.
///
/// # Errors
/// 429 while the store is being loaded. 503 if the store lags too far, or the source does not return its version. 504
/// if the store does not reach the version in time. 410 for a version that is too old. [`read::snapshot`] has those of
/// a store that cannot be loaded. [`NoResponse::Retry`] if the resource is no longer served, or was replaced.
/// [`NoResponse::Forward`] if a Strong read would have to wait, and the API server can answer it instead. The API
/// server cannot answer a request with a View, or with a field that it does not know.
pub(super) async fn state_to_show(
    server: &ServerState,
    context: &RequestContext<'_>,
    request: &ListRequest,
    consistency: ReadConsistency,
) -> Result<(State, ReadFrom), NoResponse> {
    let ListRequest { selection, can_be_forwarded, wanted, resource, .. } = request;
    let patience = server.settings.patience.min(context.timeout);
    let snapshot = read::snapshot(&resource.state, patience).await?;
    // The lag does not matter for the state at an exact version, nor for a Strong read, which queries the source.
    let may_lag = match wanted.state {
        WantedState::Newest => consistency == ReadConsistency::Eventual,
        WantedState::Any | WantedState::NotOlderThan(_) => true,
        WantedState::Exactly(_) => false,
    };
    if may_lag {
        read::wait_for_max_lag(&resource.state, server.settings.max_lag).await?;
    }
    // The View has selected other objects before this version, so a watch could not continue from an older state.
    let since = resource.selected_since();
    let (snapshot, from) = match wanted.state {
        WantedState::Exactly(version) if version < since => return Err(wanted.expired().into()),
        WantedState::Newest => {
            // For an Eventual read, `newest` only waits until writes through this server are visible.
            Box::pin(consistency::newest(server, context, resource, snapshot, *can_be_forwarded)).await?
        }
        WantedState::Any => (snapshot, ReadFrom::Own),
        WantedState::NotOlderThan(version) | WantedState::Exactly(version) => {
            consistency::reach(&resource.state, snapshot, Some(version)).await?
        }
    };
    let (snapshot, reached) = consistency::reach_selection(resource, snapshot).await?;
    let from = if reached == ReadFrom::Own { from } else { reached };
    // In a box, so that lists of the newest state hold no memory for this future.
    let state = Box::pin(wanted.state(server, context, &resource.state, snapshot, selection)).await?;
    Ok((state, from))
}

/// The Go type of objects of this kind or list kind, as error messages of kube-apiserver name it.
pub(super) fn go_type(resource: &Resource, kind: &str) -> String {
    match resource.origin {
        ResourceOrigin::Custom if kind == resource.kind => "*unstructured.Unstructured".to_owned(),
        ResourceOrigin::Custom => "*unstructured.UnstructuredList".to_owned(),
        ResourceOrigin::BuiltIn => {
            let group = resource.gvr.group.split('.').next().filter(|group| !group.is_empty()).unwrap_or("core");
            format!("*{group}.{kind}")
        }
    }
}

/// The selection and the options of a list request.
pub(super) struct ListRequest {
    pub(super) selection: Selection,
    /// Whether the API server of the source can answer the request too.
    can_be_forwarded: bool,
    pub(super) wanted: WantedPage,
    /// The order of the objects; `None`: by their keys.
    pub(super) sorting: Option<Arc<Sorting>>,
    /// Pages of up to this many objects are kept in memory; see [`KEPT_PAGE`].
    pub(super) most_kept: usize,
    pub(super) resource: Arc<Resource>,
}

impl ListRequest {
    /// Reads the options and the selection of a request.
    ///
    /// # Errors
    /// 400 for invalid options or selectors.
    pub(super) fn read(
        context: &RequestContext<'_>,
        address: &ResourcePath,
        resource: &Arc<Resource>,
    ) -> Result<ListRequest, ApiError> {
        let mut options = ListOptions::read(context.info)?;
        let read::RequestedSelection { selection, is_upstream } = read::selection(resource, address, &mut options)?;
        let sorting = Sorting::read(&context.info.query, resource, &selection)?;
        let wanted = WantedPage::read(&options, &selection, resource, sorting.as_ref())?;
        let selection = resource.restrict(selection);
        Ok(ListRequest {
            selection,
            can_be_forwarded: is_upstream && context.view.is_none() && sorting.is_none(),
            wanted,
            sorting: sorting.map(Arc::new),
            most_kept: KEPT_PAGE,
            resource: resource.clone(),
        })
    }

    /// The same request, for a response that only fieldcache makes. It is not forwarded.
    #[must_use]
    pub(super) fn not_forwarded(self) -> ListRequest {
        ListRequest { can_be_forwarded: false, ..self }
    }

    /// The same request for a page of at most `most` objects, which are kept in memory.
    fn kept_up_to(self, most: usize) -> ListRequest {
        let limit = self.wanted.limit.map_or(most, |limit| limit.min(most));
        ListRequest { wanted: WantedPage { limit: Some(limit), ..self.wanted }, most_kept: most, ..self }
    }

    /// The selected objects: those that the request selects, and its View shows.
    pub(super) fn selection(&self) -> &Selection {
        &self.selection
    }
}

/// Which state and which page of it a request wants.
pub(super) struct WantedPage {
    state: WantedState,
    /// The maximum number of objects; `None` for the rest of the list.
    pub(super) limit: Option<usize>,
    /// Where the page begins: the key in the continue token, and this key with `prefix`, as the store has it. `None`:
    /// at the first object, or where the token of a sorted list says.
    pub(super) start: Option<(String, String)>,
    /// The part of store keys that the tokens of this request leave out: its namespace with a slash; empty for all
    /// namespaces.
    pub(super) prefix: String,
}

/// Which state of the store a request wants.
enum WantedState {
    /// The newest state, because the request names no version. The consistency of the request decides how new it is.
    Newest,
    /// Any state: the request names version 0.
    Any,
    /// A state not older than this version.
    NotOlderThan(Version),
    /// The state at exactly this version.
    Exactly(Version),
}

impl WantedPage {
    /// Reads from the options which state and which page a request wants.
    ///
    /// # Errors
    /// 400 for an invalid version or continue token, or for both together.
    fn read(
        options: &ListOptions,
        selection: &Selection,
        resource: &Resource,
        sorting: Option<&Sorting>,
    ) -> Result<WantedPage, ApiError> {
        let prefix = selection.namespace.as_ref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
        // kube-apiserver gets one object by its name without pages, so the limit does not apply.
        let has_known_key = selection.namespace.is_some() || resource.scope == Scope::Cluster;
        let is_lookup = has_known_key && read::exact_name(&selection.fields).is_some();
        let limit = usize::try_from(options.limit).ok().filter(|limit| *limit > 0 && !is_lookup);
        // Only the string "0" disables the limit; "00" is version 0 too, but has pages.
        let is_zero = options.version == "0";
        if !options.continue_token.is_empty() {
            let (version, start) = match sorting.and_then(|sorting| sorting.token.as_ref()) {
                // The position of a sorted list is not a key.
                Some(token) => (Some(token.version), None),
                None => {
                    let token = ContinueToken::decode(&options.continue_token)
                        .map_err(|error| ApiError::BadRequest(error.to_string()))?;
                    // `start` has no leading slash, like the token that kube-apiserver returns with an expired page.
                    let start = token.key().to_owned();
                    let key = format!("{prefix}{start}");
                    (token.version, Some((start, key)))
                }
            };
            // As in a list without a token, version 0 disables the limit: the page is the rest of the list.
            let limit = limit.filter(|_| !is_zero);
            if !options.version.is_empty() && !is_zero {
                let message = "specifying resource version is not allowed when using continue";
                return Err(ApiError::BadRequest(message.to_owned()));
            }
            let state = version.map_or(WantedState::Newest, WantedState::Exactly);
            return Ok(WantedPage { state, limit, start, prefix });
        }
        let version = read_version(&options.version)
            .map_err(|problem| ApiError::BadRequest(format!("invalid resource version: {problem}")))?;
        let (state, limit) = match version {
            None => (WantedState::Newest, limit),
            Some(Version::ZERO) => (WantedState::Any, limit.filter(|_| !is_zero)),
            Some(version) if options.is_exact() => (WantedState::Exactly(version), limit),
            Some(version) if options.is_not_older_than() || limit.is_none() => {
                (WantedState::NotOlderThan(version), limit)
            }
            // A version with a limit means "exactly" without a resourceVersionMatch, as before that option existed.
            Some(version) => (WantedState::Exactly(version), limit),
        };
        Ok(WantedPage { state, limit, start: None, prefix })
    }

    /// The state that the request wants, from a snapshot that is new enough. An exact version is found in turns of the
    /// user. The memory that this takes counts for the user while it waits for a turn.
    ///
    /// # Errors
    /// 410 if an exact version is too old. For a page, the error has a token to continue inconsistently. Those of
    /// [`read::in_turns`].
    async fn state(
        &self,
        server: &ServerState,
        context: &RequestContext<'_>,
        resource_state: &ResourceState,
        snapshot: Snapshot,
        selection: &Selection,
    ) -> Result<State, ApiError> {
        let WantedState::Exactly(version) = self.state else { return Ok(State::current(snapshot)) };
        // Newer versions have replaced this one for longer than lists may show it.
        if resource_state.is_past(version) {
            return Err(self.expired());
        }
        let bytes = State::most_finding_bytes(&snapshot, version);
        let waiting = server.waiting_memory(context.user, bytes);
        let (of_snapshot, namespace) = (snapshot.clone(), selection.namespace.clone());
        let finding =
            async move { State::begin_at(of_snapshot, version, namespace.as_deref(), &mut read::work()).await };
        read::in_turns(snapshot, waiting, Box::pin(finding)).await?.map_err(|_| self.expired())
    }

    /// The error for a version that is too old. For a page, it has a token to continue inconsistently.
    fn expired(&self) -> ApiError {
        match &self.start {
            Some((start, _)) => ApiError::Expired {
                message: EXPIRED_PAGE.to_owned(),
                continue_token: Some(ContinueToken { version: None, start: start.clone() }.encode()),
            },
            None => ApiError::Expired { message: EXPIRED_LIST.to_owned(), continue_token: None },
        }
    }
}

/// A function that prunes objects of a resource as its View requires. It returns `None` for an object that is not
/// shown.
fn show(resource: &Arc<Resource>) -> Show {
    let resource = resource.clone();
    Box::new(move |object| resource.show(object))
}

/// Writes one item of a list to a buffer.
type WriteItem = Box<dyn FnMut(Object, &mut Vec<u8>) + Send>;

/// The body of the response in pieces, and the revocation that ends it if its snapshot is released (`store::pins`). Not
/// for protobuf: see [`encoded_pieces`]. `table` has the columns if the response is a Table.
fn pieces(
    page: FoundPage,
    snapshot: &Snapshot,
    resource: &Arc<Resource>,
    format: Format,
    form: &Representation,
    table: Option<&Arc<Columns>>,
    clock: &Clock,
) -> (Pieces, Revocation) {
    let resource = resource.clone();
    let FoundPage { meta, mut objects, is_sorted, .. } = page;
    let mut show = show(&resource);
    // A Table sorts by what is shown. So objects are pruned before they are sorted, and not again when they are
    // written.
    let own_order = table.filter(|_| !is_sorted);
    if let Some(sorted) = own_order.and_then(|columns| columns.sorted(&mut objects.by_ref().filter_map(&show))) {
        objects = PageObjects::Kept(sorted.into_iter());
        show = Box::new(Some);
    }
    let pinned = snapshot.pin(objects);
    let revocation = pinned.revocation();
    let objects = std::iter::from_fn(move || pinned.with(Iterator::next).flatten());
    if let Some(columns) = table {
        return (table::pieces(columns, columns.envelope(&meta), objects, show, format, clock()), revocation);
    }
    let (envelope, mut write): (Envelope, WriteItem) = match form {
        Representation::PartialList(version) => {
            let api_version = format!("meta.k8s.io/{version}");
            let envelope = Envelope::typed("PartialObjectMetadataList", &api_version, &meta);
            (envelope, Box::new(move |object, out| Shown::as_is(&object).write_partial(&api_version, out)))
        }
        Representation::Whole
        | Representation::Partial(_)
        | Representation::Table(_)
        | Representation::AggregatedDiscovery
        | Representation::Facets => {
            let envelope = Envelope::of_list(&resource, &meta);
            (envelope, Box::new(|object, out| Shown::as_is(&object).write_item(out)))
        }
    };
    let pieces: Pieces = match format {
        Format::Json | Format::Protobuf => {
            Box::new(Chunks::new(envelope, objects, show, b",", move |object, out: &mut Vec<u8>| {
                write(object, out);
                None
            }))
        }
        Format::Yaml => {
            let mut objects = objects.peekable();
            let envelope = yaml::list_envelope(&envelope, objects.peek().is_none());
            Box::new(Chunks::new(envelope, objects, show, b"", move |object: Object, out: &mut Vec<u8>| {
                let mut json = Vec::with_capacity(object.length());
                write(object, &mut json);
                yaml::begin_item(json, out)
            }))
        }
    };
    (pieces, revocation)
}

/// The objects of a page for protobuf. They are read twice: the total length is written before the first object.
struct Twice {
    /// The objects that are not measured yet.
    measured: Peekable<PageObjects>,
    /// The objects that are not written yet.
    written: PageObjects,
}

/// The body of a list in protobuf, and the revocation that ends it if its snapshot is released. `None` if an object has
/// no protobuf form. Both pages are the same page of `state`: the first is measured and the second is written.
///
/// The state is pinned, as for a list that is being sent, because measuring takes many turns. So it can be revoked.
///
/// # Errors
/// 410 if the state was revoked meanwhile, because readers retained too much memory (`store::pins`).
async fn encoded_pieces(
    [measured_page, page]: [FoundPage; 2],
    state: State,
    resource: &Arc<Resource>,
    shape: protobuf::Objects,
) -> Result<Option<(Pieces, Revocation)>, ApiError> {
    let pinned = state.snapshot().pin(Twice { measured: measured_page.objects.peekable(), written: page.objects });
    drop(state);
    let (mut encoder, mut length) = (Encoder::default(), 0);
    loop {
        let measured =
            pinned.with(|objects| measure(&mut objects.measured, resource, &shape, &mut encoder, &mut length));
        match measured.ok_or_else(past::revoked_error)? {
            Measured::All => break,
            Measured::Some => tokio::task::yield_now().await,
            Measured::Unencodable => return Ok(None),
        }
    }
    let (head, tail) =
        shape.list_envelope(&mut encoder, &page.meta, length).map_err(|error| ApiError::Internal(error.to_string()))?;
    let revocation = pinned.revocation();
    let objects = std::iter::from_fn(move || pinned.with(|objects| objects.written.next()).flatten());
    let (show, resource) = (show(resource), resource.clone());
    let mut json = Vec::new();
    let write = move |object: Object, out: &mut Vec<u8>| {
        json.clear();
        Shown::as_is(&object).write_item(&mut json);
        // The object was measured with success, and objects of a state do not change. The client would notice a missing
        // item, because the total length is already sent.
        if let Err(error) = shape.write_item(&mut encoder, &json, out) {
            protobuf::log_unencodable(&resource, object.key(), &error);
        }
        // Frees the memory that a large object took, because the client may be slow.
        encoder.release(CHUNK);
        if json.capacity() > CHUNK {
            json = Vec::new();
        }
        None
    };
    Ok(Some((Box::new(Chunks::new(Envelope { head, tail }, objects, show, b"", write)), revocation)))
}

/// The work to look up the encoded length that is stored with an object, in bytes that could be read in the same time.
const NOTED_COST: usize = 128;

/// The result of one turn of measuring.
enum Measured {
    /// All objects are measured.
    All,
    /// There are further objects.
    Some,
    /// An object has no protobuf form.
    Unencodable,
}

/// Adds the encoded lengths of the next objects to `length`, until one turn of work is done.
fn measure(
    objects: &mut Peekable<PageObjects>,
    resource: &Resource,
    shape: &protobuf::Objects,
    encoder: &mut Encoder,
    length: &mut usize,
) -> Measured {
    // `read`: the number of bytes that were read in this turn.
    let (mut json, mut read) = (Vec::new(), 0);
    while read < CHUNK {
        let Some(object) = objects.peek() else { return Measured::All };
        let noted = shape.noted_item_length(object).filter(|_| resource.is_shown_whole());
        // A long object ends this turn, and is read in the next one, which is then a long turn.
        if noted.is_none() && !may_read(object.length()) {
            break;
        }
        let Some(object) = objects.next() else { return Measured::All };
        // If a View prunes objects, each pruned object is a new one without a stored length, and `noted` is `None`.
        if let Some(noted) = noted {
            read += NOTED_COST;
            *length += noted;
            continue;
        }
        read += object.length();
        let Some(object) = resource.show(object) else { continue };
        json.clear();
        Shown::as_is(&object).write_item(&mut json);
        match shape.item_length(encoder, &json) {
            Ok(more) => {
                shape.note_item_length(&object, more);
                *length += more;
            }
            Err(error) => {
                protobuf::log_unencodable(resource, object.key(), &error);
                return Measured::Unencodable;
            }
        }
    }
    encoder.release(CHUNK);
    Measured::Some
}
