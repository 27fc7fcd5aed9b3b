//! Definitions from a seed: random structural schemas, lists of right paths, and faults put into them on purpose.
//!
//! A generator that only mixed characters would meet one rule (`does not refer to a valid field`) and no other; so every fault is
//! made from a path that is right.

use serde_json::{Map, Value, json};

use super::case::{Case, Defect, Expectation, definition, field, version};

/// splitmix64: small, and the same on every machine.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(bound).expect("a small number")).expect("less than bound")
    }

    fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }

    fn pick<'a, Item>(&mut self, items: &'a [Item]) -> &'a Item {
        &items[self.below(items.len())]
    }
}

/// `count` definitions numbered from `first`.
pub(crate) fn cases(random: &mut Random, first: usize, count: usize) -> Vec<Case> {
    (first..first + count).map(|index| case(random, index)).collect()
}

fn case(random: &mut Random, index: usize) -> Case {
    match random.below(100) {
        0..35 => {
            let schema = schema(random, "v1");
            let fields = list(random, &schema);
            let versions = [version("v1", true, Some(&schema), &fields)];
            Case::new("one version", definition(index, &versions), Expectation::Equal)
        }
        35..48 => equal_versions(random, index),
        48..72 => different_versions(random, index),
        72..79 => {
            let schemas = [schema(random, "v1"), Value::Null];
            let mut second = schemas[0].clone();
            second["description"] = "another".into();
            let fields = valid_list(random, &schemas[0], 1);
            let versions =
                [version("v1", true, Some(&schemas[0]), &fields), version("v2", false, Some(&second), &fields)];
            Case::new("equal fields", definition(index, &versions), Expectation::Defect(Defect::EqualFields))
        }
        79..86 => {
            let schema = schema(random, "v1");
            let fields = valid_list(random, &schema, 2);
            let mut others = fields.clone();
            match random.below(3) {
                0 => others.reverse(),
                1 => others.clear(),
                _ => others.truncate(1),
            }
            let versions = [version("v1", true, Some(&schema), &fields), version("v2", false, Some(&schema), &others)];
            Case::new("equal schemas", definition(index, &versions), Expectation::Defect(Defect::EqualSchemas))
        }
        86..94 => without_schema(random, index),
        _ => run_time(random, index),
    }
}

fn equal_versions(random: &mut Random, index: usize) -> Case {
    let schema = schema(random, "all");
    let fields = list(random, &schema);
    let mut versions = vec![version("v1", true, Some(&schema), &fields), version("v2", false, Some(&schema), &fields)];
    if random.one_in(2) {
        versions.push(version("v3alpha1", false, Some(&schema), &fields));
        versions[2]["served"] = false.into();
    }
    Case::new("equal versions", definition(index, &versions), Expectation::Equal)
}

/// Versions with schemas and fields of their own; some of them right, some not served.
fn different_versions(random: &mut Random, index: usize) -> Case {
    let count = 2 + random.below(2);
    let mut versions = Vec::new();
    for number in 0..count {
        let name = ["v1", "v1beta1", "v2alpha1"][number];
        let schema = schema(random, name);
        let mut fields = match random.below(3) {
            0 => list(random, &schema),
            1 => faulty_list(random, &schema),
            _ if number == 0 => valid_list(random, &schema, 1),
            _ => valid_list(random, &schema, 0),
        };
        // All versions with no fields, or the same ones, are other shapes.
        if number == 1 && as_decoded(&fields) == as_decoded(list_of(&versions[0])) {
            fields.push(field(".apiVersion.second"));
        }
        let mut made = version(name, number == 0, Some(&schema), &fields);
        if number > 0 && random.one_in(4) {
            made["served"] = false.into();
        }
        versions.push(made);
    }
    Case::new("different versions", definition(index, &versions), Expectation::Equal)
}

/// A version without a schema, which v1 refuses on its own account too.
fn without_schema(random: &mut Random, index: usize) -> Case {
    let schema = schema(random, "v2");
    let fields = valid_list(random, &schema, 1);
    if random.one_in(2) {
        let mut versions = vec![version("v1", true, None, &fields)];
        if random.one_in(2) {
            versions.push(version("v2", false, None, &fields));
        }
        return Case::new("no schema at all", definition(index, &versions), Expectation::Equal);
    }
    let mut others = list(random, &schema);
    if as_decoded(&others) == as_decoded(&fields) {
        others.push(field(".status.none"));
    }
    let versions = [version("v1", true, None, &fields), version("v2", false, Some(&schema), &others)];
    Case::new("one version without a schema", definition(index, &versions), Expectation::Equal)
}

/// A name that validation takes literally and evaluation does not.
fn run_time(random: &mut Random, index: usize) -> Case {
    let character = random.pick(&[" ", "\t", "\r", "\n", "$", "@", "{", ",", "*", "}", "\\", "="]);
    let name = if *character == "*" { "*".to_owned() } else { format!("a{character}b") };
    let mut schema = schema(random, "v1");
    schema["properties"]["spec"]["properties"][&name] = json!({ "type": "string" });
    let path = field(&format!(".spec.{name}"));
    let mut fields = valid_list(random, &schema, 0);
    fields.retain(|other| *other != path);
    fields.truncate(7);
    fields.push(path);
    let versions = [version("v1", true, Some(&schema), &fields)];
    Case::new(format!("the name {name:?}"), definition(index, &versions), Expectation::Defect(Defect::RunTime))
}

fn list_of(version: &Value) -> &[Value] {
    version["selectableFields"].as_array().map_or(&[][..], Vec::as_slice)
}

/// Missing, null and empty are one.
fn as_decoded(fields: &[Value]) -> Vec<&str> {
    fields.iter().map(|field| field["jsonPath"].as_str().unwrap_or_default()).collect()
}

// Schemas.

/// Names that all parsers take literally, odd ones included.
const NAMES: [&str; 26] = [
    "color", "size", "quantity", "branded", "replicas", "host", "port", "Phase", "nodeName", "a-b", "a_b", "a/b", "3",
    "é", "名前", "it's", "\"x\"", "'quoted'", "x;y", "q?r", "(z)", "a#b", "ﬁ", "𝒳", "-", "100%",
];

fn schema(random: &mut Random, description: &str) -> Value {
    let mut spec = Map::new();
    for _ in 0..10 + random.below(6) {
        spec.insert((*random.pick(&NAMES)).to_owned(), scalar(random));
    }
    let mut child = Map::new();
    for _ in 0..1 + random.below(3) {
        child.insert((*random.pick(&NAMES)).to_owned(), scalar(random));
    }
    spec.insert("child".to_owned(), json!({ "type": "object", "properties": child }));
    spec.insert("labels".to_owned(), json!({ "type": "object", "additionalProperties": scalar(random) }));
    spec.insert(
        "maps".to_owned(),
        json!({ "type": "object", "additionalProperties": { "type": "object", "additionalProperties": scalar(random) } }),
    );
    spec.insert("free".to_owned(), json!({ "type": "object", "additionalProperties": true }));
    spec.insert(
        "list".to_owned(),
        json!({ "type": "array", "items": { "type": "object", "properties": { "x": { "type": "string" } } } }),
    );
    spec.insert("names".to_owned(), json!({ "type": "array", "items": { "type": "string" } }));
    spec.insert("unknown".to_owned(), json!({ "x-kubernetes-preserve-unknown-fields": true }));
    spec.insert(
        "open".to_owned(),
        json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": { "declared": { "type": "string" } } }),
    );
    spec.insert("ratio".to_owned(), json!({ "type": "number" }));
    spec.insert("either".to_owned(), json!({ "x-kubernetes-int-or-string": true }));
    spec.insert(
        "embedded".to_owned(),
        json!({ "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true }),
    );
    spec.insert(
        "nested".to_owned(),
        json!({ "type": "object", "properties": { "metadata": { "type": "object", "properties": { "name": { "type": "string" } } } } }),
    );
    let mut properties = json!({
        "spec": { "type": "object", "properties": spec },
        "status": { "type": "object", "properties": { "phase": scalar(random), "ready": { "type": "boolean" } } },
        "metadata": { "type": "object", "properties": { "name": { "type": "string", "maxLength": 63 } } },
    });
    if random.one_in(2) {
        properties["kind"] = json!({ "type": "string" });
        properties["apiVersion"] = json!({ "type": "string" });
    }
    json!({ "type": "object", "description": description, "properties": properties })
}

fn scalar(random: &mut Random) -> Value {
    let kinds = [
        json!({ "type": "string" }),
        json!({ "type": "string" }),
        json!({ "type": "integer" }),
        json!({ "type": "boolean" }),
        json!({ "type": "string", "enum": ["S", "M", "L"] }),
        json!({ "type": "string", "format": "date-time" }),
        json!({ "type": "string", "format": "duration" }),
        json!({ "type": "string", "format": "byte", "nullable": true }),
        json!({ "type": "integer", "format": "int32", "minimum": 0 }),
        json!({ "type": "integer", "format": "int64", "default": 7 }),
        json!({ "type": "string", "default": "blue", "maxLength": 20 }),
        json!({ "type": "boolean", "nullable": true }),
        json!({ "type": "string", "pattern": "^[a-z]*$" }),
        json!({ "type": "string", "anyOf": [{ "minLength": 1 }, { "maxLength": 9 }] }),
    ];
    random.pick(&kinds).clone()
}

// Lists of paths.

/// All right paths of a schema of ours.
fn valid_paths(schema: &Value) -> Vec<String> {
    let mut paths = Vec::new();
    collect(schema, "", &mut paths);
    paths.retain(|path| !path.starts_with(".metadata"));
    paths
}

fn collect(node: &Value, prefix: &str, paths: &mut Vec<String>) {
    if matches!(node["type"].as_str(), Some("string" | "boolean" | "integer")) {
        paths.push(prefix.to_owned());
    }
    for (name, child) in node["properties"].as_object().into_iter().flatten() {
        collect(child, &format!("{prefix}.{name}"), paths);
    }
    if node["additionalProperties"].is_object() {
        for key in ["foo", "app-1", "über"] {
            collect(&node["additionalProperties"], &format!("{prefix}.{key}"), paths);
        }
    }
}

fn list(random: &mut Random, schema: &Value) -> Vec<Value> {
    // Rather more than half of all definitions are to be refused, and some shapes never are.
    if random.below(100) < 24 { valid_list(random, schema, 0) } else { faulty_list(random, schema) }
}

/// `least` to 8 different right paths.
fn valid_list(random: &mut Random, schema: &Value, least: usize) -> Vec<Value> {
    let count = least + random.below(9 - least);
    let mut paths = valid_paths(schema);
    shuffle(random, &mut paths);
    paths.truncate(count);
    paths.iter().map(|path| field(path)).collect()
}

fn shuffle<Item>(random: &mut Random, items: &mut [Item]) {
    for last in (1..items.len()).rev() {
        items.swap(last, random.below(last + 1));
    }
}

fn faulty_list(random: &mut Random, schema: &Value) -> Vec<Value> {
    let right = valid_paths(schema);
    let mut entries = valid_list(random, schema, 0);
    if random.one_in(5) {
        // Too many, some of which break another rule and count nevertheless.
        let mut paths = right;
        paths.extend([".spec", ".spec.list", ".spec.ratio", ".metadata.name"].map(str::to_owned));
        shuffle(random, &mut paths);
        let count = 9 + random.below(4);
        entries = paths.iter().take(count).map(|path| field(path)).collect();
    }
    for _ in 0..1 + random.below(3) {
        let fault = fault(random, schema, &entries);
        let place = random.below(entries.len() + 1);
        entries.insert(place, fault);
    }
    entries
}

fn fault(random: &mut Random, schema: &Value, entries: &[Value]) -> Value {
    let right = valid_paths(schema);
    let path = random.pick(&right).clone();
    let (parent, last) = path.rsplit_once('.').expect("a right path has a dot");
    match random.below(10) {
        0 => random.pick(&[field(""), json!({ "jsonPath": null }), json!({})]).clone(),
        1 => field(&match random.below(7) {
            0 => format!("{parent}['{last}']"),
            1 => format!("{parent}[\"{last}\"]"),
            2 => format!("{path}[0]"),
            3 => ".spec.list[*].x".to_owned(),
            4 => ".spec.names[0]".to_owned(),
            5 => format!("['spec'].{last}"),
            _ => format!("{path}["),
        }),
        2 => field(&match random.below(10) {
            0 => format!("{path}.below"),
            1 => ".nosuch".to_owned(),
            2 => swapped_case(&path),
            3 => ".spec.list.x".to_owned(),
            4 => ".spec.unknown.x".to_owned(),
            5 => ".spec.open.undeclared".to_owned(),
            6 => format!("{parent}..{last}"),
            7 => ".spec.embedded.kind".to_owned(),
            8 => ".spec.embedded.metadata.name".to_owned(),
            _ => format!(".spec .{last}"),
        }),
        3 => field(&if random.one_in(3) { ".".to_owned() } else { format!("{path}.") }),
        4 => field(&match random.below(8) {
            0 => path.trim_start_matches('.').to_owned(),
            1 => format!("${path}"),
            2 => format!("@{path}"),
            3 => format!("{{{path}}}"),
            4 => format!(" {path}"),
            5 => format!("]{path}"),
            6 => "'spec'.x".to_owned(),
            _ => "\u{feff}.spec".to_owned(),
        }),
        5 => field(random.pick::<&str>(&[".metadata", ".metadata.name", ".metadata.labels"])),
        6 | 7 => field(random.pick::<&str>(&[
            "..",
            ".spec",
            ".spec.child",
            ".spec.list",
            ".spec.names",
            ".spec.ratio",
            ".spec.either",
            ".spec.unknown",
            ".spec.labels",
            ".spec.maps.foo",
            ".spec.free",
            ".spec.free.foo",
            ".spec.embedded",
            ".spec.nested.metadata",
        ])),
        // Of a list that is empty there is no copy.
        _ => entries.get(random.below(entries.len().max(1))).cloned().unwrap_or_else(|| field(".spec.ratio")),
    }
}

fn swapped_case(path: &str) -> String {
    let swap =
        |letter: char| if letter.is_lowercase() { letter.to_ascii_uppercase() } else { letter.to_ascii_lowercase() };
    path.chars().map(swap).collect()
}
