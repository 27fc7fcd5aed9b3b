//! matchLabels and matchExpressions.
