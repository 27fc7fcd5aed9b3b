//! The type of a resource's objects in expressions, out of their schema.
//!
//! The types of built-in kinds are made once. Those of CustomResourceDefinitions that were used last are kept, within a
//! bound: the authors of definitions decide how large they are.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use crate::builtin::schemas;
use crate::cel::CelType;
use crate::crd::Schema;
use crate::extract::{BuiltInName, Extractor, ObjectSchema};

/// The types of built-in kinds. There are no more than such kinds.
static BUILT_IN: Mutex<BTreeMap<BuiltInName, Arc<CelType>>> = Mutex::new(BTreeMap::new());

/// The types of schemas, the one that was used last at the end.
static CUSTOM: Mutex<VecDeque<(Schema, Arc<CelType>)>> = Mutex::new(VecDeque::new());

/// The maximum length of the schemas together whose types are kept, in bytes. A type can take fifteen times as much.
const MOST_KEPT: usize = 2 << 20;

/// The maximum number of schemas whose types are kept.
const MOST_SCHEMAS: usize = 64;

/// The type of the objects of a resource; dynamic if their schema is not known.
pub(super) fn of_objects(extractor: &Extractor) -> Arc<CelType> {
    match extractor.schema() {
        ObjectSchema::Unknown => Arc::new(CelType::Dyn),
        ObjectSchema::Custom(schema) => of_custom(schema),
        ObjectSchema::BuiltIn(name) => of_built_in(name),
    }
}

fn of_custom(schema: &Schema) -> Arc<CelType> {
    let lock = || CUSTOM.lock().unwrap_or_else(PoisonError::into_inner);
    let mut kept = lock();
    // Resources of one state of a definition share the text. A new state has a new text.
    if let Some(index) = kept.iter().position(|(known, _)| Arc::ptr_eq(known.json(), schema.json()))
        && let Some(found) = kept.remove(index)
    {
        let kind = found.1.clone();
        kept.push_back(found);
        return kind;
    }
    drop(kept);
    let made = Arc::new(CelType::of_resource(&schema.to_value()));
    let mut kept = lock();
    kept.push_back((schema.clone(), made.clone()));
    let length =
        |kept: &VecDeque<(Schema, Arc<CelType>)>| kept.iter().map(|(known, _)| known.json().len()).sum::<usize>();
    while kept.len() > MOST_SCHEMAS || length(&kept) > MOST_KEPT {
        kept.pop_front();
    }
    made
}

fn of_built_in(name: &BuiltInName) -> Arc<CelType> {
    let lock = || BUILT_IN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = lock().get(name) {
        return known.clone();
    }
    let schema = schemas::structural_schema(&name.group, &name.version, &name.kind);
    let made = Arc::new(schema.map_or(CelType::Dyn, |schema| CelType::of_resource(&schema)));
    lock().entry(name.clone()).or_insert(made).clone()
}
