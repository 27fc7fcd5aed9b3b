//! What the catalogs of Views take.

use std::sync::Arc;

use allocation_counter::measure;
use serde_json::json;

use super::{catalog, resource};
use crate::extract::extra::{FieldRequest, TargetResource, accept};
use crate::extract::{Extractor, Prune};
use crate::registry::documents::StaticDocuments;
use crate::registry::views::{ViewDefinition, ViewPart};
use crate::registry::{Registry, Resource, ViewState};

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
