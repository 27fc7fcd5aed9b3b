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

/// `key=value` or `key!=value`.
#[derive(Debug, Clone)]
struct Term {
    place: Place,
    key: &'static str,
    is: bool,
    value: &'static str,
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
        self.term(Place::Label, key, true, value)
    }

    /// Also with another value of this label, or without it.
    #[must_use]
    pub fn label_is_not(self, key: &'static str, value: &'static str) -> Selection {
        self.term(Place::Label, key, false, value)
    }

    /// Also with this value of a field.
    #[must_use]
    pub fn field(self, key: &'static str, value: &'static str) -> Selection {
        self.term(Place::Field, key, true, value)
    }

    /// Also with another value of this field.
    #[must_use]
    pub fn field_is_not(self, key: &'static str, value: &'static str) -> Selection {
        self.term(Place::Field, key, false, value)
    }

    fn term(mut self, place: Place, key: &'static str, is: bool, value: &'static str) -> Selection {
        self.terms.push(Term { place, key, is, value });
        self
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
        let terms = terms.map(|term| format!("{}{}{}", term.key, if term.is { "=" } else { "!=" }, term.value));
        terms.collect::<Vec<_>>().join(",")
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
                (found.as_str().unwrap_or_default() == term.value) == term.is
            })
    }
}
