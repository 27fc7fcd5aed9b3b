//! Why a handler has no response: an error, or the pipeline must repeat or forward the request.
//!
//! Only the pipeline repeats and forwards requests. An [`ApiError`] is always sent to the client.

use crate::wire::api_error::ApiError;

/// Why a handler has no response; see the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoResponse {
    /// The response is this error.
    Error(ApiError),
    /// The resource was replaced while the request waited: the pipeline repeats the request with the new resource.
    Retry,
    /// The namespaces of the View changed, so the response would not fit to its version: the pipeline repeats the
    /// request with the new namespaces.
    NamespacesChanged,
    /// The store has not reached the version that a Strong read needs: the pipeline forwards the request.
    Forward,
}

impl NoResponse {
    /// The error for a caller that can neither repeat nor forward the request.
    pub fn into_error(self) -> ApiError {
        match self {
            NoResponse::Error(error) => error,
            NoResponse::Retry => ApiError::Loading("the CRD of the resource has changed".to_owned()),
            NoResponse::NamespacesChanged => {
                ApiError::Loading("the namespaces of the View changed during the request".to_owned())
            }
            NoResponse::Forward => {
                ApiError::Loading("the store has not reached the version of this request".to_owned())
            }
        }
    }
}

impl From<ApiError> for NoResponse {
    fn from(error: ApiError) -> NoResponse {
        NoResponse::Error(error)
    }
}
