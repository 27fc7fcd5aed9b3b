//! Parses and validates query parameters. The errors about options of lists and watches (400 and 422) come from here,
//! in the order of kube-apiserver.
//!
//! Decoding follows Go's `url.ParseQuery` and apimachinery `runtime/conversion.go`: only the first value of a key
//! is used, and unknown keys are ignored. The rules between options follow apimachinery
//! `apis/meta/internalversion/validation`. Whether a resource has the fields of a field selector is not checked here.

use std::time::Duration;

use crate::model::Version;
use crate::request::{Query, RequestInfo};
use crate::selector::{FieldSelector, LabelSelector};

use super::api_error::{ApiError, OptionFault, OptionProblem};
use crate::model::quote;

/// The maximum number of requirements of a label selector, and of terms of a field selector. The work of a list or an
/// event is proportional to it. The number of values of a requirement is not limited.
pub const MOST_REQUIREMENTS: usize = 1024;

/// The value of the integer parameter `key`; `None` if it is missing.
///
/// # Errors
/// 400 for a value that is not a signed 64-bit integer, with the message of Go's `strconv.ParseInt`.
pub(super) fn integer(query: &Query, key: &str) -> Result<Option<i64>, ApiError> {
    let Some(text) = query.get(key) else { return Ok(None) };
    text.parse().map(Some).map_err(|_| {
        ApiError::BadRequest(format!("strconv.ParseInt: parsing {}: {}", quote(text), number_problem(text)))
    })
}

/// The timeout of a request that is not a watch: the value of the parameter `timeout`, but at most `most`. A missing
/// parameter, 0 and negative values mean `most`.
///
/// # Errors
/// 400 for a value that is not a Go duration.
pub fn timeout(query: &Query, most: Duration) -> Result<Duration, ApiError> {
    let text = query.get("timeout").unwrap_or_default();
    if text.is_empty() {
        return Ok(most);
    }
    match go_duration(text) {
        Ok(duration) if duration.is_zero() => Ok(most),
        Ok(duration) => Ok(duration.min(most)),
        Err(problem) => Err(ApiError::BadRequest(format!("invalid timeout specified in the request URL - {problem}"))),
    }
}

/// The last part of Go's error message for a text that is not a valid 64-bit integer.
fn number_problem(text: &str) -> &'static str {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { "value out of range" } else { "invalid syntax" }
}

/// Checks that a request which is no list of objects has no parameter `sortBy`, which its response would ignore.
///
/// # Errors
/// 400 for the parameter `sortBy`.
pub fn check_not_sorted(query: &Query) -> Result<(), ApiError> {
    match query.get("sortBy") {
        None => Ok(()),
        Some(_) => Err(ApiError::BadRequest(
            "the query parameter sortBy is only allowed in lists of objects: remove it".to_owned(),
        )),
    }
}

/// Checks that a request which is neither a list nor a watch has no CEL expression.
///
/// # Errors
/// 400 for the parameter `celSelector`.
pub fn check_no_cel(query: &Query) -> Result<(), ApiError> {
    match query.get("celSelector") {
        None => Ok(()),
        Some(_) => Err(ApiError::BadRequest(
            "the query parameter celSelector is only supported in lists and watches: remove it".to_owned(),
        )),
    }
}

/// The query parameters that only fieldcache has. An API server would ignore them.
const OWN: [&str; 4] = ["celSelector", "sortBy", "facets", "facetLimit"];

/// Checks that a request which is forwarded to the API server has none of the parameters in `OWN`: a read, or the
/// deletion of a collection. The API server would ignore them, and return or delete other objects.
///
/// # Errors
/// 400 that names the parameter.
pub fn check_forwarded(query: &Query) -> Result<(), ApiError> {
    match OWN.iter().find(|parameter| query.get(parameter).is_some()) {
        None => Ok(()),
        Some(parameter) => {
            let supported = match *parameter {
                "celSelector" => "lists, watches and deletions of collections that fieldcache selects from its store",
                _ => "lists that fieldcache answers from its store",
            };
            Err(ApiError::BadRequest(format!(
                "the query parameter {parameter} is only supported in {supported}, but this request is forwarded to the \
                 API server: remove it"
            )))
        }
    }
}

/// metav1.ListOptions, decoded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListOptions {
    /// labelSelector.
    pub labels: LabelSelector,
    /// fieldSelector.
    pub fields: FieldSelector,
    /// shardSelector, not parsed; empty when unset. kube-apiserver parses it last, after it has checked that the fields
    /// of the field selector exist. So it is parsed with the selection.
    pub shard: String,
    /// celSelector, which only fieldcache has, not compiled; empty when unset.
    pub cel: String,
    /// watch.
    pub watch: bool,
    /// allowWatchBookmarks.
    pub bookmarks: bool,
    /// resourceVersion, not parsed; empty when unset.
    pub version: String,
    /// resourceVersionMatch; empty when unset.
    pub version_match: String,
    /// timeoutSeconds; `None` when unset.
    pub timeout_seconds: Option<i64>,
    /// limit; 0 and less mean that there is no limit.
    pub limit: i64,
    /// continue; empty when unset.
    pub continue_token: String,
    /// sendInitialEvents; `None` when unset.
    pub send_initial_events: Option<bool>,
    /// quiet, which only fieldcache has: whether a watch sends no event for a change that alters nothing that it shows.
    /// `None` when unset.
    pub quiet: Option<bool>,
}

/// The query parameter of [`ListOptions::version_match`].
const MATCH: &str = "resourceVersionMatch";

/// A value of [`MATCH`].
const EXACT: &str = "Exact";

/// A value of [`MATCH`].
const NOT_OLDER_THAN: &str = "NotOlderThan";

impl ListOptions {
    /// Parses the options of a request, sets defaults, and validates them. Errors are found in the order of
    /// kube-apiserver: numbers, label selector, field selector, contradictions.
    ///
    /// # Errors
    /// 400 for options that cannot be parsed, 422 for options that contradict each other.
    pub fn read(request: &RequestInfo) -> Result<ListOptions, ApiError> {
        let query = &request.query;
        let text = |key: &str| query.get(key).unwrap_or_default().to_owned();
        let mut options = ListOptions {
            watch: query.flag("watch"),
            bookmarks: query.flag("allowWatchBookmarks"),
            version: text("resourceVersion"),
            version_match: text(MATCH),
            shard: text("shardSelector"),
            cel: text("celSelector"),
            timeout_seconds: integer(query, "timeoutSeconds")?,
            limit: integer(query, "limit")?.unwrap_or(0),
            continue_token: text("continue"),
            send_initial_events: query.optional_flag("sendInitialEvents"),
            quiet: query.optional_flag("quiet"),
            ..ListOptions::default()
        };
        let bad_request = |error: crate::selector::SelectorError| ApiError::BadRequest(error.message);
        let selector = |key: &str| query.get(key).unwrap_or_default();
        // Authorization has parsed the selectors already, unless they are long, invalid or have many requirements.
        options.labels = match request.selectors().labels.read() {
            Some(labels) => labels.clone(),
            None => LabelSelector::parse_at_most(selector("labelSelector"), MOST_REQUIREMENTS).map_err(bad_request)?,
        };
        options.fields = match request.selectors().fields.read() {
            Some(fields) => fields.clone(),
            None => FieldSelector::parse_at_most(selector("fieldSelector"), MOST_REQUIREMENTS).map_err(bad_request)?,
        };
        options.set_watch_defaults();
        let faults = options.faults();
        if faults.is_empty() { Ok(options) } else { Err(ApiError::InvalidOptions(faults)) }
    }

    /// Sets sendInitialEvents and resourceVersionMatch for a watch without a resourceVersion, or with resourceVersion
    /// 0, so that it begins with initial events (apimachinery `internalversion/defaults.go`).
    fn set_watch_defaults(&mut self) {
        let from_anywhere = self.version.is_empty() || self.version == "0";
        if self.watch && from_anywhere && self.send_initial_events.is_none() && self.version_match.is_empty() {
            self.send_initial_events = Some(true);
            NOT_OLDER_THAN.clone_into(&mut self.version_match);
        }
    }

    /// The errors about options that contradict each other (apimachinery `internalversion/validation`); empty if the
    /// options are valid.
    fn faults(&self) -> Vec<OptionFault> {
        let forbidden =
            |field: &'static str, why: &str| OptionFault { field, problem: OptionProblem::Forbidden(why.to_owned()) };
        let not_supported = |supported: &'static [&'static str]| OptionFault {
            field: MATCH,
            problem: OptionProblem::NotSupported { value: self.version_match.clone(), supported },
        };
        let with_continue = "resourceVersionMatch is forbidden when continue is provided";
        let has_match = !self.version_match.is_empty();
        let mut faults = Vec::new();
        if self.watch {
            if self.send_initial_events.is_some() && !self.is_not_older_than() {
                let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
                faults.push(forbidden(MATCH, why));
            }
            if has_match && self.send_initial_events.is_none() {
                let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
                faults.push(forbidden(MATCH, why));
            }
            if has_match && !self.is_not_older_than() {
                faults.push(not_supported(&[NOT_OLDER_THAN]));
            }
            if has_match && !self.continue_token.is_empty() {
                faults.push(forbidden(MATCH, with_continue));
            }
            return faults;
        }
        if has_match && self.version.is_empty() {
            faults.push(forbidden(MATCH, "resourceVersionMatch is forbidden unless resourceVersion is provided"));
        }
        if has_match && !self.continue_token.is_empty() {
            faults.push(forbidden(MATCH, with_continue));
        }
        if has_match && !self.is_exact() && !self.is_not_older_than() {
            faults.push(not_supported(&[EXACT, NOT_OLDER_THAN, ""]));
        }
        if self.is_exact() && self.version == "0" {
            faults.push(forbidden(MATCH, "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""));
        }
        if self.send_initial_events.is_some() {
            faults.push(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
        }
        faults
    }

    /// Whether the client requests the state at exactly `version`.
    pub fn is_exact(&self) -> bool {
        self.version_match == EXACT
    }

    /// Whether the client explicitly requests a state that is not older than `version`.
    pub fn is_not_older_than(&self) -> bool {
        self.version_match == NOT_OLDER_THAN
    }
}

/// Parses a resourceVersion; `None` if the text is empty.
///
/// # Errors
/// The message of kube-apiserver for an invalid resourceVersion, without a prefix. Callers add the prefix and the
/// status code, which depend on the verb.
pub fn read_version(text: &str) -> Result<Option<Version>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    Version::parse(text).map(Some).ok_or_else(|| {
        let problem = if text.starts_with(['+', '-']) { "invalid syntax" } else { number_problem(text) };
        let quoted = quote(text);
        format!("resourceVersion: Invalid value: {quoted}: strconv.ParseUint: parsing {quoted}: {problem}")
    })
}

/// Parses a duration in the format of Go's `time.ParseDuration`, such as `1m30s` or `500ms`. A negative duration
/// becomes zero.
///
/// # Errors
/// The message of Go's parser for a text that is not a duration.
pub fn go_duration(text: &str) -> Result<Duration, String> {
    let invalid = || format!("time: invalid duration {}", quote(text));
    let negative = text.starts_with('-');
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut seconds = 0f64;
    while !rest.is_empty() {
        let number_ends =
            rest.find(|character: char| !character.is_ascii_digit() && character != '.').unwrap_or(rest.len());
        let number: f64 = rest[..number_ends].parse().map_err(|_| invalid())?;
        rest = &rest[number_ends..];
        let unit_ends =
            rest.find(|character: char| character.is_ascii_digit() || character == '.').unwrap_or(rest.len());
        let unit = &rest[..unit_ends];
        let scale = match unit {
            "" => return Err(format!("time: missing unit in duration {}", quote(text))),
            "ns" => 1e-9,
            "us" | "µs" | "μs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return Err(format!("time: unknown unit {} in duration {}", quote(unit), quote(text))),
        };
        seconds += number * scale;
        rest = &rest[unit_ends..];
    }
    if negative {
        return Ok(Duration::ZERO);
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| invalid())
}
