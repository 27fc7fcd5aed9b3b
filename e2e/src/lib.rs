//! Harness: real components on loopback.
