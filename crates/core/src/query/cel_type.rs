//! The type of a resource's objects in expressions, out of their schema.
//!
//! The types of built-in kinds are made once. Those of CustomResourceDefinitions are made for each expression: their
//! authors decide how large they are, and a schema is read in a few milliseconds.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::builtin::schemas;
use crate::cel::CelType;
use crate::extract::{BuiltInName, Extractor, ObjectSchema};

/// The types of built-in kinds. There are no more than such kinds.
static BUILT_IN: Mutex<BTreeMap<BuiltInName, Arc<CelType>>> = Mutex::new(BTreeMap::new());

/// The type of the objects of a resource; dynamic if their schema is not known.
pub(super) fn of_objects(extractor: &Extractor) -> Arc<CelType> {
    match extractor.schema() {
        ObjectSchema::Unknown => Arc::new(CelType::Dyn),
        ObjectSchema::Custom(schema) => Arc::new(CelType::of_resource(&schema.to_value())),
        ObjectSchema::BuiltIn(name) => of_built_in(name),
    }
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
