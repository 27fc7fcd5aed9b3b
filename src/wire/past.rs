//! The error for a reader whose state was revoked, because readers held too much of past states; see `store::pins`.

use super::api_error::ApiError;

/// Logs a revoked reader, once for each; it has to begin again.
pub(crate) fn warn() {
    tracing::warn!(
        "a list or watch was ended, because it was read too slowly while much changed: its snapshot was released"
    );
}

/// Logs a revoked reader, and returns the error for its request.
pub(crate) fn let_go() -> ApiError {
    warn();
    let message = "the snapshot of this request was released, because it was read too slowly while much changed: send the request again";
    ApiError::Expired { message: message.to_owned(), continue_token: None }
}
