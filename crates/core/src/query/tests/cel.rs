//! Lists by CEL expressions, compared with the evaluation of every object.

use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::{Just, Strategy, prop_oneof};
use proptest::{collection, option, prop_assert, prop_assert_eq, proptest, sample};
use serde_json::{Value, json};

use super::names;
use crate::cel::{CelProgram, CelType};
use crate::crd::Crd;
use crate::extract::Extractor;
use crate::model::Version;
use crate::query::{CelFilter, Listing, Selection, State};
use crate::selector::LabelSelector;
use crate::store::{HistoryLimits, Store};

fn extractor() -> Extractor {
    let crd = Crd::read(&json!({
        "metadata": {"name": "shirts.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "shirts", "kind": "Shirt"}, "versions": [{
            "name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {
                "color": {"type": "string"}, "size": {"type": "integer"}, "branded": {"type": "boolean"}}}}}},
            "selectableFields": [{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.size"}, {"jsonPath": ".spec.branded"}],
        }]},
    }))
    .unwrap();
    Extractor::custom_resource(&crd, "v1")
}

/// Members of spec and a label. Some are absent, null or empty. Their types are those of the schema, as the index relies on.
fn objects() -> impl Strategy<Value = Vec<Value>> {
    let of = |values: Vec<Value>| option::of(sample::select(values));
    let color = of(vec![json!("blue"), json!("black"), json!(""), json!(null), json!("red")]);
    let size = of(vec![json!(5), json!(-3), json!(100), json!(null)]);
    let branded = of(vec![json!(true), json!(false)]);
    let app = of(vec![json!("shop"), json!("")]);
    let object = (sample::select(vec!["a", "b"]), color, size, branded, app).prop_map(
        |(namespace, color, size, branded, app)| {
            let mut spec = json!({});
            for (key, value) in [("color", color), ("size", size), ("branded", branded)] {
                if let Some(value) = value {
                    spec[key] = value;
                }
            }
            let labels = app.map_or(json!({}), |app| json!({ "app": app }));
            json!({"metadata": {"namespace": namespace, "labels": labels}, "spec": spec})
        },
    );
    collection::vec(object, 1..20)
}

fn expressions() -> impl Strategy<Value = String> {
    let leaf = sample::select(vec![
        "self.spec.color == 'blue'",
        "self.spec.color != 'blue'",
        "'red' != self.spec.color",
        "self.spec.color in ['blue', '']",
        "self.spec.color == ''",
        "self.spec.color.startsWith('bl')",
        "self.spec.color == self.metadata.name",
        "has(self.spec.color)",
        "self.spec.size == 5",
        "self.spec.size > 4",
        "self.spec.size <= -3",
        "5 >= self.spec.size",
        "has(self.spec.size)",
        "self.spec.branded",
        "self.spec.branded == false",
        "'app' in self.metadata.labels",
        "self.metadata.labels['app'] == 'shop'",
        "self.metadata.labels.app != 'shop'",
        "self.metadata.namespace == 'a'",
        "self.metadata.name.startsWith('n1')",
        "self.metadata.name in ['n1', 'n2', 'n3']",
        "true",
        "false",
    ])
    .prop_map(str::to_owned);
    leaf.prop_recursive(4, 16, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|inner| format!("!({inner})")),
            (inner.clone(), inner.clone(), sample::select(vec!["&&", "||"]))
                .prop_map(|(left, right, operator)| format!("({left}) {operator} ({right})")),
            (inner.clone(), inner.clone(), inner).prop_map(|(test, yes, no)| format!("({test}) ? ({yes}) : ({no})")),
        ]
    })
}

proptest! {
    #[test]
    fn planned_expressions_equal_an_evaluation_of_every_object(
        objects in objects(),
        expression in expressions(),
        labels in prop_oneof![3 => Just(""), 1 => Just("app=shop")],
        namespace in option::weighted(0.2, Just("a")),
    ) {
        let extractor = extractor();
        let mut store = Store::new(HistoryLimits::default()).with_integers(extractor.integers().collect());
        store.replace(&[], Version::new(1));
        let program = CelProgram::compile(&expression, &Arc::new(CelType::Dyn)).unwrap();
        let (mut expected, mut failed) = (Vec::new(), 0);
        for (number, mut object) in (2u64..).zip(objects) {
            object["metadata"]["name"] = format!("n{number}").into();
            object["metadata"]["resourceVersion"] = number.to_string().into();
            let bytes = Bytes::from(object.to_string());
            store.apply(&extractor.extract(bytes.clone()).unwrap());
            let is_other = labels == "app=shop" && object["metadata"]["labels"]["app"] != "shop"
                || namespace.is_some_and(|namespace| object["metadata"]["namespace"] != namespace);
            if is_other {
                continue;
            }
            match program.evaluate(&bytes, u64::MAX).result {
                Ok(true) => expected.push(format!("{}/n{number}", object["metadata"]["namespace"].as_str().unwrap())),
                Ok(false) => {}
                Err(_) => failed += 1,
            }
        }
        expected.sort();
        let filter = Arc::new(CelFilter::new(&expression, &extractor, true).unwrap());
        let selection = Selection {
            namespace: namespace.map(str::to_owned),
            labels: LabelSelector::parse(labels).unwrap(),
            cel: Some(filter.clone()),
            ..Selection::default()
        };
        let found = names(Listing::new(State::current(store.snapshot()), &selection, None));
        prop_assert_eq!(found, expected, "{}", expression);
        // Only objects that are evaluated can be counted: the index excludes others.
        let counted = filter.result().unwrap().map_or(0, |failed| failed.count);
        prop_assert!(counted <= failed, "{}: {} of {}", expression, counted, failed);
        if !filter.is_indexed() {
            prop_assert_eq!(counted, failed, "{}", expression);
        }
    }
}
