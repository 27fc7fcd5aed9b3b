//! Request cases as a product of named dimensions: every choice of each with every choice of the others.
//!
//! A choice is a name and what it adds to a request. That is a path, a parameter, a header, a method, or a way to read
//! the response. The name of a case consists of the names of its choices: `subject/dimension=choice, dimension=choice`.
//! So a failing case names its request, and one pattern of [`super::allowed`] can point to a plane of the product.

use http::Method;

use super::case::{Case, Reading, get};

/// What a choice puts into a request.
#[derive(Debug, Clone)]
pub(crate) enum Part {
    /// The path, which may have parameters already.
    Path(String),
    /// A parameter as it is in a query: escaped, or a template.
    Parameter(&'static str, String),
    Header(&'static str, String),
    Method(Method),
    Reading(Reading),
}

/// One value of a dimension.
#[derive(Debug, Clone)]
pub(crate) struct Choice {
    pub(crate) name: String,
    pub(crate) parts: Vec<Part>,
}

/// A dimension: its name, which is empty where its choices speak for themselves, and its values.
#[derive(Debug, Clone)]
pub(crate) struct Dimension {
    pub(crate) name: &'static str,
    pub(crate) choices: Vec<Choice>,
}

/// A choice of one part.
pub(crate) fn choice(name: &str, part: Part) -> Choice {
    Choice { name: name.to_owned(), parts: vec![part] }
}

impl Choice {
    /// With a parameter besides.
    pub(crate) fn and(mut self, parameter: &'static str, value: &str) -> Choice {
        self.parts.push(Part::Parameter(parameter, value.to_owned()));
        self
    }
}

impl Part {
    /// Whether both would set the same header or the same parameter.
    pub(crate) fn is_the_same_place(&self, other: &Part) -> bool {
        match (self, other) {
            (Part::Parameter(name, _), Part::Parameter(other, _)) | (Part::Header(name, _), Part::Header(other, _)) => {
                name == other
            }
            (Part::Path(_), Part::Path(_)) | (Part::Method(_), Part::Method(_)) => true,
            _ => false,
        }
    }
}

impl Dimension {
    /// Paths by name.
    pub(crate) fn paths<'a>(name: &'static str, paths: impl IntoIterator<Item = (&'a str, &'a str)>) -> Dimension {
        let choices = paths.into_iter().map(|(name, path)| choice(name, Part::Path(path.to_owned()))).collect();
        Dimension { name, choices }
    }

    /// A parameter that is absent, or has one of these values, which are templates and name themselves.
    pub(crate) fn parameter(parameter: &'static str, values: &[&str]) -> Dimension {
        let unset = Choice { name: "unset".to_owned(), parts: Vec::new() };
        let set =
            |value: &&str| choice(&value.replace(['{', '}'], ""), Part::Parameter(parameter, (*value).to_owned()));
        Dimension { name: parameter, choices: std::iter::once(unset).chain(values.iter().map(set)).collect() }
    }

    /// A parameter with values that have names; they are escaped here. `None` leaves the parameter out.
    pub(crate) fn values<'a>(
        parameter: &'static str,
        values: impl IntoIterator<Item = (&'a str, Option<&'a str>)>,
    ) -> Dimension {
        let one = |(name, value): (&str, Option<&str>)| Choice {
            name: name.to_owned(),
            parts: value.map(|value| Part::Parameter(parameter, escape(value))).into_iter().collect(),
        };
        Dimension { name: parameter, choices: values.into_iter().map(one).collect() }
    }

    /// A header with values that have names. `None` leaves it out.
    pub(crate) fn header<'a>(
        header: &'static str,
        values: impl IntoIterator<Item = (&'a str, Option<&'a str>)>,
    ) -> Dimension {
        let one = |(name, value): (&str, Option<&str>)| Choice {
            name: name.to_owned(),
            parts: value.map(|value| Part::Header(header, value.to_owned())).into_iter().collect(),
        };
        Dimension { name: header, choices: values.into_iter().map(one).collect() }
    }

    /// A header with values that name themselves.
    pub(crate) fn header_texts(header: &'static str, values: &[&str]) -> Dimension {
        Dimension::header(header, values.iter().map(|value| (*value, Some(*value))))
    }

    /// Methods.
    pub(crate) fn methods(methods: &[Method]) -> Dimension {
        let one = |method: &Method| choice(method.as_str(), Part::Method(method.clone()));
        Dimension { name: "", choices: methods.iter().map(one).collect() }
    }

    /// Ways of reading.
    pub(crate) fn readings(readings: &[(&str, Reading)]) -> Dimension {
        let one = |(name, reading): &(&str, Reading)| choice(name, Part::Reading(*reading));
        Dimension { name: "", choices: readings.iter().map(one).collect() }
    }

    /// Other choices.
    pub(crate) fn new(name: &'static str, choices: Vec<Choice>) -> Dimension {
        Dimension { name, choices }
    }
}

/// All combinations.
pub(crate) fn product(subject: &str, dimensions: &[Dimension]) -> Vec<Case> {
    let mut combinations: Vec<Vec<(&str, &Choice)>> = vec![Vec::new()];
    for dimension in dimensions {
        combinations = combinations
            .into_iter()
            .flat_map(|before| {
                dimension.choices.iter().map(move |choice| {
                    let mut combination = before.clone();
                    combination.push((dimension.name, choice));
                    combination
                })
            })
            .collect();
    }
    combinations.into_iter().map(|combination| made_of(subject, &combination)).collect()
}

/// The case of these choices.
pub(crate) fn made_of(subject: &str, choices: &[(&str, &Choice)]) -> Case {
    let names: Vec<String> = choices
        .iter()
        .map(|(dimension, choice)| match (*dimension, &*choice.name) {
            ("", name) => name.to_owned(),
            (dimension, name) => format!("{dimension}={name}"),
        })
        .collect();
    let mut case = get(&format!("{subject}/{}", names.join(", ")), "");
    let mut parameters = Vec::new();
    for part in choices.iter().flat_map(|(_, choice)| &choice.parts) {
        match part {
            Part::Path(path) => case.path.clone_from(path),
            Part::Parameter(name, value) => parameters.push(format!("{name}={value}")),
            Part::Header(name, value) => case = case.header(name, value),
            Part::Method(method) => case = case.method(method.clone()),
            Part::Reading(reading) => case = case.reading(*reading),
        }
    }
    for parameter in parameters {
        let separator = if case.path.contains('?') { '&' } else { '?' };
        case.path.push(separator);
        case.path.push_str(&parameter);
    }
    case
}

/// Everything but letters, digits and a few others as percent codes.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

#[test]
fn a_product_has_every_combination_and_names_it() {
    let dimensions = [
        Dimension::paths("path", [("here", "/here"), ("there", "/there?x=1")]),
        Dimension::parameter("limit", &["{some}"]),
    ];
    let cases = product("subject", &dimensions);
    let shown: Vec<(&str, &str)> = cases.iter().map(|case| (&*case.name, &*case.path)).collect();
    let expected = [
        ("subject/path=here, limit=unset", "/here"),
        ("subject/path=here, limit=some", "/here?limit={some}"),
        ("subject/path=there, limit=unset", "/there?x=1"),
        ("subject/path=there, limit=some", "/there?x=1&limit={some}"),
    ];
    assert_eq!(shown, expected);
}
