//! The error for a reader whose state was revoked, because readers held too much of past states; see `store::pins`.

use super::api_error::ApiError;

/// Logs a revoked reader, once for each; it has to begin again.
pub(crate) fn warn() {
    tracing::warn!(
        "ended a list or watch, because its client read too slowly while many objects changed: its snapshot was released"
    );
}

/// Logs a revoked reader, and returns the error for its request.
pub(crate) fn let_go() -> ApiError {
    warn();
    let message = "the client read the response too slowly while many objects changed, so its snapshot was released: send the request again";
    ApiError::Expired { message: message.to_owned(), continue_token: None }
}
