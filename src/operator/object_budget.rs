//! Bounds the number and length of objects of fieldcache's own kinds in memory. Their authors choose both, and the
//! objects are loaded again at each start.
//!
//! The oldest objects get places, up to a limit; only objects with a place are served. Of newer ones, only the names
//! are in memory, so that their status can explain why they are not served. Beyond a further limit, nothing is in
//! memory. The order is by age, so that no author can displace a served object by writing more of them.
//!
//! The first bytes of each spec are free. The bytes of specs beyond these are bounded together, and the oldest long
//! objects get them first. A long object that gets none has a place without its spec. Older objects that become longer
//! therefore do not affect short ones.
//!
//! The result does not depend on the order in which objects are listed. [`ObjectBudget`] is pure. `bounded` lists the
//! objects again when there is space.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use super::lenient::Replaceable;
use crate::kinds::Absence;

/// Limits of the objects of one kind.
#[derive(Clone, Copy, Debug)]
pub struct ObjectLimits {
    /// Objects that have a place.
    pub objects: usize,
    /// Bytes of each spec, as JSON, that do not count towards `excess`. In memory, a spec takes some ten times as much.
    pub free: usize,
    /// Bytes that all specs together may have beyond the free ones.
    pub excess: usize,
    /// Bytes that one spec may have, as JSON.
    pub longest: usize,
    /// Objects of which at least the name is in memory.
    pub names: usize,
}

impl ObjectLimits {
    /// Limits of FieldCaches, and of Views. Together, the specs of one kind take less than 8 MiB.
    pub const WRITTEN_BY_USERS: ObjectLimits =
        ObjectLimits { objects: 2_000, free: 2 << 10, excess: 4 << 20, longest: 64 << 10, names: 10_000 };
    /// No limits, for objects that fieldcache writes, or selects by name.
    pub const NONE: ObjectLimits = ObjectLimits {
        objects: usize::MAX,
        free: usize::MAX,
        excess: usize::MAX,
        longest: usize::MAX,
        names: usize::MAX,
    };
}

/// The sort key of an object: whether it lacks a creation time, its creation time, and its name. Objects without a
/// creation time, which kube-apiserver always sets, are the newest.
pub(super) type Age = (bool, Option<Time>, String);

/// The sort key of an object: the oldest is the first.
pub(super) fn age(metadata: &ObjectMeta) -> Age {
    let created = metadata.creation_timestamp.clone();
    (created.is_none(), created, metadata.name.clone().unwrap_or_default())
}

/// The effect of a new or changed object.
#[derive(Debug)]
pub struct BudgetChange<K> {
    /// The object as it is stored, and then other objects that lost their specs.
    pub retained: Vec<K>,
    /// Objects that are removed, with their names alone.
    pub gone: Vec<K>,
}

/// The objects of one kind that are in memory.
#[derive(Debug)]
pub struct ObjectBudget {
    limits: ObjectLimits,
    /// Objects with a place, and their metadata. All others are newer.
    placed: BTreeMap<Age, ObjectMeta>,
    /// Long objects with a place and their specs, with the bytes beyond the free ones.
    long: BTreeMap<Age, usize>,
    /// The sum of the bytes in `long`.
    excess: usize,
    /// Long objects with a place and without their specs. They are newer than all in `long`.
    waiting: BTreeMap<Age, usize>,
    /// Objects without a place, of which the name is in memory.
    named: BTreeSet<Age>,
    /// The sort key of each object in memory, by name.
    ages: HashMap<String, Age>,
    /// Whether there are objects of which nothing is in memory.
    has_more: bool,
}

impl ObjectBudget {
    /// An empty budget.
    pub fn new(limits: ObjectLimits) -> ObjectBudget {
        ObjectBudget {
            limits,
            placed: BTreeMap::new(),
            long: BTreeMap::new(),
            excess: 0,
            waiting: BTreeMap::new(),
            named: BTreeSet::new(),
            ages: HashMap::new(),
            has_more: false,
        }
    }

    /// Removes all objects, before a list.
    pub fn clear(&mut self) {
        *self = ObjectBudget::new(self.limits);
    }

    /// Adds or replaces an object, without its spec if that is over a limit. Returns what changes: this object, and
    /// other objects that lose their specs or their places by it. If there are too many names, the newest objects
    /// without a place are removed, this one possibly among them.
    pub fn admit<K: Replaceable>(&mut self, mut object: K) -> BudgetChange<K> {
        let name = object.meta().name.clone().unwrap_or_default();
        let was_known = self.remove(&name);
        if object.spec_length() > self.limits.longest {
            object.drop_spec(Absence::TooLong);
        }
        let excess = object.spec_length().saturating_sub(self.limits.free);
        let age = age(object.meta());
        self.ages.insert(name.clone(), age.clone());
        self.place(age.clone(), object.meta().clone(), excess);
        let mut lost = self.take_places();
        lost.append(&mut self.take_specs());
        if !self.placed.contains_key(&age) || self.waiting.contains_key(&age) {
            object.drop_spec(Absence::CrowdedOut);
        }
        let mut admitted = BudgetChange { retained: vec![object], gone: Vec::new() };
        for metadata in lost.into_iter().filter(|metadata| metadata.name.as_ref() != Some(&name)) {
            let mut other = K::default();
            *other.meta_mut() = metadata;
            other.drop_spec(Absence::CrowdedOut);
            admitted.retained.push(other);
        }
        while self.ages.len() > self.limits.names {
            let Some((_, _, youngest)) = self.named.pop_last() else { break };
            self.has_more = true;
            self.ages.remove(&youngest);
            admitted.retained.retain(|kept| kept.meta().name.as_ref() != Some(&youngest));
            // A new object that is removed at once was never reported, so its removal is not reported either.
            if youngest != name || was_known {
                let mut gone = K::default();
                gone.meta_mut().name = Some(youngest);
                admitted.gone.push(gone);
            }
        }
        admitted
    }

    /// Inserts an object at the position of its age. `excess`: the bytes of its spec beyond the free ones. The limits
    /// may then be exceeded.
    fn place(&mut self, age: Age, metadata: ObjectMeta, excess: usize) {
        // An older object waits for a place, or an older long object for its spec: a newer one must not get it first.
        if self.named.first().is_some_and(|oldest| *oldest < age) {
            self.named.insert(age);
            return;
        }
        self.placed.insert(age.clone(), metadata);
        if self.waiting.first_key_value().is_some_and(|(oldest, _)| excess > 0 && *oldest < age) {
            self.waiting.insert(age, excess);
        } else if excess > 0 {
            self.excess += excess;
            self.long.insert(age, excess);
        }
    }

    /// Takes the places of the newest objects until the number of places fits. Returns the metadata of those that had a
    /// spec until now.
    fn take_places(&mut self) -> Vec<ObjectMeta> {
        let mut lost = Vec::new();
        while self.placed.len() > self.limits.objects {
            let Some((age, metadata)) = self.placed.pop_last() else { break };
            self.excess -= self.long.remove(&age).unwrap_or_default();
            if self.waiting.remove(&age).is_none() {
                lost.push(metadata);
            }
            self.named.insert(age);
        }
        lost
    }

    /// Removes the specs of the newest long objects until the bytes fit. Returns the metadata of these objects.
    fn take_specs(&mut self) -> Vec<ObjectMeta> {
        let mut lost = Vec::new();
        while self.excess > self.limits.excess {
            let Some((age, excess)) = self.long.pop_last() else { break };
            self.excess -= excess;
            lost.extend(self.placed.get(&age).cloned());
            self.waiting.insert(age, excess);
        }
        lost
    }

    /// Removes a deleted object. Returns whether it was in memory.
    pub fn remove(&mut self, name: &str) -> bool {
        let Some(age) = self.ages.remove(name) else { return false };
        self.excess -= self.long.remove(&age).unwrap_or_default();
        self.waiting.remove(&age);
        self.placed.remove(&age);
        self.named.remove(&age);
        true
    }

    /// Whether an object that did not fit would fit now. Then all objects must be listed again.
    pub fn has_space(&self) -> bool {
        let has_place = self.placed.len() < self.limits.objects && (!self.named.is_empty() || self.has_more);
        let fits = |(_, excess): (&Age, &usize)| self.excess.saturating_add(*excess) <= self.limits.excess;
        has_place || self.waiting.first_key_value().is_some_and(fits)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use kube::ResourceExt;
    use serde_json::json;

    use super::{ObjectBudget, ObjectLimits};
    use crate::kinds::View;
    use crate::operator::lenient::Replaceable;

    /// A View of an age, smaller numbers being older, with so many bytes beyond the free ones.
    fn view(second: usize, excess: usize) -> View {
        let created = format!("2026-01-02T00:00:{second:02}Z");
        let view_of_group = |group: String| -> View {
            serde_json::from_value(json!({
                "apiVersion": "fieldcache.dev/v1alpha1", "kind": "View",
                "metadata": {"name": format!("view-{second}"), "creationTimestamp": created},
                "spec": {"resources": [{"group": group, "resource": "shirts"}]},
            }))
            .unwrap()
        };
        let base = view_of_group("a".to_owned()).spec_length() - 1;
        view_of_group("a".repeat(FREE + excess - base))
    }

    const FREE: usize = 400;
    const LIMITS: ObjectLimits = ObjectLimits { objects: 5, free: FREE, excess: 10, longest: 1_000, names: 6 };

    /// The Views with their specs after these have come, and whether there is space for others.
    fn whole(views: &[View]) -> (BTreeSet<String>, bool) {
        let (mut budget, mut whole) = (ObjectBudget::new(LIMITS), BTreeSet::new());
        for view in views {
            let admitted = budget.admit(view.clone());
            for view in admitted.retained {
                match view.spec.absent {
                    None => whole.insert(view.name_any()),
                    Some(_) => whole.remove(&view.name_any()),
                };
            }
            whole.retain(|name| !admitted.gone.iter().any(|gone| gone.name_any() == *name));
        }
        (whole, budget.has_space())
    }

    /// All orders of these Views.
    fn orders(views: &[View]) -> Vec<Vec<View>> {
        let Some((first, others)) = views.split_first() else { return vec![Vec::new()] };
        let put = |order: Vec<View>| {
            (0..=order.len()).map(move |place| [&order[..place], std::slice::from_ref(first), &order[place..]].concat())
        };
        orders(others).into_iter().flat_map(put).collect()
    }

    #[test]
    fn what_is_kept_does_not_depend_on_the_order_of_a_list() {
        for (excesses, expected, what) in [
            (&[0, 0, 0][..], &[0, 1, 2][..], "short ones"),
            (&[0, 0, 0, 0, 0, 0, 0], &[0, 1, 2, 3, 4], "more than there are names of"),
            (&[4, 6, 4, 0, 6], &[0, 1, 3], "long ones, of which the older ones fit"),
            (&[10, 4, 0, 0, 6, 0], &[0, 2, 3], "an old one that is very long"),
            (&[4, 8, 2, 0, 0, 4], &[0, 3, 4], "one that would fit after an older one that does not"),
            (&[0, 10, 0, 0, 0, 10, 4], &[0, 1, 2, 3, 4], "long ones without a place"),
        ] {
            let views: Vec<View> = excesses.iter().enumerate().map(|(second, excess)| view(second, *excess)).collect();
            let expected: BTreeSet<String> = expected.iter().map(|second| format!("view-{second}")).collect();
            for order in orders(&views) {
                let names = || order.iter().map(ResourceExt::name_any).collect::<Vec<_>>();
                assert_eq!(whole(&order), (expected.clone(), false), "{what}: {:?}", names());
            }
        }
    }

    #[test]
    fn an_object_that_changes_or_goes_makes_room_for_those_that_wait() {
        let mut budget = ObjectBudget::new(LIMITS);
        let is_whole = |budget: &mut ObjectBudget, second, excess| {
            budget.admit(view(second, excess)).retained[0].spec.absent.is_none()
        };
        for (second, excess) in [(0, 6), (1, 4), (2, 0)] {
            assert!(is_whole(&mut budget, second, excess), "{second}");
        }
        assert!(!is_whole(&mut budget, 3, 4), "older ones have all of it");
        assert!(is_whole(&mut budget, 1, 2) && !budget.has_space(), "it is shorter, by too little");
        assert!(!is_whole(&mut budget, 4, 2), "it would fit, but an older one waits");
        assert!(is_whole(&mut budget, 2, 1), "it has become long, and is older than those that wait");
        assert!(budget.remove("view-1") && !budget.has_space());
        assert!(is_whole(&mut budget, 0, 5) && budget.has_space(), "the oldest that waits fits");
        assert!(!is_whole(&mut budget, 4, 1), "it would fit, but an older one waits");
        assert!(is_whole(&mut budget, 3, 4) && !budget.has_space(), "it comes with its spec");
        // The same of places.
        assert!(is_whole(&mut budget, 5, 0) && !is_whole(&mut budget, 6, 0));
        assert!(budget.remove("view-5") && budget.has_space());
        assert!(!is_whole(&mut budget, 7, 0), "an older one waits");
        assert!(is_whole(&mut budget, 1, 0) && !budget.has_space(), "it is older than those that wait");
    }
}
