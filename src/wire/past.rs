//! The error for a reader whose state was revoked, because readers held too much of past states; see `store::pins`.

use super::api_error::ApiError;

/// Logs that a client lost its snapshot. The caller ends the list or watch, and calls this once for it.
pub(crate) fn warn_of_revoked_reader() {
    tracing::warn!(
        "ended a list or watch and released its snapshot, because its client read too slowly while many objects changed"
    );
}

/// Logs that a client lost its snapshot, and returns the error for its request: 410 with reason Expired.
pub(crate) fn revoked_error() -> ApiError {
    warn_of_revoked_reader();
    let message = "the client read the response too slowly while many objects changed, so its snapshot was released: send the request again";
    ApiError::Expired { message: message.to_owned(), continue_token: None }
}
