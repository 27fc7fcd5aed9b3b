//! One place of a schema, with references followed.
//!
//! Schemas of CustomResourceDefinitions have no references; those of built-in kinds refer to each other. A reference is
//! either `$ref` alone, or `allOf` around a single `$ref`, with a description or a default beside it. [`SchemaNode`]
//! hides this from other files. Nothing is validated here.

use serde_json::{Map, Value};

/// Finds the schema that a `$ref` names; `None` if there is none. The argument is the reference as written, such as
/// `#/components/schemas/io.k8s.api.core.v1.PodSpec`.
pub type Resolve<'a> = &'a dyn Fn(&str) -> Option<&'a Value>;

/// A resolver for schemas without references.
pub fn no_references<'a>(_reference: &str) -> Option<&'a Value> {
    None
}

/// The last part of a reference: the name of the definition.
pub fn reference_name(reference: &str) -> &str {
    reference.rsplit('/').next().unwrap_or(reference)
}

/// The maximum number of references that are followed from one schema. Longer chains are a loop.
const MAX_REFERENCES: usize = 16;

/// A schema, with the definition that it refers to, if it refers to one. A keyword of the schema itself takes
/// precedence over the same keyword of the definition.
#[derive(Clone, Copy)]
pub struct SchemaNode<'a> {
    own: &'a Value,
    /// The definition, after following references to references.
    target: Option<&'a Value>,
    /// The name in the first reference.
    name: Option<&'a str>,
    resolve: Resolve<'a>,
}

impl<'a> SchemaNode<'a> {
    /// A schema with a function that resolves its references. A reference that cannot be resolved restricts nothing.
    pub fn new(schema: &'a Value, resolve: Resolve<'a>) -> SchemaNode<'a> {
        let mut node = SchemaNode { own: schema, target: None, name: None, resolve };
        let mut current = schema;
        for _ in 0..MAX_REFERENCES {
            let Some(reference) = reference(current) else { break };
            node.name.get_or_insert(reference_name(reference));
            let Some(target) = resolve(reference) else { break };
            node.target = Some(target);
            current = target;
        }
        node
    }

    /// The value of a keyword; `None` if it is absent or null.
    pub fn get(&self, keyword: &str) -> Option<&'a Value> {
        // The `allOf` around a reference is part of the reference.
        let hides_all_of = keyword == "allOf" && reference(self.own).is_some();
        let own = self.own.get(keyword).filter(|_| !hides_all_of);
        own.or_else(|| self.target?.get(keyword)).filter(|value| !value.is_null())
    }

    /// The name of the referenced definition, such as `io.k8s.apimachinery.pkg.api.resource.Quantity`; `None` without a
    /// reference.
    pub fn definition(&self) -> Option<&'a str> {
        self.name
    }

    /// Whether a keyword is present and true.
    pub fn is(&self, keyword: &str) -> bool {
        self.get(keyword).and_then(Value::as_bool).unwrap_or(false)
    }

    /// The value of a keyword, if it is a string.
    pub fn text(&self, keyword: &str) -> Option<&'a str> {
        self.get(keyword)?.as_str()
    }

    /// The schemas of `properties` by name; `None` if the schema declares no properties.
    pub fn properties(&self) -> Option<&'a Map<String, Value>> {
        self.get("properties")?.as_object()
    }

    /// The schema of a property; `None` if the schema does not declare it.
    pub fn property(&self, name: &str) -> Option<SchemaNode<'a>> {
        self.properties()?.get(name).map(|schema| self.child(schema))
    }

    /// The schema of undeclared properties.
    pub fn additional(&self) -> Additional<'a> {
        match self.get("additionalProperties") {
            None => Additional::Absent,
            Some(Value::Bool(false)) => Additional::Forbidden,
            Some(Value::Object(_)) => self
                .get("additionalProperties")
                .map_or(Additional::Absent, |schema| Additional::Schema(self.child(schema))),
            Some(_) => Additional::Anything,
        }
    }

    /// The schema of the items of a list; `None` if the schema does not restrict them.
    pub fn items(&self) -> Option<SchemaNode<'a>> {
        self.get("items").filter(|schema| schema.is_object()).map(|schema| self.child(schema))
    }

    /// The schemas of the keyword `allOf`, `anyOf` or `oneOf`; none without that keyword.
    pub fn alternatives(&self, keyword: &str) -> Vec<SchemaNode<'a>> {
        let schemas = self.get(keyword).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        schemas.iter().map(|schema| self.child(schema)).collect()
    }

    /// The given schema, which is a part of this one, with the same resolver of references.
    pub fn child(&self, schema: &'a Value) -> SchemaNode<'a> {
        SchemaNode::new(schema, self.resolve)
    }
}

/// The value of `additionalProperties`: what the schema says about undeclared properties.
pub enum Additional<'a> {
    /// Absent: structural schemas prune undeclared properties, and validation accepts them.
    Absent,
    /// `true`.
    Anything,
    /// `false`.
    Forbidden,
    /// A schema for every undeclared property.
    Schema(SchemaNode<'a>),
}

/// The reference of a schema as written: its `$ref`, or the `$ref` of an `allOf` with one element. `None` if it refers
/// to nothing.
fn reference(schema: &Value) -> Option<&str> {
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        return Some(reference);
    }
    match schema.get("allOf").and_then(Value::as_array).map(Vec::as_slice) {
        Some([only]) => only.get("$ref").and_then(Value::as_str),
        _ => None,
    }
}
