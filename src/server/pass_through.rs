//! `--pass-through`: the kinds of requests that may be forwarded to the API server. `forward_policy` decides about
//! each request.

/// The requests that are forwarded if they are not answered here.
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

/// Subresources that lead into a workload.
pub(super) const REFUSED: [&str; 4] = ["attach", "exec", "portforward", "proxy"];

/// Reviews about the caller itself, with the verb create: its permissions and its name. The API server stores nothing
/// of them. `kubectl auth` and programs that show a cluster send them before anything else.
const QUESTIONS: [(&str, &str); 3] = [
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
];

/// Kubernetes' verbs that read.
const READING: [&str; 3] = ["get", "list", "watch"];

impl PassThrough {
    /// Whether a verb of a resource or subresource of this group can be used.
    pub(super) fn offers_verb(self, group: &str, resource: &str, verb: &str) -> bool {
        let is_question = || verb == "create" && self != PassThrough::Off && is_question(group, resource);
        self == PassThrough::All || READING.contains(&verb) || is_question()
    }

    /// Whether a subresource can be reached.
    pub(super) fn offers_subresource(self, name: &str) -> bool {
        self != PassThrough::Off && !REFUSED.contains(&name)
    }
}

/// Whether a resource is a review, which is not stored.
pub(super) fn is_question(group: &str, resource: &str) -> bool {
    QUESTIONS.contains(&(group, resource))
}
