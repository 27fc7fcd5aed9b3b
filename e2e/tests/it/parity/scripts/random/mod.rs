//! Random watch scripts: objects, selections, changes and moments from a seed.
//!
//! Every script has namespaces and a short history of its own. Some watches are opened before it, in its middle or
//! after it, again or from a version that was remembered. A selection is made from a witness: an object that it
//! selects. At the end each watch is shown its witness, so that one knows when it has received everything. [`family`]
//! is what the objects are made of.

mod family;

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};

use super::super::script::{Reach, Script, Step, Watch};
use super::shapes::{PARTIAL, TABLE};
use crate::printers::dice::Dice;
use family::{FAMILIES, Family, State, View, legacy};

/// How many there are.
pub(crate) const COUNT: usize = 64;
/// How their names begin.
pub(crate) const NAME: &str = "random ";
/// The environment variable that names a seed, to see a failure again.
pub(crate) const SEED: &str = "PARITY_SEED";

/// Watches of one script.
const WATCHES: usize = 6;
const NAMES: [&str; 5] = ["x", "x-y", "x.y", "y", "a"];
/// What follows the name of the script's namespace; `-` is before `/` in the order of keys.
const NAMESPACES: [&str; 2] = ["", "-b"];

/// The seed of this run: a fresh one unless the environment names it.
#[expect(clippy::disallowed_methods, reason = "a failure is seen again only with its seed")]
pub(crate) fn seed() -> u64 {
    let named = std::env::var(SEED).ok().and_then(|text| text.parse().ok());
    named.unwrap_or_else(|| RandomState::new().hash_one(0) >> 16)
}

/// The scripts of a seed.
pub(crate) fn scripts(seed: u64) -> Vec<Script> {
    (0..COUNT).map(|index| Author::new(seed, index).write()).collect()
}

/// When a watch is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    /// Before anything is there.
    Before,
    /// After so many changes, with the state as it is then.
    Current(usize),
    /// After so many changes, from the version after an earlier one.
    Resumed { at: usize, from: usize },
}

impl Moment {
    fn position(self) -> usize {
        match self {
            Moment::Before => 0,
            Moment::Current(at) | Moment::Resumed { at, .. } => at,
        }
    }
}

/// An object that a watch selects.
struct Witness {
    namespace: &'static str,
    name: String,
    state: State,
}

struct Author {
    dice: Dice,
    index: usize,
    family: &'static Family,
    objects: Vec<(&'static str, String, Option<State>)>,
    steps: Vec<Step>,
    /// Counts changes, and makes each one.
    changes: usize,
}

impl Author {
    fn new(seed: u64, index: usize) -> Author {
        let mut dice = Dice::new(seed ^ (index as u64 + 1).wrapping_mul(0xd134_2543_de82_ef95));
        let family = &FAMILIES[dice.below(FAMILIES.len())];
        Author { dice, index, family, objects: Vec::new(), steps: Vec::new(), changes: 0 }
    }

    fn write(mut self) -> Script {
        let namespaces = if self.family.namespaced { &NAMESPACES[..] } else { &NAMESPACES[..1] };
        for namespace in namespaces {
            if !namespace.is_empty() {
                self.steps.push(Step::Namespace(namespace));
            }
            self.objects.extend(NAMES.iter().map(|name| (*namespace, (*name).to_owned(), None)));
        }
        let changes = 8 + self.dice.below(9);
        let mut watches = Vec::new();
        for number in 0..WATCHES {
            let at = 1 + self.dice.below(changes);
            let moment = match self.dice.below(10) {
                0..3 => Moment::Before,
                3..6 => Moment::Current(at),
                6..8 => Moment::Resumed { at, from: 1 + self.dice.below(at) },
                _ => Moment::Resumed { at: changes, from: 1 + self.dice.below(changes) },
            };
            let (watch, witness) = self.watch(number, moment);
            watches.push((moment, watch, witness));
        }
        let noted: BTreeSet<usize> = watches
            .iter()
            .filter_map(|(moment, ..)| match moment {
                Moment::Resumed { from, .. } => Some(*from),
                Moment::Before | Moment::Current(_) => None,
            })
            .collect();
        for position in 0..=changes {
            if position > 0 {
                self.change();
            }
            if noted.contains(&position) {
                self.steps.push(Step::Note(format!("change-{position}")));
            }
            for (moment, (watch, view), _) in watches.iter().filter(|(moment, ..)| moment.position() == position) {
                if matches!(moment, Moment::Current(_)) {
                    self.steps.push(Step::Settle(format!("{}?labelSelector=run%3D{{ns}}", view.everywhere)));
                }
                self.steps.push(Step::Watch(watch.clone()));
            }
        }
        for (number, (.., witness)) in watches.iter().enumerate() {
            self.show(witness);
            self.steps.push(Step::Note(format!("end-{number}")));
        }
        Script { name: format!("{NAME}{}, {}", self.index, self.family.name), steps: self.steps }
    }

    /// One change of one object; the first one makes it.
    fn change(&mut self) {
        let index = self.dice.below(self.objects.len());
        let (namespace, name, before) = self.objects[index].clone();
        let after = match &before {
            None => Some(self.family.state(&mut self.dice)),
            Some(_) if self.dice.chance(25) => None,
            Some(before) => Some(self.family.changed(before, &mut self.dice)),
        };
        self.put(namespace, &name, before.as_ref(), after.as_ref());
        self.objects[index].2 = after;
    }

    fn put(&mut self, namespace: &'static str, name: &str, before: Option<&State>, after: Option<&State>) {
        self.changes += 1;
        self.steps.extend(match (before, after) {
            (Some(before), Some(after)) => self.family.merge(namespace, name, before, after, self.changes),
            (Some(_), None) => vec![Step::Delete(self.family.member(namespace, name))],
            (None, Some(after)) => self.family.create(namespace, name, after),
            (None, None) => Vec::new(),
        });
    }

    /// Makes the witness again, whatever was there.
    fn show(&mut self, witness: &Witness) {
        let known = self
            .objects
            .iter()
            .position(|(namespace, name, _)| (*namespace, name) == (witness.namespace, &witness.name));
        if let Some(index) = known
            && let Some(before) = self.objects[index].2.take()
        {
            self.put(witness.namespace, &witness.name, Some(&before), None);
        }
        self.put(witness.namespace, &witness.name, None, Some(&witness.state));
        if let Some(index) = known {
            self.objects[index].2 = Some(witness.state.clone());
        }
    }

    /// A watch and an object that it selects.
    fn watch(&mut self, number: usize, moment: Moment) -> ((Watch, &'static View), Witness) {
        let family = self.family;
        let view = &family.views[self.dice.below(family.views.len())];
        let mut witness = Witness { namespace: "", name: format!("end-{number}"), state: family.state(&mut self.dice) };
        let mut labels = family.label_terms(&witness.state, &mut self.dice);
        let mut fields = family.field_terms(view, &witness.state, &mut self.dice);
        if self.dice.chance(15) {
            witness.name = self.dice.pick(&NAMES).to_owned();
            fields.push(format!("metadata.name={}", family.name_of(&witness.name)));
        }
        let everywhere = !family.namespaced || self.dice.chance(45);
        if everywhere && family.namespaced {
            witness.namespace = NAMESPACES[self.dice.below(NAMESPACES.len())];
        }
        if everywhere {
            if family.namespaced && self.dice.chance(35) {
                fields.push(format!("metadata.namespace={{ns}}{}", witness.namespace));
            } else {
                labels.push("run={ns}".to_owned());
            }
        }
        let is_legacy = self.dice.chance(10);
        let mut path = if everywhere { view.everywhere.to_owned() } else { view.within() };
        if is_legacy {
            path = legacy(&path);
        }
        path.push_str("?watch=1");
        for (parameter, mut terms) in [("labelSelector", labels), ("fieldSelector", fields)] {
            if !terms.is_empty() {
                let first = self.dice.below(terms.len());
                terms.rotate_left(first);
                path.push_str(&format!("&{parameter}={}", escape(&terms.join(","))));
            }
        }
        let mut name = format!("{number}, {}", view.name);
        path.push_str(&self.start(moment, is_legacy));
        if self.dice.chance(50) {
            path.push_str("&allowWatchBookmarks=true");
            name.push_str(", bookmarks");
        }
        let mut headers = Vec::new();
        match self.dice.below(8) {
            0..2 => {
                headers.push(("accept", TABLE));
                path.push_str(["", "&includeObject=None", "&includeObject=Object"][self.dice.below(3)]);
                name.push_str(", table");
            }
            2..4 => {
                headers.push(("accept", PARTIAL));
                name.push_str(", metadata");
            }
            _ => {}
        }
        ((Watch { name, path, headers, reach: Reach::Noted(format!("end-{number}")) }, view), witness)
    }

    fn start(&mut self, moment: Moment, is_legacy: bool) -> String {
        const INITIAL: &str = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
        const NO_INITIAL: &str = "&sendInitialEvents=false&resourceVersionMatch=NotOlderThan";
        match moment {
            Moment::Resumed { from, .. } => format!("&resourceVersion={{change-{from}}}"),
            _ if is_legacy => ["", "&resourceVersion=0"][self.dice.below(2)].to_owned(),
            Moment::Before | Moment::Current(_) => {
                let version = ["", "&resourceVersion=0"][self.dice.below(2)];
                let initial = ["", INITIAL, NO_INITIAL][self.dice.below(3)];
                format!("{initial}{version}")
            }
        }
    }
}

/// Percent-encodes a query value, but for the braces of templates.
fn escape(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            byte if byte.is_ascii_alphanumeric() || b"-._~{}()!".contains(&byte) => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        })
        .collect()
}
