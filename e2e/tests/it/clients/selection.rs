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
pub(crate) struct Selection {
    namespace: Option<&'static str>,
    terms: Vec<Term>,
}

impl Selection {
    /// Everything, in all namespaces.
    pub(crate) fn everything() -> Selection {
        Selection::default()
    }

    /// Only in one namespace.
    pub(crate) fn within(mut self, namespace: &'static str) -> Selection {
        self.namespace = Some(namespace);
        self
    }

    /// Also with this label.
    pub(crate) fn label(self, key: &'static str, value: &'static str) -> Selection {
        self.term(Place::Label, key, true, value)
    }

    /// Also with another value of this label, or without it.
    pub(crate) fn label_is_not(self, key: &'static str, value: &'static str) -> Selection {
        self.term(Place::Label, key, false, value)
    }

    /// Also with this value of a field.
    pub(crate) fn field(self, key: &'static str, value: &'static str) -> Selection {
        self.term(Place::Field, key, true, value)
    }

    /// Also with another value of this field.
    pub(crate) fn field_is_not(self, key: &'static str, value: &'static str) -> Selection {
        self.term(Place::Field, key, false, value)
    }

    fn term(mut self, place: Place, key: &'static str, is: bool, value: &'static str) -> Selection {
        self.terms.push(Term { place, key, is, value });
        self
    }

    /// The one namespace; empty for all.
    pub(crate) fn namespace(&self) -> &'static str {
        self.namespace.unwrap_or_default()
    }

    /// The label selector's text; empty for none.
    pub(crate) fn label_selector(&self) -> String {
        self.text(Place::Label)
    }

    /// The field selector's text; empty for none.
    pub(crate) fn field_selector(&self) -> String {
        self.text(Place::Field)
    }

    fn text(&self, place: Place) -> String {
        let terms = self.terms.iter().filter(|term| term.place == place);
        let terms = terms.map(|term| format!("{}{}{}", term.key, if term.is { "=" } else { "!=" }, term.value));
        terms.collect::<Vec<_>>().join(",")
    }

    /// Whether it selects an object.
    pub(crate) fn selects(&self, object: &Value) -> bool {
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

#[test]
fn a_selection_says_and_does_the_same() {
    let selection = Selection::everything().within("a").label("x", "1").label_is_not("y", "2").field("spec.z", "3");
    let selection = selection.field_is_not("spec.w", "4");
    assert_eq!(selection.label_selector(), "x=1,y!=2");
    assert_eq!(selection.field_selector(), "spec.z=3,spec.w!=4");
    let object = |namespace: &str, x: &str, y: &str, z: &str, w: &str| {
        let labels = serde_json::json!({ "x": x, "y": y });
        serde_json::json!({ "metadata": { "namespace": namespace, "labels": labels }, "spec": { "z": z, "w": w } })
    };
    let rows = [
        (object("a", "1", "1", "3", "3"), true, "all terms hold"),
        (object("b", "1", "1", "3", "3"), false, "another namespace"),
        (object("a", "2", "1", "3", "3"), false, "another label"),
        (object("a", "1", "2", "3", "3"), false, "the label that must not be"),
        (object("a", "1", "1", "4", "3"), false, "another field"),
        (object("a", "1", "1", "3", "4"), false, "the field that must not be"),
        (serde_json::json!({ "metadata": { "namespace": "a" } }), false, "nothing there"),
    ];
    for (object, expected, message) in rows {
        assert_eq!(selection.selects(&object), expected, "{message}");
    }
    let negative = Selection::everything().label_is_not("y", "2");
    assert!(negative.selects(&serde_json::json!({ "metadata": {} })), "an absent label is another one");
}
