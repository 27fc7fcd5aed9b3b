//! Where the scheduler of this version is known to err, so that our verdict is another one: each with its reason.
//!
//! A difference is no excuse. The question is changed to what the scheduler reads, and then our verdict must be equal.

use e2e::placement::Question;
use serde_json::{Value, json};

use super::documents::each_pod_term;

/// A known error of the scheduler.
pub(crate) struct Difference {
    pub(crate) name: &'static str,
    /// Changes the question to what the scheduler reads; false if the difference does not concern it.
    misread: fn(&mut Question) -> bool,
}

/// All of them.
pub(crate) static ALL: [Difference; 1] = [Difference {
    // kubernetes/kubernetes#141526, in 1.34 to 1.36. The namespaces that a term of the reviewed Pod selects are looked
    // up and added to those it names. The selector stays beside them and is compared with no labels at all. One that
    // only excludes holds there.
    name: "a namespaceSelector that only excludes covers what it excludes",
    misread: |question| {
        let mut is_concerned = false;
        for pod in &mut question.reviewed {
            each_pod_term(pod, |_, term| {
                if only_excludes(&term["namespaceSelector"]) {
                    term["namespaceSelector"] = json!({});
                    is_concerned = true;
                }
            });
        }
        is_concerned
    },
}];

fn only_excludes(selector: &Value) -> bool {
    let names_labels = selector["matchLabels"].as_object().is_some_and(|labels| !labels.is_empty());
    let expressions = selector["matchExpressions"].as_array().map_or(&[][..], |expressions| expressions);
    let excludes = |one: &Value| one["operator"] == "NotIn" || one["operator"] == "DoesNotExist";
    !names_labels && !expressions.is_empty() && expressions.iter().all(excludes)
}

/// The known error that concerns a question, and the question as the scheduler reads it.
pub(crate) fn find(question: &Question) -> Option<(&'static Difference, Question)> {
    ALL.iter().find_map(|difference| {
        let mut misread = question.clone();
        (difference.misread)(&mut misread).then_some((difference, misread))
    })
}
