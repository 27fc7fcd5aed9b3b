//! Limits of all Views together: which Views are served.

use std::sync::Arc;

use serde_json::json;

use super::super::views;
use super::{block_on, definitions, evaluate_all, field_cache};
use crate::kinds::View;
use crate::model::{Gvr, Scope};
use crate::registry::views::MOST_NAMESPACE_SELECTORS;
use crate::registry::{Definition, ResourceOrigin};

/// New Views do not take the selectors of namespaces from older ones, whatever their names are.
#[test]
fn the_oldest_views_have_the_selectors_of_namespaces() {
    let mut definitions = definitions();
    let namespaces = Definition {
        kind: "Namespace".to_owned(),
        scope: Scope::Cluster,
        origin: ResourceOrigin::BuiltIn,
        extractor: crate::builtin::extractor("", "v1", "Namespace"),
    };
    definitions.resources.insert(Gvr::new("", "v1", "namespaces"), namespaces);
    let definitions = Arc::new(definitions);
    let caches = [("shirts.stable.example.com", "stable.example.com", "shirts"), ("namespaces", "", "namespaces")];
    let caches = caches.map(|(name, group, resource)| field_cache(name, json!({"group": group, "resource": resource})));
    let results = Arc::new(evaluate_all(&caches, &definitions));
    let view = |name: &str, team: usize, created: &str| -> Arc<View> {
        Arc::new(
            serde_json::from_value(json!({
                "apiVersion": "fieldcache.dev/v1alpha1", "kind": "View",
                "metadata": {"name": name, "generation": 1, "creationTimestamp": created},
                "spec": {"resources": [{
                    "group": "stable.example.com", "resource": "shirts",
                    "namespaceSelector": {"matchLabels": {"team": team.to_string()}},
                }]},
            }))
            .unwrap(),
        )
    };
    let mut all = vec![view("z", 0, "2026-01-01T00:00:00Z")];
    all.extend((1..=MOST_NAMESPACE_SELECTORS).map(|team| view(&format!("a{team:04}"), team, "2026-02-01T00:00:00Z")));
    let last = block_on(views::evaluate_all(all, &results, &definitions, None));
    let rejected = last.view_results.iter().filter_map(|(name, result)| Some((name, result.outcome.as_ref().err()?)));
    let rejected: Vec<(&str, &str)> = rejected.map(|(name, problems)| (&**name, problems[0].reason)).collect();
    assert_eq!(rejected, [("a1000", "TooManyNamespaceSelectors")]);
}
