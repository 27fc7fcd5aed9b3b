//! The seeded corpora.
