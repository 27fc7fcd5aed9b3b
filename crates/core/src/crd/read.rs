//! Reads a [`Crd`] from JSON. Checks only the JSON types of most fields, and that required fields are not empty: API
//! servers check the rest, and `extract::validation` the selectable fields.

use std::cmp::Reverse;

use serde_json::{Map, Value};

use super::{Crd, CrdNames, CrdVersion, Malformed, PrinterColumn, Schema};
use crate::model::Scope;

/// Reads a CustomResourceDefinition.
pub(super) fn crd(document: &Value) -> Result<Crd, Malformed> {
    let root = Node { value: document, path: String::new() };
    let metadata = root.child("metadata");
    let spec = root.child("spec");
    if !spec.value.is_object() {
        return Err(spec.malformed("an object"));
    }
    let group = spec.child("group").required_string()?;
    let names_node = spec.child("names");
    let plural = names_node.child("plural").required_string()?;
    let kind = names_node.child("kind").required_string()?;
    let names = CrdNames {
        singular: names_node.child("singular").string()?.unwrap_or_else(|| kind.to_lowercase()),
        list_kind: names_node.child("listKind").string()?.unwrap_or_else(|| format!("{kind}List")),
        short_names: names_node.child("shortNames").strings()?.into(),
        categories: names_node.child("categories").strings()?.into(),
        plural,
        kind,
    };
    let scope_node = spec.child("scope");
    let scope = match scope_node.required_string()?.as_str() {
        "Namespaced" => Scope::Namespaced,
        "Cluster" => Scope::Cluster,
        _ => return Err(scope_node.malformed("\"Namespaced\" or \"Cluster\"")),
    };
    let mut versions =
        spec.child("versions").items()?.into_iter().map(|node| version(&node)).collect::<Result<Vec<_>, _>>()?;
    add_deprecation_warnings(&mut versions, &group, &names.kind);
    let strategy = spec.child("conversion").child("strategy").string()?;
    let established = root
        .child("status")
        .child("conditions")
        .items()?
        .iter()
        .any(|condition| condition.value["type"] == "Established" && condition.value["status"] == "True");
    Ok(Crd {
        name: match metadata.child("name").string()? {
            Some(name) => name,
            None => format!("{}.{}", names.plural, group),
        },
        uid: metadata.child("uid").string()?.unwrap_or_default(),
        generation: metadata.child("generation").integer("a 64-bit integer")?,
        group,
        names,
        scope,
        versions,
        converts_by_renaming: strategy.is_none_or(|strategy| strategy == "None"),
        preserve_unknown_fields: spec.child("preserveUnknownFields").boolean()?,
        established,
    })
}

/// Reads an entry of `spec.versions`.
fn version(node: &Node<'_>) -> Result<CrdVersion, Malformed> {
    let name = node.child("name").required_string()?;
    let deprecated = node.child("deprecated").boolean()?;
    let schema = node.child("schema");
    let subresources = node.child("subresources");
    Ok(CrdVersion {
        served: node.child("served").boolean()?,
        storage: node.child("storage").boolean()?,
        // `add_deprecation_warnings` replaces an empty warning by upstream's.
        deprecation_warning: match (deprecated, node.child("deprecationWarning").string()?) {
            (true, own) => Some(own.unwrap_or_default()),
            (false, _) => None,
        },
        has_schema_field: !schema.value.is_null(),
        schema: schema.child("openAPIV3Schema").optional_object()?.map(Schema::from_object),
        has_status: subresources.child("status").value.is_object(),
        scale: subresources.child("scale").optional_object()?.map(|object| Value::Object(object.clone())),
        printer_columns: node
            .child("additionalPrinterColumns")
            .items()?
            .iter()
            .map(column)
            .collect::<Result<_, _>>()?,
        selectable_fields: node
            .child("selectableFields")
            .items()?
            .iter()
            .map(|entry| match entry.value {
                Value::Object(_) | Value::Null => Ok(entry.child("jsonPath").string()?.unwrap_or_default()),
                Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                    Err(entry.malformed("an object"))
                }
            })
            .collect::<Result<_, _>>()?,
        name,
    })
}

/// Sets upstream's warning for deprecated versions whose warning is empty. It recommends the preferred version that is
/// served and not deprecated, if that is newer (apiextensions `customresource_handler.go`, defaultDeprecationWarning).
fn add_deprecation_warnings(versions: &mut [CrdVersion], group: &str, kind: &str) {
    let mut better: Vec<String> = versions
        .iter()
        .filter(|version| version.served && version.deprecation_warning.is_none())
        .map(|version| version.name.clone())
        .collect();
    better.sort_by_key(|name| Reverse(version_priority(name)));
    for version in versions {
        if version.deprecation_warning.as_deref() != Some("") {
            continue;
        }
        let mut text = format!("{group}/{} {kind} is deprecated", version.name);
        if let Some(best) = better.first().filter(|best| version_priority(best) > version_priority(&version.name)) {
            text.push_str(&format!("; use {group}/{best} {kind}"));
        }
        version.deprecation_warning = Some(text);
    }
}

/// Reads an entry of `additionalPrinterColumns`.
fn column(node: &Node<'_>) -> Result<PrinterColumn, Malformed> {
    Ok(PrinterColumn {
        name: node.child("name").required_string()?,
        kind: node.child("type").required_string()?,
        format: node.child("format").string()?.unwrap_or_default(),
        description: node.child("description").string()?.unwrap_or_default(),
        priority: node.child("priority").integer::<i32>("a 32-bit integer")?.into(),
        json_path: node.child("jsonPath").required_string()?,
    })
}

/// The sort key of [`super::version_priority`].
pub(super) fn version_priority(name: &str) -> (u8, u64, u64, Reverse<String>) {
    let parsed = (|| {
        let rest = name.strip_prefix('v')?;
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let major = number(&rest[..digits])?;
        let tail = &rest[digits..];
        if tail.is_empty() {
            return Some((3, major, 0));
        }
        let (rank, minor) = match (tail.strip_prefix("beta"), tail.strip_prefix("alpha")) {
            (Some(minor), _) => (2, minor),
            (_, Some(minor)) => (1, minor),
            _ => return None,
        };
        Some((rank, major, number(minor)?))
    })();
    match parsed {
        Some((rank, major, minor)) => (rank, major, minor, Reverse(String::new())),
        None => (0, 0, 0, Reverse(name.to_owned())),
    }
}

/// A version number of digits without a leading zero, as in apimachinery's regular expression. `None` for other texts.
fn number(text: &str) -> Option<u64> {
    if text.starts_with('0') || text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// A value in a document, with its path for messages. A missing value is null.
struct Node<'a> {
    value: &'a Value,
    path: String,
}

impl<'a> Node<'a> {
    /// The member of this name; null if it is missing.
    fn child(&self, name: &str) -> Node<'a> {
        let path = if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) };
        Node { value: self.value.get(name).unwrap_or(&Value::Null), path }
    }

    /// The elements of a list; none for null.
    fn items(&self) -> Result<Vec<Node<'a>>, Malformed> {
        match self.value {
            Value::Null => Ok(Vec::new()),
            Value::Array(items) => Ok(items
                .iter()
                .enumerate()
                .map(|(index, value)| Node { value, path: format!("{}[{index}]", self.path) })
                .collect()),
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => Err(self.malformed("a list")),
        }
    }

    /// The elements of a list of non-empty strings; none for null.
    fn strings(&self) -> Result<Vec<String>, Malformed> {
        self.items()?.iter().map(Node::required_string).collect()
    }

    /// The value as a string; `None` for null.
    fn string(&self) -> Result<Option<String>, Malformed> {
        match self.value {
            Value::Null => Ok(None),
            Value::String(text) => Ok(Some(text.clone())),
            Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => Err(self.malformed("a string")),
        }
    }

    /// The value as a string that is not empty.
    fn required_string(&self) -> Result<String, Malformed> {
        match self.string()? {
            Some(text) if !text.is_empty() => Ok(text),
            _ => Err(self.malformed("a non-empty string")),
        }
    }

    /// The value as a boolean; false for null.
    fn boolean(&self) -> Result<bool, Malformed> {
        match self.value {
            Value::Null => Ok(false),
            Value::Bool(value) => Ok(*value),
            Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
                Err(self.malformed("a boolean"))
            }
        }
    }

    /// The value as an integer; 0 for null. `expected` is its type, for the error.
    fn integer<N: TryFrom<i64> + Default>(&self, expected: &str) -> Result<N, Malformed> {
        if self.value.is_null() {
            return Ok(N::default());
        }
        let number = self.value.as_i64().and_then(|number| N::try_from(number).ok());
        number.ok_or_else(|| self.malformed(expected))
    }

    /// The members of an object; `None` for null.
    fn optional_object(&self) -> Result<Option<&'a Map<String, Value>>, Malformed> {
        match self.value {
            Value::Null => Ok(None),
            Value::Object(object) => Ok(Some(object)),
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Err(self.malformed("an object")),
        }
    }

    /// The error for a value that is not what `expected` says, such as `a list`.
    fn malformed(&self, expected: &str) -> Malformed {
        let found = match self.value {
            Value::Null => "nothing",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::String(text) if text.is_empty() => "an empty string",
            Value::String(_) => "a string",
            Value::Array(_) => "a list",
            Value::Object(_) => "an object",
        };
        Malformed { path: self.path.clone(), problem: format!("expected {expected}, found {found}") }
    }
}
