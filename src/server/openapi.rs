//! Requests below `/openapi`: which documents a caller sees, and when they are made.
//!
//! What a document looks like is in `documents`.

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

/// The documents that a request below `/openapi` is shown.
///
/// The document of our own group is only in the aggregator's index. kubectl tests by the PATCH of a kind whether the
/// server can validate it. If a group has a document without that, kubectl requests definitions, which it may not
/// list or are not served, and gives up (cli-runtime `pkg/resource/query_param_verifier_v3.go`). A group without a
/// document it validates itself. The aggregator redirects clients here for the documents of its index, with their own
/// identity.
fn document_source(server: &ServerState, context: &RequestContext<'_>, path: &str) -> Option<Arc<dyn DocumentSource>> {
    match context.own_group() {
        BuiltinGroupVisibility::Alone => Some(builtin_group_documents::documents().clone()),
        BuiltinGroupVisibility::Beside if path.strip_prefix("/v3/") == Some(builtin_group::KEY) => {
            Some(builtin_group_documents::documents().clone())
        }
        BuiltinGroupVisibility::Hidden | BuiltinGroupVisibility::WithoutViews | BuiltinGroupVisibility::Beside => {
            server.catalog(context).documents.clone()
        }
    }
}

/// Responds to `/openapi/...`. Building documents takes long, so it is done outside of the threads that answer
/// requests.
pub(super) async fn answer(
    server: &ServerState,
    context: &RequestContext<'_>,
    query: Option<&str>,
) -> Result<Response<Body>, ApiError> {
    let path = context.info.path.trim_start_matches('/').strip_prefix("openapi").unwrap_or_default();
    let source = document_source(server, context, path).ok_or(ApiError::PageNotFound)?;
    let needed = async || {
        tokio::time::timeout(context.timeout, Needed::by(path, &*source))
            .await
            .unwrap_or_else(|_| Err("the source did not respond in time".to_owned()))
            .map_err(ApiError::Unavailable)
    };
    let (method, headers, now) = (context.info.method.clone(), context.headers.clone(), (server.settings.clock)());
    let (document, query) = (path.to_owned(), query.map(str::to_owned));
    let prefix = context.view.as_ref().map(|through| through.prefix.clone()).unwrap_or_default();
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
    // A document that exists is sent at once, whatever others are waiting for.
    if let Some(response) = answer(&needed().await?, true) {
        return Ok(response.map(Body::whole));
    }
    // Making a document takes many times its memory, for a large one hundreds of megabytes.
    let making = tokio::time::timeout(context.timeout, server.making_documents.acquire_one(context.user)).await;
    let Ok(Some(making)) = making else {
        return Err(ApiError::Unavailable(
            "this server is building documents for other requests: try again later".to_owned(),
        ));
    };
    // Only now: a waiting request would hold documents that were released meanwhile.
    let needed = needed().await?;
    let answered = tokio::task::spawn_blocking(move || {
        let (_making, begun) = (making, Instant::now());
        let response = answer(&needed, false);
        view_documents::evict_oldest();
        (response, begun.elapsed())
    });
    let (response, took) = answered.await.map_err(|error| {
        tracing::error!(%error, "building OpenAPI documents panicked");
        server.defect()
    })?;
    // The user pays for this work, although another thread did it.
    server.limits.seats().turn_of(context.user).await.work_and_settle(took, || ());
    response.map(|response| response.map(Body::whole)).ok_or_else(|| server.defect())
}
