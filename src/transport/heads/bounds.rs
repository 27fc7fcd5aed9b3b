//! The limits of heads of requests: their bytes, their headers, and their memory.

use http::StatusCode;

use crate::flow_control::user::UserShare;
use crate::transport::head_error::HeadError;

/// The longest head in bytes: Go's `DefaultMaxHeaderBytes`, with the same allowance for its buffer.
pub(crate) const MOST_HEAD: usize = (1 << 20) + 4096;

/// Heads up to this many bytes are passed to hyper whole. Each connection may hold one, without credentials too.
pub(crate) const USUAL_HEAD: usize = (64 << 10) + (14 << 10);

/// The maximum number of headers of a request. Each takes about 256 bytes of memory besides its text.
pub(crate) const MOST_FIELDS: usize = 4096;

/// Takes a share of the memory for long heads. The parameter is the number of bytes.
pub(super) type TakeShare<'t> = &'t mut dyn FnMut(u64) -> Result<UserShare, HeadError>;

/// The approximate memory of a long head, in bytes. `length`: its length; `fields`: the number of its headers.
pub(super) fn memory_of_head(length: usize, fields: usize) -> u64 {
    // The text exists twice: as the bytes that were read, and in the parts that are stored.
    (2 * length + 256 * fields) as u64
}

/// The error for a head that is longer than [`MOST_HEAD`].
pub(super) fn too_long() -> HeadError {
    let message = format!("the URL and the headers of the request have more than {MOST_HEAD} bytes: send less");
    HeadError::Unsupported(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, message)
}
