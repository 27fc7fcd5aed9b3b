//! Categories and a macro that the rows share.

/// The categories of kinds that `kubectl get all` shows.
pub(super) const ALL: &[&str] = &["all"];
/// The categories of kinds that extend or configure the API server.
pub(super) const API_EXTENSIONS: &[&str] = &["api-extensions"];

/// A list of `ServedVersion`s, one for each of these types of k8s-openapi.
macro_rules! served {
    ($($version:path),+) => { &[$(ServedVersion::for_type::<$version>()),+] };
}

pub(super) use served;
