//! One CustomResourceDefinition that both validate, and what both may answer.

use e2e::fixtures;
use serde_json::{Value, json};

/// One definition.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    /// What is special about it.
    pub(crate) title: String,
    /// The whole document.
    pub(crate) definition: Value,
    /// What has to come out.
    pub(crate) expectation: Expectation,
}

/// How the two answers relate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expectation {
    /// Accepted by both without a warning of ours, or refused by both with the same causes in the same order.
    Equal,
    /// The API server is known to be wrong.
    Defect(Defect),
}

/// What current API servers get wrong. These are all the differences that are allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Defect {
    /// The same fields in all versions, different schemas: refused upstream.
    EqualFields,
    /// The same schema in all versions, different fields: refused upstream.
    EqualSchemas,
    /// Accepted, but the path cannot be evaluated: lists are empty.
    RunTime,
    /// The server's validation panics and the connection is closed.
    Crash,
}

impl Defect {
    /// The defect in a sentence, for the printed list.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Defect::EqualFields => {
                "equal selectableFields are moved to the top level while different schemas are not \
                 (kubernetes/kubernetes#140689); refused upstream, accepted with a warning here"
            }
            Defect::EqualSchemas => {
                "an equal schema is moved to the top level while different selectableFields are not \
                 (kubernetes/kubernetes#140689); refused upstream, accepted with a warning here"
            }
            Defect::RunTime => {
                "accepted upstream and then evaluated as a JSONPath template, which fails or reads another key; accepted \
                 with a warning here"
            }
            Defect::Crash => "validation panics upstream and no Status comes; judged with a warning here",
        }
    }
}

impl Case {
    pub(crate) fn new(title: impl Into<String>, definition: Value, expectation: Expectation) -> Case {
        Case { title: title.into(), definition, expectation }
    }
}

/// A definition of these versions with a name that says which case it is.
pub(crate) fn definition(index: usize, versions: &[Value]) -> Value {
    let plural = format!("case{index}s");
    let names = (plural.as_str(), &*format!("case{index}"), &*format!("Case{index}"));
    fixtures::definition("agreement.example.com", "Namespaced", names, versions, &fixtures::no_conversion())
}

/// One version; the first of a definition is the stored one.
pub(crate) fn version(name: &str, is_stored: bool, schema: Option<&Value>, fields: &[Value]) -> Value {
    let mut version = json!({ "name": name, "served": true, "storage": is_stored });
    if let Some(schema) = schema {
        version["schema"] = json!({ "openAPIV3Schema": schema });
    }
    if !fields.is_empty() {
        version["selectableFields"] = fields.into();
    }
    version
}

/// An entry of selectableFields.
pub(crate) fn field(json_path: &str) -> Value {
    json!({ "jsonPath": json_path })
}
