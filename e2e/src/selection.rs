//! What a client selects: as the texts that go over the wire, and as a plain test of an object.
//!
//! Deliberately not fieldcache's own selectors: the truth must not be computed by what is tested.

use serde_json::Value;

/// Where a term looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Label,
    Field,
}

/// What a term requires. All but the first two are operators of field selectors that kube-apiserver does not have.
#[derive(Debug, Clone, Copy)]
enum Test {
    Is(&'static str),
    IsNot(&'static str),
    In(&'static [&'static str]),
    NotIn(&'static [&'static str]),
    IsPresent,
    IsAbsent,
    StartsWith(&'static str),
    AtLeast(i64),
    Below(i64),
}

/// A key, and what is required of its value.
#[derive(Debug, Clone)]
struct Term {
    place: Place,
    key: &'static str,
    test: Test,
}

impl Term {
    /// As a selector has it.
    fn text(&self) -> String {
        let key = self.key;
        match self.test {
            Test::Is(value) => format!("{key}={value}"),
            Test::IsNot(value) => format!("{key}!={value}"),
            Test::In(values) => format!("{key} in ({})", values.join(",")),
            Test::NotIn(values) => format!("{key} notin ({})", values.join(",")),
            Test::IsPresent => key.to_owned(),
            Test::IsAbsent => format!("!{key}"),
            Test::StartsWith(prefix) => format!("{key}^={prefix}"),
            Test::AtLeast(bound) => format!("{key}>={bound}"),
            Test::Below(bound) => format!("{key}<{bound}"),
        }
    }

    /// Whether a value satisfies it.
    fn is_met(&self, found: &Value) -> bool {
        let (text, number) = (found.as_str().unwrap_or_default(), found.as_i64());
        match self.test {
            Test::Is(value) => text == value,
            Test::IsNot(value) => text != value,
            Test::In(values) => values.contains(&text),
            Test::NotIn(values) => !values.contains(&text),
            Test::IsPresent => !text.is_empty() || number.is_some(),
            Test::IsAbsent => text.is_empty() && number.is_none(),
            Test::StartsWith(prefix) => text.starts_with(prefix),
            Test::AtLeast(bound) => number.is_some_and(|number| number >= bound),
            Test::Below(bound) => number.is_some_and(|number| number < bound),
        }
    }

    /// Whether kube-apiserver has the operator.
    fn is_of_kubernetes(&self) -> bool {
        self.place == Place::Label || matches!(self.test, Test::Is(_) | Test::IsNot(_))
    }
}

/// All terms must hold; values in them are never empty, so what is absent can be read as the empty text.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    namespace: Option<&'static str>,
    terms: Vec<Term>,
}

impl Selection {
    /// Everything, in all namespaces.
    #[must_use]
    pub fn everything() -> Selection {
        Selection::default()
    }

    /// Only in one namespace.
    #[must_use]
    pub fn within(mut self, namespace: &'static str) -> Selection {
        self.namespace = Some(namespace);
        self
    }

    /// Also with this label.
    #[must_use]
    pub fn label(self, key: &'static str, value: &'static str) -> Selection {
        self.term(Place::Label, key, Test::Is(value))
    }

    /// Also with another value of this label, or without it.
    #[must_use]
    pub fn label_is_not(self, key: &'static str, value: &'static str) -> Selection {
        self.term(Place::Label, key, Test::IsNot(value))
    }

    /// Also with this value of a field.
    #[must_use]
    pub fn field(self, key: &'static str, value: &'static str) -> Selection {
        self.term(Place::Field, key, Test::Is(value))
    }

    /// Also with another value of this field.
    #[must_use]
    pub fn field_is_not(self, key: &'static str, value: &'static str) -> Selection {
        self.term(Place::Field, key, Test::IsNot(value))
    }

    /// Also with one of these values of a field.
    #[must_use]
    pub fn field_in(self, key: &'static str, values: &'static [&'static str]) -> Selection {
        self.term(Place::Field, key, Test::In(values))
    }

    /// Also with none of these values of a field.
    #[must_use]
    pub fn field_not_in(self, key: &'static str, values: &'static [&'static str]) -> Selection {
        self.term(Place::Field, key, Test::NotIn(values))
    }

    /// Also with some value of a field.
    #[must_use]
    pub fn field_is_present(self, key: &'static str) -> Selection {
        self.term(Place::Field, key, Test::IsPresent)
    }

    /// Also without a value of a field.
    #[must_use]
    pub fn field_is_absent(self, key: &'static str) -> Selection {
        self.term(Place::Field, key, Test::IsAbsent)
    }

    /// Also with a value of a field that begins so.
    #[must_use]
    pub fn field_starts_with(self, key: &'static str, prefix: &'static str) -> Selection {
        self.term(Place::Field, key, Test::StartsWith(prefix))
    }

    /// Also with this integer in a field, or a larger one.
    #[must_use]
    pub fn field_at_least(self, key: &'static str, bound: i64) -> Selection {
        self.term(Place::Field, key, Test::AtLeast(bound))
    }

    /// Also with a smaller integer in a field.
    #[must_use]
    pub fn field_below(self, key: &'static str, bound: i64) -> Selection {
        self.term(Place::Field, key, Test::Below(bound))
    }

    fn term(mut self, place: Place, key: &'static str, test: Test) -> Selection {
        self.terms.push(Term { place, key, test });
        self
    }

    /// Whether kube-apiserver has all operators of it.
    #[must_use]
    pub fn is_of_kubernetes(&self) -> bool {
        self.terms.iter().all(Term::is_of_kubernetes)
    }

    /// The one namespace; empty for all.
    #[must_use]
    pub fn namespace(&self) -> &'static str {
        self.namespace.unwrap_or_default()
    }

    /// The label selector's text; empty for none.
    #[must_use]
    pub fn label_selector(&self) -> String {
        self.text(Place::Label)
    }

    /// The field selector's text; empty for none.
    #[must_use]
    pub fn field_selector(&self) -> String {
        self.text(Place::Field)
    }

    fn text(&self, place: Place) -> String {
        let terms = self.terms.iter().filter(|term| term.place == place);
        terms.map(Term::text).collect::<Vec<_>>().join(",")
    }

    /// Whether it selects an object.
    #[must_use]
    pub fn selects(&self, object: &Value) -> bool {
        let metadata = &object["metadata"];
        let is_within = self.namespace.is_none_or(|namespace| metadata["namespace"] == namespace);
        is_within
            && self.terms.iter().all(|term| {
                let found = match term.place {
                    Place::Label => &metadata["labels"][term.key],
                    Place::Field => term.key.split('.').fold(object, |value, step| &value[step]),
                };
                term.is_met(found)
            })
    }
}
