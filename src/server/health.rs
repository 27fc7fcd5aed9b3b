//! `/livez`, `/readyz` and `/healthz` (apiserver `server/healthz`).
//!
//! Checks are closures, which `runtime` creates; this file runs them and writes their results. The reason of a failed
//! check is logged and not sent to the client, as in kube-apiserver.
//!
//! The names of checks contain names of resources. A response has them only for a caller that may get the
//! nonResourceURL of all single checks, such as `/readyz/*`. Kubernetes' ClusterRole `system:monitoring` has that
//! permission; `system:public-info-viewer`, which everyone has, names only `/readyz` itself. Other callers get the
//! plain result, and `exclude` has no effect for them, because it would reveal whether a check exists.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{HeaderName, HeaderValue, Response, StatusCode};
use tokio::time::Instant;

use crate::model::quote;
use crate::registry::Readiness;
use crate::request::Query;
use crate::wire::body::Body;
use crate::wire::response::with_type;

/// The name of a check in the output and in `?exclude=`, and its result. The reason in the result is only logged.
pub type Checked = (String, Readiness);

/// One or more checks that one closure runs.
#[derive(Clone)]
pub struct Check {
    /// Whether `/livez` includes the checks. A restart must be able to fix their failure; otherwise the process would
    /// be restarted again and again.
    pub is_vital: bool,
    /// Runs the checks and returns their results.
    pub probe: Arc<dyn Fn() -> Vec<Checked> + Send + Sync>,
}

impl Check {
    /// A check with a single result. `probe` returns the reason if the check fails.
    pub fn one(
        name: &'static str,
        is_vital: bool,
        probe: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Check {
        Check { is_vital, probe: Arc::new(move || vec![(name.to_owned(), probe().into())]) }
    }
}

/// The three endpoints: their paths without the slash.
pub(super) const ENDPOINTS: [&str; 3] = ["livez", "readyz", "healthz"];

/// Whether the request has `?verbose` or `?exclude`, whose response names checks.
pub(super) fn wants_details(query: &Query) -> bool {
    ["verbose", "exclude"].iter().any(|key| query.get(key).is_some())
}

/// Runs the checks of an endpoint and returns all results. `draining`: the process is shutting down.
fn results(endpoint: &str, checks: &[Check], draining: bool) -> Vec<Checked> {
    let mut results: Vec<Checked> = vec![("ping".to_owned(), Readiness::Ready)];
    let selected = checks.iter().filter(|check| endpoint != "livez" || check.is_vital);
    results.extend(selected.flat_map(|check| (check.probe)()));
    if endpoint == "readyz" {
        let shutdown =
            if draining { Readiness::NotReady("the process is shutting down".to_owned()) } else { Readiness::Ready };
        results.push(("shutdown".to_owned(), shutdown));
    }
    results
}

/// Whether all checks of an endpoint succeed; the log names those that do not. `draining`: the process is shutting
/// down.
pub(super) fn is_well(endpoint: &str, checks: &[Check], draining: bool) -> bool {
    let mut is_well = true;
    for (check, result) in results(endpoint, checks, draining) {
        if let Readiness::NotReady(reason) = result {
            is_well = false;
            log(endpoint, &check, &reason);
        }
    }
    is_well
}

/// If a check fails again within this time, that is logged at level debug only. Otherwise clients could fill the log
/// with many requests.
const LOGGED_FOR: Duration = Duration::from_secs(1);

/// Logs a failed check: as a warning at most once in [`LOGGED_FOR`], otherwise at level debug.
fn log(endpoint: &str, check: &str, reason: &str) {
    static LOGGED: Mutex<BTreeMap<String, Instant>> = Mutex::new(BTreeMap::new());
    let now = Instant::now();
    let mut logged = LOGGED.lock().unwrap_or_else(PoisonError::into_inner);
    logged.retain(|_, at| now.saturating_duration_since(*at) < LOGGED_FOR);
    if logged.contains_key(check) {
        tracing::debug!(endpoint, check, reason, "health check failed");
    } else {
        logged.insert(check.to_owned(), now);
        tracing::warn!(endpoint, check, reason, "health check failed");
    }
}

/// The response of `endpoint` without details: only whether it is well.
pub(super) fn plain(endpoint: &str, is_well: bool) -> Response<Body> {
    if is_well {
        text(StatusCode::OK, "ok".to_owned())
    } else {
        text(StatusCode::INTERNAL_SERVER_ERROR, format!("{endpoint} check failed\n"))
    }
}

/// The response of an endpoint with the names of its checks, if they are requested or one of them fails. `single`:
/// respond for the check of this name only, with 404 if there is none. A check that is loading or unavailable does not
/// make the endpoint fail, but its own response is 500. `draining`: the process is shutting down.
pub(super) fn answer(
    endpoint: &'static str,
    single: Option<&str>,
    query: &Query,
    checks: &[Check],
    draining: bool,
) -> Response<Body> {
    let results = results(endpoint, checks, draining);
    if let Some(single) = single {
        return match results.iter().find(|(name, _)| name == single) {
            Some((_, Readiness::Ready)) => with_type(Response::new(Body::whole("ok")), "text/plain; charset=utf-8"),
            Some((name, Readiness::Unavailable(reason) | Readiness::Loading(reason) | Readiness::NotReady(reason))) => {
                log(endpoint, name, reason);
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
            Readiness::Ready => writeln!(lines, "[+]{name} ok"),
            Readiness::Unavailable(_) => {
                writeln!(lines, "[!]{name} unavailable (not required): reason withheld")
            }
            Readiness::Loading(_) => writeln!(lines, "[!]{name} loading (not required): reason withheld"),
            Readiness::NotReady(reason) => {
                failed = true;
                log(endpoint, name, reason);
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

/// A plain text response.
fn text(code: StatusCode, body: String) -> Response<Body> {
    let mut response = with_type(Response::new(Body::whole(body)), "text/plain; charset=utf-8");
    *response.status_mut() = code;
    let nosniff = HeaderName::from_static("x-content-type-options");
    response.headers_mut().insert(nosniff, HeaderValue::from_static("nosniff"));
    response
}
