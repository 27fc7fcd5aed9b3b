//! Macros that the rows share.

pub(super) const ALL: &[&str] = &["all"];
pub(super) const API_EXTENSIONS: &[&str] = &["api-extensions"];

/// The versions that folder mode serves, as types of k8s-openapi, the preferred one first.
macro_rules! served {
    ($($version:path),+) => { &[$(ServedVersion::for_type::<$version>()),+] };
}

pub(super) use served;
