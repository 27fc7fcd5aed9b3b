//! How an evaluation fails.

/// Why an expression has no value for an object. `&&`, `||`, `all` and `exists` ignore the error of an operand if
/// another operand or element decides.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// A field or key is absent.
    #[error("no such key: {0}")]
    NoSuchKey(String),
    /// The operator or function has no overload for the types of its arguments.
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

/// Why a part of an expression has no value.
#[derive(Debug)]
pub(super) enum Failure {
    /// An error of this part of the expression. The part around it can ignore the error: see [`EvalError`].
    Error(EvalError),
    /// The evaluation exceeds its limit of cost, time or memory. It ends the whole evaluation.
    Over,
}

impl From<EvalError> for Failure {
    fn from(error: EvalError) -> Failure {
        Failure::Error(error)
    }
}

/// The failure of an operator or function without an overload for the types of its arguments.
pub(super) fn no_overload<T>() -> Result<T, Failure> {
    Err(EvalError::NoSuchOverload.into())
}

/// A failure with a text: [`EvalError::Other`].
pub(super) fn other<T>(message: impl Into<String>) -> Result<T, Failure> {
    Err(EvalError::Other(message.into()).into())
}
