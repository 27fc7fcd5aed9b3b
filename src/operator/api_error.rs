//! Errors of the API server as text: the message without the structure around it, logged once and not at each retry.

use kube::runtime::watcher;

/// The message of an error response of the API server; for other errors, their text and that of their causes.
pub fn described(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error { status.message.clone() } else { with_causes(error) }
}

/// Describes the error of a watch.
pub fn described_watch(error: &watcher::Error) -> String {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => described(error),
        watcher::Error::WatchError(status) => status.message.clone(),
        watcher::Error::NoResourceVersion => error.to_string(),
    }
}

/// An error and its causes, without causes that repeat it.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        cause = error.source();
    }
    text
}

/// The problem that was logged last, so that retries do not log it again.
#[derive(Debug, Default)]
pub struct LastProblem(Option<String>);

impl LastProblem {
    /// Records a problem. Returns whether it differs from the last one, and must be logged.
    pub fn record_if_new(&mut self, problem: &str) -> bool {
        let is_new = self.0.as_deref() != Some(problem);
        if is_new {
            self.0 = Some(problem.to_owned());
        }
        is_new
    }

    /// Forgets the problem after a success.
    pub fn forget(&mut self) {
        self.0 = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_described_by_its_message_alone() {
        let status = || {
            Box::new(kube::core::Status { code: 403, ..kube::core::Status::failure("pods is forbidden", "Forbidden") })
        };
        assert_eq!(described(&kube::Error::Api(status())), "pods is forbidden");
        let failed = watcher::Error::InitialListFailed(kube::Error::Api(status()));
        assert_eq!(described_watch(&failed), "pods is forbidden");
        assert_eq!(described_watch(&watcher::Error::WatchError(status())), "pods is forbidden");
    }

    #[test]
    fn a_problem_is_new_once() {
        let mut logged = LastProblem::default();
        assert_eq!(["a", "a", "b", "a"].map(|problem| logged.record_if_new(problem)), [true, false, true, true]);
        logged.forget();
        assert!(logged.record_if_new("a"), "it had gone");
    }
}
