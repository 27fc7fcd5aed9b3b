//! Requests below `/openapi`: which documents a caller sees, and when they are built.
//!
//! `documents` has the responses.

use std::sync::Arc;

use http::Response;
use tokio::time::Instant;

use super::builtin_group::{self, BuiltinGroupVisibility};
use super::builtin_group_documents;
use super::context::RequestContext;
use super::documents::{self, Needed};
use super::state::ServerState;
use crate::registry::documents::DocumentSource;
use crate::registry::view_documents;
use crate::wire::api_error::ApiError;
use crate::wire::body::Body;

/// The documents that a request below `/openapi` sees; `None` if there are none. `path` is the path after `/openapi`.
///
/// Only the aggregator's index has the document of fieldcache's own group. kubectl reads from the PATCH operation of a
/// kind whether the server can validate it. If a group has a document without PATCH, kubectl lists CRDs. If it may not
/// list them, or they are not served, kubectl fails (cli-runtime `pkg/resource/query_param_verifier_v3.go`). If a group
/// has no document, kubectl validates on the client. The aggregator redirects clients here for the documents of its
/// index, with their own identity.
fn document_source(server: &ServerState, context: &RequestContext<'_>, path: &str) -> Option<Arc<dyn DocumentSource>> {
    match context.own_group_visibility() {
        BuiltinGroupVisibility::Alone => Some(builtin_group_documents::documents().clone()),
        BuiltinGroupVisibility::Beside if path.strip_prefix("/v3/") == Some(builtin_group::KEY) => {
            Some(builtin_group_documents::documents().clone())
        }
        BuiltinGroupVisibility::Hidden | BuiltinGroupVisibility::WithoutViews | BuiltinGroupVisibility::Beside => {
            server.catalog(context).documents.clone()
        }
    }
}

/// Responds to a request below `/openapi`. Building documents takes long, so it is done on another thread than those
/// that serve requests.
///
/// # Errors
/// 404 without documents. 503 if the source does not provide them in time, or other documents are being built. Unknown
/// paths below `/openapi` are a 404 response instead.
pub(super) async fn answer(
    server: &ServerState,
    context: &RequestContext<'_>,
    query: Option<&str>,
) -> Result<Response<Body>, ApiError> {
    let path = context.info.path.trim_start_matches('/').strip_prefix("openapi").unwrap_or_default();
    let source = document_source(server, context, path).ok_or(ApiError::PageNotFound)?;
    let needed = async || {
        tokio::time::timeout(context.timeout, Needed::fetch(path, &*source))
            .await
            .unwrap_or_else(|_| Err("the source did not respond in time".to_owned()))
            .map_err(ApiError::Unavailable)
    };
    let (method, headers, now) = (context.info.method.clone(), context.headers.clone(), (server.settings.clock)());
    let (document, query) = (path.to_owned(), query.map(str::to_owned));
    let prefix = context.view.as_ref().map(|through| through.prefix.clone()).unwrap_or_default();
    // `None` if `is_made_only` is set and a document has to be built for the response.
    let answer = move |needed: &Needed, is_made_only: bool| {
        let request = documents::Request {
            method: &method,
            prefix: &prefix,
            path: &document,
            query: query.as_deref(),
            headers: &headers,
            now,
        };
        (!is_made_only || documents::is_made(&request, needed)).then(|| documents::answer(&request, needed))
    };
    // A document that is already built is sent at once, even if other requests wait for theirs.
    if let Some(response) = answer(&needed().await?, true) {
        return Ok(response.map(Body::whole));
    }
    // Building a document takes many times its length in memory: hundreds of megabytes for a large one.
    let making = tokio::time::timeout(context.timeout, server.making_documents.acquire_one(context.user)).await;
    let Ok(Some(making)) = making else {
        return Err(ApiError::Unavailable(
            "this server is building OpenAPI documents for other requests: try again later".to_owned(),
        ));
    };
    // Fetched again only now: otherwise the request would have held old documents while it waited.
    let needed = needed().await?;
    let answered = tokio::task::spawn_blocking(move || {
        let (_making, begun) = (making, Instant::now());
        let response = answer(&needed, false);
        // Documents of Views stay in memory after they are built, up to a bound.
        view_documents::evict_oldest();
        (response, begun.elapsed())
    });
    let (response, took) = answered.await.map_err(|error| {
        tracing::error!(%error, "building OpenAPI documents panicked");
        server.internal_error()
    })?;
    // The work counts for the user, although another thread has done it.
    server.limits.seats().wait_for_turn(context.user).await.work_and_settle(took, || ());
    response.map(|response| response.map(Body::whole)).ok_or_else(|| server.internal_error())
}
