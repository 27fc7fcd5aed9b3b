//! How an evaluation fails.

/// Why an expression has no value for an object. `&&`, `||` and the macros absorb it if another operand decides.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// A field or key is absent.
    #[error("no such key: {0}")]
    NoSuchKey(String),
    /// Values do not have the types that an operator or function needs.
    #[error("no such overload")]
    NoSuchOverload,
    /// An index of a list is too large or negative.
    #[error("index out of bounds: {0}")]
    OutOfBounds(i64),
    /// Division by zero.
    #[error("division by zero")]
    DivisionByZero,
    /// Remainder of a division by zero.
    #[error("modulus by zero")]
    ModulusByZero,
    /// A result is outside of the range of its type.
    #[error("{0} overflow")]
    Overflow(&'static str),
    /// Another error, with its text.
    #[error("{0}")]
    Other(String),
}

/// The end of an evaluation without a value.
#[derive(Debug)]
pub(super) enum Failure {
    /// An error of this part of the expression.
    Error(EvalError),
    /// The whole evaluation costs too much. Nothing absorbs it.
    Over,
}

impl From<EvalError> for Failure {
    fn from(error: EvalError) -> Failure {
        Failure::Error(error)
    }
}

/// The failure of a function whose arguments do not have the right types.
pub(super) fn no_overload<T>() -> Result<T, Failure> {
    Err(EvalError::NoSuchOverload.into())
}

/// A failure with a text of its own.
pub(super) fn other<T>(message: impl Into<String>) -> Result<T, Failure> {
    Err(EvalError::Other(message.into()).into())
}
