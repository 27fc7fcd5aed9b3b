//! One place of a schema, with references followed.
//!
//! Schemas of CustomResourceDefinitions have no references; those of built-in kinds refer to each other. A reference is
//! either `$ref` alone, or `allOf` around a single `$ref`, with a description or a default beside it. [`SchemaNode`]
//! hides this from other files. Nothing is validated here.

use serde_json::{Map, Value};

/// Finds the schema that a `$ref` names; the text is the reference as written, such as
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

/// References that refer to references, at most. Longer chains are a loop.
const MAX_REFERENCES: usize = 16;

/// A schema and, when it refers to another one, that one too. A keyword beside the reference wins.
#[derive(Clone, Copy)]
pub struct SchemaNode<'a> {
    own: &'a Value,
    target: Option<&'a Value>,
    /// The definition's name when there is a reference.
    name: Option<&'a str>,
    resolve: Resolve<'a>,
}

impl<'a> SchemaNode<'a> {
    /// A schema with a function that resolves its references. A broken reference is no restriction.
    pub fn new(schema: &'a Value, resolve: Resolve<'a>) -> SchemaNode<'a> {
        let mut node = SchemaNode { own: schema, target: None, name: None, resolve };
        let mut place = schema;
        for _ in 0..MAX_REFERENCES {
            let Some(reference) = reference(place) else { break };
            node.name.get_or_insert(reference_name(reference));
            let Some(target) = resolve(reference) else { break };
            node.target = Some(target);
            place = target;
        }
        node
    }

    /// The value of a keyword; null counts as absent.
    pub fn get(&self, keyword: &str) -> Option<&'a Value> {
        let hides_all_of = keyword == "allOf" && reference(self.own).is_some();
        let own = self.own.get(keyword).filter(|_| !hides_all_of);
        own.or_else(|| self.target?.get(keyword)).filter(|value| !value.is_null())
    }

    /// The name of the referenced definition, such as `io.k8s.apimachinery.pkg.api.resource.Quantity`.
    pub fn definition(&self) -> Option<&'a str> {
        self.name
    }

    /// Whether a keyword is present and true.
    pub fn is(&self, keyword: &str) -> bool {
        self.get(keyword).and_then(Value::as_bool).unwrap_or(false)
    }

    /// The string of a keyword.
    pub fn text(&self, keyword: &str) -> Option<&'a str> {
        self.get(keyword)?.as_str()
    }

    /// The schemas of `properties`.
    pub fn properties(&self) -> Option<&'a Map<String, Value>> {
        self.get("properties")?.as_object()
    }

    /// The schema of one declared property.
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

    /// The schema of every item of a list.
    pub fn items(&self) -> Option<SchemaNode<'a>> {
        self.get("items").filter(|schema| schema.is_object()).map(|schema| self.child(schema))
    }

    /// The schemas of `allOf`, `anyOf` or `oneOf`.
    pub fn alternatives(&self, keyword: &str) -> Vec<SchemaNode<'a>> {
        let schemas = self.get(keyword).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        schemas.iter().map(|schema| self.child(schema)).collect()
    }

    /// The schema of a part of this one.
    pub fn child(&self, schema: &'a Value) -> SchemaNode<'a> {
        SchemaNode::new(schema, self.resolve)
    }
}

/// `additionalProperties`.
pub enum Additional<'a> {
    /// Absent: structural schemas prune undeclared properties, and validation accepts them.
    Absent,
    /// `true`.
    Anything,
    /// `false`.
    Forbidden,
    /// A schema for each.
    Schema(SchemaNode<'a>),
}

/// The name of the definition that a schema refers to.
fn reference(schema: &Value) -> Option<&str> {
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        return Some(reference);
    }
    match schema.get("allOf").and_then(Value::as_array).map(Vec::as_slice) {
        Some([only]) => only.get("$ref").and_then(Value::as_str),
        _ => None,
    }
}
