//! The types that CEL expressions have for the objects of a resource, made from their schema.
//!
//! Types are kept, because making one takes as long as reading a schema. The types of built-in kinds are kept for ever.
//! Of the schemas of CustomResourceDefinitions, the types of those that were used last are kept. Their memory is
//! bounded, because the authors of definitions decide how large a schema is.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use crate::builtin::schemas;
use crate::cel::CelType;
use crate::crd::Schema;
use crate::extract::{BuiltInName, Extractor, ObjectSchema};

/// The types of built-in kinds. Their number is bounded by that of the built-in kinds.
static BUILT_IN: Mutex<BTreeMap<BuiltInName, Arc<CelType>>> = Mutex::new(BTreeMap::new());

/// The types of schemas of CustomResourceDefinitions. The one that was used last is at the end.
static CUSTOM: Mutex<VecDeque<(Schema, Arc<CelType>)>> = Mutex::new(VecDeque::new());

/// The maximum length of all schemas in [`CUSTOM`] together, in bytes of JSON. A type can take fifteen times the memory
/// of its schema.
const MOST_KEPT: usize = 2 << 20;

/// The maximum number of schemas in [`CUSTOM`].
const MOST_SCHEMAS: usize = 64;

/// The type of the objects of a resource; [`CelType::Dyn`] if their schema is not known.
pub(super) fn of_objects(extractor: &Extractor) -> Arc<CelType> {
    match extractor.schema() {
        ObjectSchema::Unknown => Arc::new(CelType::Dyn),
        ObjectSchema::Custom(schema) => of_custom(schema),
        ObjectSchema::BuiltIn(name) => of_built_in(name),
    }
}

/// The type of the objects of a schema of a CustomResourceDefinition.
fn of_custom(schema: &Schema) -> Arc<CelType> {
    let lock = || CUSTOM.lock().unwrap_or_else(PoisonError::into_inner);
    let mut kept = lock();
    // Schemas are compared by the address of their text: the resources of one state of a definition share it, and a new
    // state has another one.
    if let Some(index) = kept.iter().position(|(known, _)| Arc::ptr_eq(known.json(), schema.json()))
        && let Some(found) = kept.remove(index)
    {
        let kind = found.1.clone();
        kept.push_back(found);
        return kind;
    }
    // The lock is not held while the type is made. Two requests can make the same type, which is harmless.
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

/// The type of the objects of a built-in kind; dynamic if its schema is not known.
fn of_built_in(name: &BuiltInName) -> Arc<CelType> {
    let lock = || BUILT_IN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = lock().get(name) {
        return known.clone();
    }
    let schema = schemas::structural_schema(&name.group, &name.version, &name.kind);
    let made = Arc::new(schema.map_or(CelType::Dyn, |schema| CelType::of_resource(&schema)));
    lock().entry(name.clone()).or_insert(made).clone()
}
