//! Random JSON documents as they may be written: repeated and escaped keys, white space, numbers of all forms.

use proptest::prelude::{Just, Strategy, any, prop, prop_oneof};
use serde_json::{Map, Value};

/// A document as it may be written: repeated keys included.
#[derive(Clone, Debug)]
pub enum WrittenJson {
    /// The text of a scalar.
    Scalar(String),
    /// A list.
    List(Vec<WrittenJson>),
    /// Names, as they are written between quotes, with their values; a name can occur more than once.
    Object(Vec<(String, WrittenJson)>),
}

/// Names of members, as they are written between quotes.
pub const KEYS: [&str; 8] = ["a", "b", "c", "metadata", "a b", "é", "k\\\"", ""];

/// One of [`KEYS`].
pub fn keys() -> impl Strategy<Value = String> {
    prop::sample::select(KEYS.to_vec()).prop_map(str::to_owned)
}

/// Documents of any form.
pub fn documents() -> impl Strategy<Value = WrittenJson> {
    let literals = ["null", "true", "false", "0", "-0", "1.0", "1e2", "-12", "1.5", "1e21", "12345678.5"];
    let scalars = prop_oneof![
        prop::sample::select(literals.to_vec()).prop_map(str::to_owned),
        any::<i64>().prop_map(|number| number.to_string()),
        any::<String>().prop_map(|text| Value::from(text).to_string()),
        "[\\[\\]{}:,\\\\\" a-c]{0,20}".prop_map(|text| Value::from(text).to_string()),
    ];
    scalars.prop_map(WrittenJson::Scalar).prop_recursive(5, 60, 6, |inner| {
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..4).prop_map(WrittenJson::List),
            3 => prop::collection::vec((keys(), inner), 0..6).prop_map(WrittenJson::Object),
        ]
    })
}

/// Documents that are objects.
pub fn objects() -> impl Strategy<Value = WrittenJson> {
    prop::collection::vec((keys(), documents()), 0..6).prop_map(WrittenJson::Object)
}

/// Where white space occurs and which keys are escaped.
struct Style {
    choices: Vec<u8>,
    next: usize,
}

impl Style {
    fn choose(&mut self, of: u8) -> usize {
        self.next += 1;
        usize::from(self.choices.get(self.next % self.choices.len().max(1)).copied().unwrap_or(0) % of)
    }

    fn gap(&mut self, out: &mut String) {
        out.push_str(["", "", "", " ", "\n\t", "\r "][self.choose(6)]);
    }

    fn key(&mut self, key: &str, out: &mut String) {
        let mut characters = key.chars();
        match characters.next() {
            Some(first) if self.choose(4) == 0 => {
                let rest = Value::from(characters.as_str()).to_string();
                out.push_str(&format!("\"\\u{:04x}{}", u32::from(first), &rest[1..]));
            }
            _ => out.push_str(&Value::from(key).to_string()),
        }
    }

    fn write(&mut self, document: &WrittenJson, out: &mut String) {
        match document {
            WrittenJson::Scalar(text) => out.push_str(text),
            WrittenJson::List(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    out.push_str(if index > 0 { "," } else { "" });
                    self.gap(out);
                    self.write(item, out);
                    self.gap(out);
                }
                out.push(']');
            }
            WrittenJson::Object(members) => {
                out.push('{');
                for (index, (key, value)) in members.iter().enumerate() {
                    out.push_str(if index > 0 { "," } else { "" });
                    self.gap(out);
                    self.key(key, out);
                    self.gap(out);
                    out.push(':');
                    self.gap(out);
                    self.write(value, out);
                    self.gap(out);
                }
                out.push('}');
            }
        }
    }
}

/// A document in writing.
pub fn written() -> impl Strategy<Value = String> {
    (objects(), prop::collection::vec(any::<u8>(), 1..40)).prop_map(|(document, choices)| {
        let mut out = String::new();
        let mut style = Style { choices, next: 0 };
        style.gap(&mut out);
        style.write(&document, &mut out);
        style.gap(&mut out);
        out
    })
}

/// A value.
pub fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        // Exact in both notations: serde_json does not read long fractions exactly.
        any::<i32>().prop_map(|number| Value::from(f64::from(number) / 64.0)),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-d]", inner, 0..4)
                .prop_map(|members| Value::from(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}
