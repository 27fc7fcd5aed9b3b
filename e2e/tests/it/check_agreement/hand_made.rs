//! Definitions written one by one: the tables of upstream's unit tests, each known defect, and corners no generator would find.

use serde_json::{Value, json};

use super::case::{Case, Defect, Expectation, definition, field, version};

/// All of them, numbered from `first`.
pub(crate) fn cases(first: usize) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |title: &str, versions: Vec<Value>, expectation: Expectation| {
        cases.push(Case::new(title, definition(first + cases.len(), &versions), expectation));
    };
    for (title, paths) in single_lists() {
        let fields: Vec<Value> = paths.iter().map(|path| field(path)).collect();
        add(title, vec![version("v1", true, Some(&schema()), &fields)], Expectation::Equal);
    }
    for (title, versions) in several_versions() {
        add(title, versions, Expectation::Equal);
    }
    for (title, versions, defect) in defects() {
        add(title, versions, Expectation::Defect(defect));
    }
    for mut case in unknown_fields(first + cases.len()) {
        case.title = format!("unknown fields: {}", case.title);
        cases.push(case);
    }
    cases
}

/// Definitions that take the server's connection down; sent last.
pub(crate) fn crashing(first: usize) -> Vec<Case> {
    let bool_map =
        json!({ "type": "object", "properties": { "m": { "type": "object", "additionalProperties": true } } });
    let mut empty_schema = version("v1", true, None, &[field(".spec.x")]);
    empty_schema["schema"] = json!({});
    let long = "x".repeat(70_000);
    let definitions = [
        ("below a map of anything", vec![version("v1", true, Some(&bool_map), &[field(".m.a.b")])]),
        ("far below a map of anything", vec![version("v1", true, Some(&bool_map), &[field(".m.a.b.c.d")])]),
        ("an empty schema", vec![empty_schema]),
        ("a first part of 70,000 characters", vec![version("v1", true, Some(&schema()), &[field(&long)])]),
    ];
    let case = |(index, (title, versions)): (usize, (&str, Vec<Value>))| {
        Case::new(title, definition(first + index, &versions), Expectation::Defect(Defect::Crash))
    };
    definitions.into_iter().enumerate().map(case).collect()
}

fn schema() -> Value {
    let text = json!({ "type": "string" });
    let name = json!({ "type": "object", "properties": { "name": text } });
    let mut properties = json!({
        "metadata": name,
        "number": { "type": "integer" },
        "flag": { "type": "boolean" },
        "obj": { "type": "object", "properties": { "name": text, "metadata": name } },
        "empty": { "type": "object" },
        "anything": { "type": "object", "additionalProperties": true },
        "nothing": { "type": "object", "additionalProperties": text },
        "maps": { "type": "object", "additionalProperties": { "type": "object", "properties": { "x": text } } },
        "list": { "type": "array", "items": text },
        "any-of": { "type": "object", "anyOf": [{ "properties": { "hidden": { "minLength": 1 } } }] },
        "ratio": { "type": "number" },
        "either": { "x-kubernetes-int-or-string": true },
        "free": { "x-kubernetes-preserve-unknown-fields": true },
        "status": { "type": "object", "properties": { "phase": text } },
    });
    let numbered = [
        ("f1", json!({ "type": "string", "enum": ["a", "b"] })),
        ("f2", json!({ "type": "string", "format": "date-time" })),
        ("f3", json!({ "type": "string", "format": "duration" })),
        ("f4", json!({ "type": "string", "format": "byte" })),
        ("f5", json!({ "type": "integer", "format": "int32" })),
        ("f6", json!({ "type": "integer", "format": "int64" })),
        ("f7", json!({ "type": "string", "nullable": true })),
        ("f8", json!({ "type": "string", "default": "x" })),
        ("f9", json!({ "type": "boolean", "default": false })),
        ("fa", json!({ "type": "string", "format": "uuid", "maxLength": 40 })),
    ];
    for (name, schema) in numbered {
        properties[name] = schema;
    }
    let texts = [
        "apiVersion",
        "kind",
        "foo",
        "dotted.name",
        "bracket[0]",
        "'quoted'",
        "'half",
        "é",
        "e\u{301}",
        "\u{200b}",
        "😀",
        "CamelCase",
        "0",
    ];
    for name in texts {
        properties[name] = text.clone();
    }
    json!({ "type": "object", "properties": properties })
}

/// Lists of the only version.
fn single_lists() -> Vec<(&'static str, Vec<&'static str>)> {
    vec![
        ("every type and format", vec![".f1", ".f2", ".f3", ".f4", ".f5", ".f6", ".f7", ".f8"]),
        ("eight is not too many", vec![".f1", ".f2", ".f3", ".f4", ".f5", ".f6", ".f7", ".f8"]),
        ("nine is", vec![".f1", ".f2", ".f3", ".f4", ".f5", ".f6", ".f7", ".f8", ".f9"]),
        ("ten is", vec![".f1", ".f2", ".f3", ".f4", ".f5", ".f6", ".f7", ".f8", ".f9", ".fa"]),
        ("nine copies are eight duplicates", vec![".foo"; 9]),
        ("nine with a duplicate", vec![".f1", ".f2", ".f3", ".f4", ".f5", ".f6", ".f7", ".f8", ".f8"]),
        ("ten with a duplicate", vec![".f1", ".f2", ".f3", ".f4", ".f5", ".f6", ".f7", ".f8", ".f8", ".f9"]),
        ("nine of which one does not resolve", vec![".f1", ".f2", ".f3", ".f4", ".f5", ".f6", ".f7", ".f8", ".nosuch"]),
        ("nine of which one is empty", vec![".f1", ".f2", ".f3", ".f4", "", ".f6", ".f7", ".f8", ".f9"]),
        ("nine of which one is an object", vec![".f1", ".f2", ".f3", ".f4", ".f5", ".f6", ".f7", ".f8", ".obj"]),
        (
            "nine of which one is in metadata",
            vec![".f1", ".f2", ".f3", ".f4", ".f5", ".f6", ".f7", ".f8", ".metadata.name"],
        ),
        ("unknown paths among right ones", vec![".foo", ".xyz", ".number", ".abc"]),
        ("an object among scalars", vec![".foo", ".obj", ".number", ".flag"]),
        ("the same twice", vec![".foo", ".foo"]),
        ("the status", vec![".foo", ".status.phase"]),
        ("kind and apiVersion where declared", vec![".kind", ".apiVersion"]),
        ("metadata itself breaks two rules", vec![".metadata"]),
        ("metadata twice breaks three", vec![".metadata", ".metadata", ".metadata.name", ".metadata.name"]),
        ("metadata that is not declared", vec![".metadata.labels", ".metadata.namespace"]),
        ("metadata below something else", vec![".obj.metadata.name"]),
        ("an object in metadata's place below", vec![".obj.metadata"]),
        ("map keys", vec![".nothing.a", ".nothing.b", ".maps.k.x"]),
        ("a map key twice", vec![".nothing.a", ".nothing.a"]),
        ("an unknown field behind a map key", vec![".maps.k.y", ".maps.k"]),
        ("below a scalar map value", vec![".nothing.a.b"]),
        ("a value of a map of anything has no type", vec![".anything.a", ".anything"]),
        ("numbers", vec![".ratio"]),
        ("int-or-string", vec![".either"]),
        ("preserved unknown fields", vec![".free", ".free.x"]),
        ("lists", vec![".list", ".list.x", ".list[0]", ".list[*]"]),
        ("fields known through anyOf", vec![".any-of.hidden"]),
        ("an object without properties", vec![".empty", ".empty.x"]),
        ("quotes at the start run to the closing quote", vec![".'quoted'", ".'half", ".'none'"]),
        ("a quote hides a dot", vec![".'a.b'", ".'a.b", ".foo'.x"]),
        ("a quote behind a backslash does not close", vec![".'a\\'b'", ".'a\\'.b"]),
        ("names with dots", vec![".dotted.name", ".dotted\\.name", ".['dotted.name']", ".\"dotted.name\""]),
        ("names with brackets", vec![".bracket[0]", ".bracket\\[0\\]"]),
        ("normalisation is irrelevant", vec![".é", ".e\u{301}"]),
        ("names no client sees", vec![".\u{200b}", ".😀"]),
        ("case matters", vec![".camelcase", ".CamelCase", ".FOO"]),
        ("a digit", vec![".0", ".00"]),
        ("no leading dot", vec!["foo", "spec.foo", "metadata.name", "'foo'"]),
        ("JSONPath's own beginnings", vec!["$.foo", "@.foo", "{.foo}", "$", "@", "{", "}", "*", "?"]),
        ("blanks around", vec![" .foo", ".foo ", ". foo", "\t.foo", ".foo\n"]),
        ("dots only", vec![".", "..", "...", "...."]),
        ("dots in a row", vec!["..foo", ".obj..name", ".foo.", ".obj.name.."]),
        ("brackets only", vec!["[", "]", "[]", "[[", "]]", ".[", ".]", ".[]"]),
        ("brackets behind a name", vec![".foo[", ".foo]", ".foo]x", ".obj['name']", ".obj[name]", "['foo']", "[0]"]),
        (
            "quotes, newlines and controls in messages",
            vec!["say \"x\"", "a\nb", "a\u{1}b", "a\u{7f}b", "\\", "\u{2028}", "\u{fffd}"],
        ),
        ("texts beyond the basic plane", vec!["😀", "𝒳.foo", "\u{e000}", "\u{10ffff}"]),
        ("empty texts", vec!["", "", ""]),
        ("empty beside wrong beside right", vec!["", ".nosuch", ".foo", "foo", ".obj", ".foo", ".metadata.name"]),
        ("empty again", vec!["", ".foo"]),
        ("no entry at all", vec![]),
    ]
}

fn several_versions() -> Vec<(&'static str, Vec<Value>)> {
    let other = |color: &str| json!({ "type": "object", "properties": { color: { "type": "string" }, "obj": { "type": "object" } } });
    let fields = |paths: &[&str]| paths.iter().map(|path| field(path)).collect::<Vec<Value>>();
    let mut not_served = version("v1beta1", false, Some(&other("hue")), &fields(&[".nosuch", ".hue"]));
    not_served["served"] = false.into();
    let mut right_not_served = version("v1beta1", false, Some(&other("hue")), &fields(&[".hue"]));
    right_not_served["served"] = false.into();
    let one = |paths: &[&str]| version("v1", true, Some(&schema()), &fields(paths));
    let two = |paths: &[&str]| version("v1beta1", false, Some(&other("hue")), &fields(paths));
    let nine = [".f1", ".f2", ".f3", ".f4", ".f5", ".f6", ".f7", ".f8", ".f9"];
    // Decoding makes these lists equal, so they move to the top level.
    let spelt =
        |name: &str, is_stored: bool, entry: Value| version(name, is_stored, Some(&schema()), &[entry, field(".foo")]);
    // And these schemas: keywords that hold nothing are nothing.
    let mut padded = schema();
    padded["title"] = "".into();
    padded["properties"]["foo"]["nullable"] = false.into();
    padded["properties"]["foo"]["enum"] = json!([]);
    vec![
        ("one bad version", vec![one(&[".foo"]), two(&[".hue", ".nosuch", ""])]),
        ("the other bad version", vec![one(&[".foo", ".obj", ".foo"]), two(&[".hue"])]),
        ("both bad", vec![one(&[".metadata", ".xyz"]), two(&[".obj", ".color"])]),
        ("a bad version that is not served", vec![one(&[".foo"]), not_served]),
        ("a right version that is not served", vec![one(&[".foo"]), right_not_served]),
        ("one version has no fields", vec![one(&[".foo"]), two(&[])]),
        ("no version has fields", vec![one(&[]), two(&[])]),
        ("too many in one version", vec![one(&nine), two(&[".hue"])]),
        ("too many at the top", vec![one(&nine), version("v2", false, Some(&schema()), &fields(&nine))]),
        (
            "a bad field at the top",
            vec![
                one(&[".foo", ".xyz", ".status.phase"]),
                version("v2", false, Some(&schema()), &fields(&[".foo", ".xyz", ".status.phase"])),
            ],
        ),
        (
            "empty, null and missing are one",
            vec![
                spelt("v1", true, field("")),
                spelt("v2", false, json!({ "jsonPath": null })),
                spelt("v3", false, json!({})),
            ],
        ),
        (
            "an empty keyword makes no other schema",
            vec![one(&[".foo", ".bar"]), version("v2", false, Some(&padded), &fields(&[".foo", ".bar"]))],
        ),
        ("no schema and no fields beside a schema", vec![one(&[".foo"]), version("v2", false, None, &[])]),
        ("no schema but fields beside a schema", vec![one(&[".foo"]), version("v2", false, None, &fields(&[".bar"]))]),
        (
            "no schema in either, other fields",
            vec![version("v1", true, None, &fields(&[".foo"])), version("v2", false, None, &fields(&[".bar"]))],
        ),
        (
            "no schema in either, the same fields",
            vec![version("v1", true, None, &fields(&[".foo"])), version("v2", false, None, &fields(&[".foo"]))],
        ),
    ]
}

fn defects() -> Vec<(&'static str, Vec<Value>, Defect)> {
    let fields = |paths: &[&str]| paths.iter().map(|path| field(path)).collect::<Vec<Value>>();
    let described = |text: &str| {
        let mut schema = schema();
        schema["description"] = text.into();
        schema
    };
    let first = |paths: &[&str]| version("v1", true, Some(&schema()), &fields(paths));
    let second = |schema: &Value, paths: &[&str]| version("v2", false, Some(schema), &fields(paths));
    let third = |schema: &Value, paths: &[&str]| version("v3", false, Some(schema), &fields(paths));
    let mut with_odd_name = schema();
    let odd = ["a b", "a\tb", "a\rb", "a\nb", "a$b", "a@b", "a{b", "a,b", "*", "a}b", "a\\b", "a=b", "$ref", "{}"];
    for name in odd {
        with_odd_name["properties"][name] = json!({ "type": "string" });
    }
    let mut cases = vec![
        (
            "equal fields, other schemas",
            vec![first(&[".foo"]), second(&described("2"), &[".foo"])],
            Defect::EqualFields,
        ),
        (
            "equal fields, one of three schemas is another",
            vec![first(&[".foo"]), second(&schema(), &[".foo"]), third(&described("3"), &[".foo"])],
            Defect::EqualFields,
        ),
        (
            "equal fields and schemas of which one keyword counts though it is false",
            vec![
                first(&[".foo"]),
                second(
                    &{
                        let mut schema = schema();
                        schema["properties"]["empty"]["additionalProperties"] = false.into();
                        schema
                    },
                    &[".foo"],
                ),
            ],
            Defect::EqualFields,
        ),
        ("equal schemas, other fields", vec![first(&[".foo"]), second(&schema(), &[".number"])], Defect::EqualSchemas),
        (
            "equal schemas, another order",
            vec![first(&[".foo", ".number"]), second(&schema(), &[".number", ".foo"])],
            Defect::EqualSchemas,
        ),
        (
            "equal schemas, fields in the first only",
            vec![first(&[".foo"]), second(&schema(), &[])],
            Defect::EqualSchemas,
        ),
        (
            "equal schemas, fields in the last only",
            vec![first(&[]), second(&schema(), &[]), third(&schema(), &[".foo"])],
            Defect::EqualSchemas,
        ),
    ];
    for name in odd {
        let path = format!(".{name}");
        cases.push(("an odd name", vec![version("v1", true, Some(&with_odd_name), &[field(&path)])], Defect::RunTime));
    }
    cases
}

/// What v1 does not know is dropped with a warning, and the rest remains.
fn unknown_fields(first: usize) -> Vec<Case> {
    let right = version("v1", true, Some(&schema()), &[field(".foo")]);
    let mut at_the_top = definition(first, &[version("v1", true, Some(&schema()), &[])]);
    at_the_top["spec"]["selectableFields"] = json!([{ "jsonPath": ".foo" }]);
    let mut misspelt = definition(first + 1, &[right]);
    misspelt["spec"]["versions"][0]["selectableFields"][0]["path"] = ".foo".into();
    let lower_case = definition(first + 2, &[version("v1", true, Some(&schema()), &[json!({ "jsonpath": ".foo" })])]);
    vec![
        Case::new("a list at the top level", at_the_top, Expectation::Equal),
        Case::new("a key beside jsonPath", misspelt, Expectation::Equal),
        Case::new("jsonPath in lower case", lower_case, Expectation::Equal),
    ]
}
