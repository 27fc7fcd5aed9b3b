//! What the catalogs of Views take.

use std::collections::BTreeMap;
use std::sync::Arc;

use allocation_counter::measure;
use serde_json::json;

use super::{catalog, resource};
use crate::extract::extra::{FieldRequest, TargetResource, accept};
use crate::extract::{Extractor, Prune};
use crate::registry::documents::StaticDocuments;
use crate::registry::view_namespaces::ViewNamespaces;
use crate::registry::views::{MOST_NAMESPACE_SELECTORS, ViewDefinition, ViewPart, views_beyond_selector_limit};
use crate::registry::{Registry, Resource, ViewState};
use crate::selector::{LabelRequirement, LabelSelector, Operator};

fn name(index: usize) -> String {
    format!("f{index:062}")
}

/// A resource with 32 long paths and names, as the author of a FieldCache may name them.
fn pods() -> Arc<Resource> {
    let pods = resource("pods");
    let request = |index: usize| FieldRequest {
        name: name(index),
        json_path: Some(format!("$.spec.a{index}{}", ".a".repeat(30))),
        printer_column: None,
    };
    let requests: Vec<FieldRequest> = (0..32).map(request).collect();
    let fields = accept(&requests, &TargetResource { extractor: &pods.extractor, schema: None, columns: &[] }).fields;
    let plan: Extractor = fields.extend(&pods.extractor).unwrap();
    assert_eq!(plan.fields().len(), pods.extractor.fields().len() + 32);
    Arc::new(Resource { extractor: plan, ..(*pods).clone() })
}

/// The author of a FieldCache could otherwise fill memory with the plans of many Views.
#[test]
fn catalogs_of_many_views_share_the_plans_of_resources() {
    const VIEWS: usize = 200;
    let mut view_catalogs = Vec::with_capacity(1);
    let plan = measure(|| view_catalogs.push(pods()));
    let documents = StaticDocuments::new(Box::new(|| json!({})), []);
    let registry = Registry::new(catalog(&[&view_catalogs[0]]).with_documents(Arc::new(documents)));
    let long = format!(".spec.b{}", ".b".repeat(200));
    let prune = [Prune::default(), Prune::new([".spec.a0.a", &long]).unwrap()].map(Arc::new);
    let view = |number: usize| {
        let part = ViewPart { resource: "pods".to_owned(), prune: prune[number % 2].clone(), ..ViewPart::default() };
        let definition = ViewDefinition { parts: vec![part], ..ViewDefinition::default() };
        (format!("v{number}"), Ok(Arc::new(definition)))
    };
    registry.replace_views((0..VIEWS).map(view).collect());
    let whole = registry.catalog();
    let mut catalogs = Vec::with_capacity(VIEWS);
    let taken = measure(|| {
        for number in 0..VIEWS {
            let Some(ViewState::Served(view)) = registry.view(&format!("v{number}")) else { continue };
            catalogs.push((view.catalog(&whole), view));
        }
    });
    assert_eq!(catalogs.len(), VIEWS);
    assert!(plan.bytes_current > 100_000, "{plan:?}");
    assert!(taken.bytes_current < 4_096 * VIEWS as i64, "{taken:?}");
    for (number, (catalog, _)) in catalogs.iter().enumerate() {
        let shown = catalog.resource(&view_catalogs[0].gvr).unwrap();
        assert_eq!(
            shown.extractor.resolve(&name(0)).is_ok(),
            number % 2 == 0,
            "a field that is left out is not offered"
        );
        assert!(shown.extractor.resolve(&name(1)).is_ok());
    }
}

/// A View of the Pods of the namespaces of a team.
fn view_of_team(team: &str) -> ViewDefinition {
    let requirement = LabelRequirement { key: "team".to_owned(), operator: Operator::equal_to(team) };
    let part = ViewPart {
        resource: "pods".to_owned(),
        namespaces: ViewNamespaces::Selected(LabelSelector { requirements: vec![requirement] }),
        ..ViewPart::default()
    };
    ViewDefinition { parts: vec![part], ..ViewDefinition::default() }
}

#[test]
fn so_many_different_namespace_selectors_are_served() {
    let mut views: BTreeMap<String, ViewDefinition> = (0..=MOST_NAMESPACE_SELECTORS)
        .map(|number| (format!("v{number:04}"), view_of_team(&number.to_string())))
        .collect();
    // A selector of another View.
    views.insert("w".to_owned(), view_of_team("7"));
    assert_eq!(views_beyond_selector_limit(views.iter()), ["v1000"]);
    views.remove("v0000");
    assert_eq!(views_beyond_selector_limit(views.iter()), [""; 0]);
}

#[test]
fn views_with_equal_namespace_selectors_share_them() {
    let of_team = |team: &str| Ok(Arc::new(view_of_team(team)));
    let registry = Registry::new(catalog(&[&resource("pods")]));
    registry.replace_views([("a".to_owned(), of_team("x")), ("b".to_owned(), of_team("y"))].into());
    let selector = |name: &str| match registry.view(name) {
        Some(ViewState::Served(view)) => view.selected_namespaces("", "pods").unwrap().selector().clone(),
        _ => panic!("{name} is not served"),
    };
    let first = selector("a");
    let wanted = [("a", "x"), ("b", "y"), ("c", "x")].map(|(name, team)| (name.to_owned(), of_team(team)));
    registry.replace_views(wanted.into());
    assert!(Arc::ptr_eq(&first, &selector("c")), "also with a View from before");
    assert!(!Arc::ptr_eq(&selector("b"), &selector("c")));
}
