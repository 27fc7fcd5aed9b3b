//! `--pass-through`: the kinds of requests that may be forwarded to the API server. `forward_policy` decides about
//! each request.

/// The requests that are forwarded if this server cannot answer them itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PassThrough {
    /// No request is forwarded.
    #[default]
    Off,
    /// Reads.
    Read,
    /// Reads and writes.
    All,
}

/// Subresources that open a channel into a workload. They are never forwarded.
pub(super) const WORKLOAD_SUBRESOURCES: [&str; 4] = ["attach", "exec", "portforward", "proxy"];

/// Group and plural name of the reviews about the caller's own identity and permissions. They have only the verb
/// create, and the API server does not store them. `kubectl auth` and user interfaces of clusters send them first.
const SELF_REVIEWS: [(&str, &str); 3] = [
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
];

/// Kubernetes' verbs that read.
const READING: [&str; 3] = ["get", "list", "watch"];

impl PassThrough {
    /// Whether a client can use this verb, here or by forwarding. `resource` is the plural name.
    pub(super) fn offers_verb(self, group: &str, resource: &str, verb: &str) -> bool {
        let is_self_review =
            || verb == "create" && self != PassThrough::Off && is_self_review_resource(group, resource);
        self == PassThrough::All || READING.contains(&verb) || is_self_review()
    }

    /// Whether requests for a subresource of this name can be forwarded.
    pub(super) fn offers_subresource(self, name: &str) -> bool {
        self != PassThrough::Off && !WORKLOAD_SUBRESOURCES.contains(&name)
    }
}

/// Whether a resource is a review about the caller itself, which is not stored. `resource` is the plural name.
pub(super) fn is_self_review_resource(group: &str, resource: &str) -> bool {
    SELF_REVIEWS.contains(&(group, resource))
}
