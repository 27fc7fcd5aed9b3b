//! What a reader learns whose state was let go, because readers held too much of past states; see `store::pins`.

use super::api_error::ApiError;

/// Logs it. Each reader is logged once; it has to begin again.
pub(crate) fn warn() {
    tracing::warn!("a reader was too slow while much has changed: the state that it began with was let go");
}

/// Logs it; what a list or a watch of this state answers.
pub(crate) fn let_go() -> ApiError {
    warn();
    let message = "the state that this request began with was let go: it was read too slowly while much has changed";
    ApiError::Expired { message: message.to_owned(), continue_token: None }
}
