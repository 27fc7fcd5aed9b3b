//! Which cluster to read, and the errors when it cannot be used.

use std::path::PathBuf;

/// How to reach a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterOptions {
    /// A kubeconfig file; `None`: `KUBECONFIG`, the home directory's, or the Pod's service account.
    pub kubeconfig: Option<PathBuf>,
    /// A context of the kubeconfig; `None`: the current one.
    pub context: Option<String>,
    /// Another server URL than the kubeconfig's.
    pub server: Option<String>,
}

/// Why a cluster cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// The kubeconfig is missing or wrong.
    #[error(
        "kubeconfig {place}: {cause}; select a valid kubeconfig with --kubeconfig FILE. Commands with the option --dir can read a folder of manifests instead"
    )]
    Kubeconfig {
        /// The file or the search that was used.
        place: String,
        /// What is wrong.
        cause: String,
    },
    /// The client could not be made.
    #[error("cluster {url}: {cause}")]
    Client {
        /// The server URL.
        url: String,
        /// What is wrong.
        cause: String,
    },
}

/// An error and its causes as one line. A cause that is already in the text before it is not repeated.
pub(super) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}
