//! The architecture as a test.
