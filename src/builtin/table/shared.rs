//! What rows have in common.

pub(super) const ALL: &[&str] = &["all"];
pub(super) const API_EXTENSIONS: &[&str] = &["api-extensions"];

/// The versions that folder mode serves, as types of k8s-openapi, the preferred one first.
#[cfg(feature = "net")]
macro_rules! served {
    ($($version:path),+) => { &[$(ServedVersion::of::<$version>()),+] };
}

/// The core alone has no types of k8s-openapi.
#[cfg(not(feature = "net"))]
macro_rules! served {
    ($($version:path),+) => {
        &[]
    };
}

pub(super) use served;
