//! `/livez`, `/readyz` and `/healthz` (apiserver `server/healthz`).
//!
//! Checks are closures that the command line hands in; this file only prints them. A failing check's reason goes to
//! the log, not to the client, as upstream withholds it.

use std::fmt::Write;
use std::sync::Arc;

use http::{HeaderName, HeaderValue, Response, StatusCode};

use super::body::Body;
use super::params::Query;
use super::with_type;
use crate::model::quote;

/// A name in the output and in `?exclude=`, and the outcome; the error says what is wrong, for the log.
pub type Checked = (String, Result<(), String>);

/// Checks that are asked together.
#[derive(Clone)]
pub struct Check {
    /// Whether `/livez` asks it too. What only time can mend belongs to readiness alone, or restarts would loop.
    pub is_vital: bool,
    /// Asks.
    pub probe: Arc<dyn Fn() -> Vec<Checked> + Send + Sync>,
}

impl Check {
    /// A single one.
    pub fn one(
        name: &'static str,
        is_vital: bool,
        probe: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Check {
        Check { is_vital, probe: Arc::new(move || vec![(name.to_owned(), probe())]) }
    }
}

pub(super) fn answer(
    endpoint: &'static str,
    single: Option<&str>,
    query: &Query,
    checks: &[Check],
    draining: bool,
) -> Response<Body> {
    let mut results: Vec<Checked> = vec![("ping".to_owned(), Ok(()))];
    let asked = checks.iter().filter(|check| endpoint != "livez" || check.is_vital);
    results.extend(asked.flat_map(|check| (check.probe)()));
    if endpoint == "readyz" {
        let shutdown = if draining { Err("the process is shutting down".to_owned()) } else { Ok(()) };
        results.push(("shutdown".to_owned(), shutdown));
    }
    if let Some(single) = single {
        return match results.iter().find(|(name, _)| name == single) {
            Some((_, Ok(()))) => with_type(Response::new(Body::whole("ok")), "text/plain; charset=utf-8"),
            Some((name, Err(reason))) => {
                tracing::warn!(endpoint, check = name, reason, "health check failed");
                text(StatusCode::INTERNAL_SERVER_ERROR, "internal server error: reason withheld\n".to_owned())
            }
            None => text(StatusCode::NOT_FOUND, "404 page not found\n".to_owned()),
        };
    }
    let excluded: Vec<&str> = query.all("exclude").collect();
    let mut lines = String::new();
    let mut failed = false;
    for (name, result) in &results {
        // Writing to a String does not fail.
        let _ = match result {
            _ if excluded.contains(&&**name) => writeln!(lines, "[+]{name} excluded: ok"),
            Ok(()) => writeln!(lines, "[+]{name} ok"),
            Err(reason) => {
                failed = true;
                tracing::warn!(endpoint, check = name, reason, "health check failed");
                writeln!(lines, "[-]{name} failed: reason withheld")
            }
        };
    }
    let unknown: Vec<String> = excluded
        .iter()
        .filter(|excluded| !results.iter().any(|(name, _)| name == *excluded))
        .map(|excluded| quote(excluded))
        .collect();
    if !unknown.is_empty() {
        let _ = writeln!(lines, "warn: some health checks cannot be excluded: no matches for {}", unknown.join(","));
    }
    if failed {
        return text(StatusCode::INTERNAL_SERVER_ERROR, format!("{lines}{endpoint} check failed\n"));
    }
    if query.get("verbose").is_some() {
        return text(StatusCode::OK, format!("{lines}{endpoint} check passed\n"));
    }
    text(StatusCode::OK, "ok".to_owned())
}

fn text(code: StatusCode, body: String) -> Response<Body> {
    let mut response = with_type(Response::new(Body::whole(body)), "text/plain; charset=utf-8");
    *response.status_mut() = code;
    let nosniff = HeaderName::from_static("x-content-type-options");
    response.headers_mut().insert(nosniff, HeaderValue::from_static("nosniff"));
    response
}
