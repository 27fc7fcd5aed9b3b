//! Walks over stores of random objects, compared with a walk over all objects. Limits, and what is read of an object.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use proptest::prelude::{Strategy, any};
use proptest::{prop_assert_eq, proptest};
use serde_json::{Value, json};

use super::candidate::Candidate;
use super::document::{Dependent, ObjectStatus, Owner};
use super::{FoundDependents, SearchScope, SearchedStore, WalkOptions, walk};
use crate::model::owners::MOST_OWNERS;
use crate::model::{Gvr, OwnerHashes, Scope, Version};
use crate::query::work::at_once;
use crate::registry::{LoadState, Resource};
use crate::store::{HistoryLimits, Store};

/// A store of these objects. `kind` ends the plural and the kind.
fn stored(kind: usize, scope: Scope, objects: &[Value]) -> Arc<Resource> {
    let mut store = Store::new(HistoryLimits::default());
    store.replace(&[], Version::new(1));
    let resource = crate::registry::tests::resource(&format!("things{kind}"));
    for (version, object) in (2..).zip(objects) {
        let mut object = object.clone();
        object["metadata"]["resourceVersion"] = json!(u64::to_string(&version));
        store.apply(&resource.extractor.extract(Bytes::from(object.to_string())).unwrap());
    }
    let resource = Resource { kind: format!("Thing{kind}"), scope, ..Resource::clone(&resource) };
    resource.state.publish(LoadState::Ready(store.snapshot()));
    Arc::new(resource)
}

/// An object with these owners.
fn object(namespace: &str, name: &str, uid: &str, owners: &[String]) -> Value {
    let owners: Vec<Value> = owners.iter().map(|uid| json!({"uid": uid, "kind": "Thing", "name": "any"})).collect();
    let mut object = json!({"metadata": {"name": name, "uid": uid, "ownerReferences": owners}});
    if !namespace.is_empty() {
        object["metadata"]["namespace"] = json!(namespace);
    }
    object
}

/// The dependents of an owner, and the memory that was held for them.
fn found_and_held(stores: &[SearchedStore], owner: &str, options: WalkOptions) -> (FoundDependents, usize) {
    let mut held = 0;
    let hold = |bytes| -> Result<(), Infallible> {
        held = bytes;
        Ok(())
    };
    let Ok(found) = at_once(walk(stores, owner, options, hold));
    (found, held)
}

fn found(stores: &[SearchedStore], owner: &str, options: WalkOptions) -> FoundDependents {
    found_and_held(stores, owner, options).0
}

fn everywhere(resources: &[Arc<Resource>]) -> Vec<SearchedStore> {
    let whole = |resource: &Arc<Resource>| SearchedStore { resource: resource.clone(), scope: SearchScope::All };
    resources.iter().map(whole).collect()
}

const NAMESPACES: [&str; 2] = ["a", "b"];

/// The kinds of the property test. Objects of the last one have no namespace.
const KINDS: usize = 3;

/// A random object.
#[derive(Clone, Debug)]
struct Thing {
    kind: usize,
    namespace: &'static str,
    /// The numbers of its owners, maybe itself. There are numbers without an object.
    owners: Vec<usize>,
    /// Whether it has so many other owners that none is indexed.
    is_wide: bool,
}

fn things() -> impl Strategy<Value = Vec<Thing>> {
    let owners = proptest::collection::vec(0..20usize, 0..3);
    let thing = (0..KINDS, any::<bool>(), owners, proptest::bool::weighted(0.1));
    proptest::collection::vec(
        thing.prop_map(|(kind, is_in_b, owners, is_wide)| {
            let namespace = if kind == KINDS - 1 { "" } else { NAMESPACES[usize::from(is_in_b)] };
            Thing { kind, namespace, owners, is_wide }
        }),
        1..18,
    )
}

fn uid(number: usize) -> String {
    format!("uid-{number}")
}

/// The numbers of the dependents, level by level, by looking at all objects. `may_see`: whether an object is shown.
fn naive(things: &[Thing], owner: usize, levels: usize, may_see: &dyn Fn(&Thing) -> bool) -> Vec<BTreeSet<usize>> {
    let mut known = BTreeSet::from([owner]);
    let mut found: Vec<BTreeSet<usize>> = Vec::new();
    let mut level = BTreeSet::from([owner]);
    while !level.is_empty() && found.len() < levels {
        let is_next = |(number, thing): &(usize, &Thing)| {
            !known.contains(number) && may_see(thing) && thing.owners.iter().any(|owner| level.contains(owner))
        };
        let next: BTreeSet<usize> = things.iter().enumerate().filter(is_next).map(|(number, _)| number).collect();
        known.extend(&next);
        level.clone_from(&next);
        found.push(next);
    }
    found.retain(|level| !level.is_empty());
    found
}

proptest! {
    #[test]
    fn a_walk_finds_what_a_look_at_all_objects_finds(
        things in things(), owner in 0..20usize, is_recursive: bool, scope in 0..2usize,
    ) {
        let mut objects: [Vec<Value>; KINDS] = Default::default();
        for (number, thing) in things.iter().enumerate() {
            let mut owners: Vec<String> = thing.owners.iter().map(|owner| uid(*owner)).collect();
            if thing.is_wide {
                owners.extend((0..=MOST_OWNERS).map(|other| format!("other-{other}")));
            }
            objects[thing.kind].push(object(thing.namespace, &format!("n{number}"), &uid(number), &owners));
        }
        let scopes = [SearchScope::All, SearchScope::Namespace("a".into())];
        let stores: Vec<SearchedStore> = (0..KINDS)
            .map(|kind| SearchedStore {
                resource: stored(kind, if kind == KINDS - 1 { Scope::Cluster } else { Scope::Namespaced }, &objects[kind]),
                scope: scopes[scope].clone(),
            })
            .collect();
        let may_see = |thing: &Thing| match scope {
            0 => true,
            _ => thing.namespace == "a",
        };
        let levels = if is_recursive { 32 } else { 1 };
        let found = found(&stores, &uid(owner), WalkOptions { levels, ..WalkOptions::default() });
        prop_assert_eq!(&found.truncated, &None);

        let expected = naive(&things, owner, levels, &may_see);
        let number = |uid: &str| uid.trim_start_matches("uid-").parse::<usize>().unwrap();
        let mut rest = &found.dependents[..];
        for level in &expected {
            let (these, others) = rest.split_at_checked(level.len()).expect("as many as expected");
            prop_assert_eq!(&these.iter().map(|found| number(&found.uid)).collect::<BTreeSet<_>>(), level);
            rest = others;
        }
        prop_assert_eq!(rest.len(), 0);
        let in_tree: BTreeSet<usize> = expected.into_iter().flatten().chain([owner]).collect();
        for dependent in &found.dependents {
            let own = number(&dependent.uid);
            let thing = &things[own];
            let owners: BTreeSet<usize> = thing.owners.iter().copied().filter(|owner| *owner != own && in_tree.contains(owner)).collect();
            prop_assert_eq!(dependent.owners.iter().map(|owner| number(&owner.uid)).collect::<BTreeSet<_>>(), owners);
            prop_assert_eq!((&*dependent.namespace, &*dependent.kind), (thing.namespace, &*format!("Thing{}", thing.kind)));
        }
    }
}

/// An owner `root` with `first` dependents, and below each of these a chain of others.
fn chains(first: usize, length: usize) -> Vec<Value> {
    let mut objects = Vec::new();
    for chain in 0..first {
        for place in 0..length {
            let owner = if place == 0 { "root".to_owned() } else { format!("{chain}-{}", place - 1) };
            let uid = format!("{chain}-{place}");
            objects.push(object(&format!("ns{chain}"), &format!("o{uid}"), &uid, &[owner]));
        }
    }
    objects
}

#[test]
fn a_walk_that_reaches_a_limit_says_so_and_returns_what_it_found() {
    let options = WalkOptions::default();
    let resources = [stored(0, Scope::Namespaced, &chains(4, 3))];
    for (options, scope, count, truncated, why) in [
        (options, SearchScope::All, 12, None, "the usual limits"),
        (
            WalkOptions { dependents: 5, ..options },
            SearchScope::All,
            5,
            Some("the result has only the first 5 dependents"),
            "dependents",
        ),
        (WalkOptions { dependents: 12, ..options }, SearchScope::All, 12, None, "as many as there are"),
        (
            WalkOptions { levels: 2, ..options },
            SearchScope::All,
            8,
            Some("the result has only the first 2 levels"),
            "levels",
        ),
        (WalkOptions { levels: 1, ..options }, SearchScope::All, 4, None, "a caller that wants one level"),
        (WalkOptions { reads: 7, ..options }, SearchScope::All, 7, Some("the maximum of 7 objects was read"), "reads"),
        (
            WalkOptions { candidates: 3, ..options },
            SearchScope::All,
            0,
            Some("more than 3 references to owners were found in one level, which is too many to read"),
            "candidates",
        ),
        (
            WalkOptions { bytes: 1, ..options },
            SearchScope::All,
            0,
            Some("the result has only the first 0 dependents, because more would exceed its maximum memory"),
            "memory",
        ),
    ] {
        let stores: Vec<SearchedStore> =
            everywhere(&resources).into_iter().map(|store| SearchedStore { scope: scope.clone(), ..store }).collect();
        let (found, held) = found_and_held(&stores, "root", options);
        assert_eq!((found.dependents.len(), found.truncated.as_deref()), (count, truncated), "{why}");
        let bytes: usize = found.dependents.iter().map(Dependent::held_bytes).sum();
        assert!(held >= bytes, "{why}: {held} bytes for {bytes}");
    }
}

#[test]
fn candidates_of_other_namespaces_do_not_count() {
    let resources = [stored(0, Scope::Namespaced, &chains(9, 1))];
    let within = |namespace: &str| {
        let scope = SearchScope::Namespace(namespace.into());
        let stores: Vec<SearchedStore> =
            everywhere(&resources).into_iter().map(|store| SearchedStore { scope: scope.clone(), ..store }).collect();
        let found = found(&stores, "root", WalkOptions { candidates: 1, ..WalkOptions::default() });
        (found.dependents.len(), found.truncated)
    };
    assert_eq!(within("ns3"), (1, None));
    assert_eq!(within("none"), (0, None));
}

/// Objects in the namespace `b` that each have all these owners, which are in `a` and have the owner `root`.
fn shared_owners(owners: usize, dependents: usize) -> Vec<Value> {
    let uids: Vec<String> = (0..owners).map(|number| format!("owner-{number}")).collect();
    let owner = |uid: &String| object("a", uid, uid, &["root".to_owned()]);
    let dependent = |number| object("b", &format!("d{number}"), &format!("d{number}"), &uids);
    uids.iter().map(owner).chain((0..dependents).map(dependent)).collect()
}

#[test]
fn each_reference_to_an_owner_of_the_level_counts() {
    let resources = [stored(0, Scope::Namespaced, &shared_owners(5, 4))];
    for (candidates, count) in [(20, 9), (19, 5)] {
        let found = found(&everywhere(&resources), "root", WalkOptions { candidates, ..WalkOptions::default() });
        assert_eq!((found.dependents.len(), found.truncated.is_some()), (count, count < 9), "{candidates}");
    }
}

/// The objects of other namespaces are not read, so only the index takes time.
#[test]
fn the_index_of_owners_is_looked_at_in_turns() {
    let resources = [stored(0, Scope::Namespaced, &shared_owners(100, 800))];
    let mut stores = everywhere(&resources);
    stores[0].scope = SearchScope::Namespace("a".into());
    let mut walk = pin!(walk(&stores, "root", WalkOptions::default(), |_| Ok::<(), Infallible>(())));
    let mut turns = 1;
    let found = loop {
        match walk.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(found)) => break found,
            Poll::Pending => turns += 1,
        }
    };
    assert_eq!((found.dependents.len(), found.truncated), (100, None));
    assert!(turns >= 4, "{turns} turns for 80,000 entries");
}

#[test]
fn an_object_with_the_hash_of_an_owner_but_another_uid_is_no_dependent() {
    let resource = crate::registry::tests::resource("things0");
    let mut store = Store::new(HistoryLimits::default());
    let mut other = object("a", "other", "u1", &["another".to_owned()]);
    other["metadata"]["resourceVersion"] = json!("1");
    let mut record = resource.extractor.extract(Bytes::from(other.to_string())).unwrap();
    record.texts.owners = OwnerHashes::from_uids(["root"]);
    store.apply(&record);
    resource.state.publish(LoadState::Ready(store.snapshot()));
    let found = found(&everywhere(&[resource]), "root", WalkOptions::default());
    assert_eq!(found, FoundDependents::default());
}

#[test]
fn an_object_of_two_groups_is_found_once() {
    let same = [object("a", "one", "u1", &["root".to_owned()])];
    let resources = [stored(0, Scope::Namespaced, &same), stored(1, Scope::Namespaced, &same)];
    let found = found(&everywhere(&resources), "root", WalkOptions::default());
    let kinds: Vec<&str> = found.dependents.iter().map(|found| &*found.kind).collect();
    assert_eq!(kinds, ["Thing0"]);
}

#[test]
fn the_state_of_an_object_is_read_as_its_kind_writes_it() {
    let ready = |status: &str, reason: &str| json!({"type": "Ready", "status": status, "reason": reason});
    let other = json!({"type": "Initialized", "status": "True", "reason": "Other"});
    for (object, expected, why) in [
        (json!({}), ["", "", ""], "nothing"),
        (
            json!({"status": {"phase": "Running", "conditions": [other, ready("True", "")]}}),
            ["True", "", "Running"],
            "a Pod",
        ),
        (
            json!({"status": {"conditions": [ready("False", "ContainersNotReady")]}}),
            ["False", "ContainersNotReady", ""],
            "a reason",
        ),
        (
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": {"phase": "Running"}}),
            ["", "", "Terminating"],
            "an object that is being deleted",
        ),
        (
            json!({"metadata": {"generation": 2}, "status": {"observedGeneration": 1}}),
            ["", "", "InProgress"],
            "a new generation",
        ),
        (
            json!({"metadata": {"generation": 2}, "status": {"observedGeneration": 2}}),
            ["", "", ""],
            "an observed generation",
        ),
        (json!({"metadata": {"generation": 2}}), ["", "", ""], "a kind without observed generations"),
        (json!({"metadata": [], "status": {"phase": 7, "conditions": {"type": "Ready"}}}), ["", "", ""], "other types"),
        (json!({"status": "Running"}), ["", "", ""], "a status that is a text"),
    ] {
        let read = Candidate::read(object.to_string().as_bytes(), |_| true).unwrap();
        let ObjectStatus { ready, reason, phase } = &read.status;
        assert_eq!([&**ready, reason, phase], expected, "{why}");
    }
    let long = json!({"status": {"phase": "\u{e9}".repeat(1_000)}}).to_string();
    assert_eq!(Candidate::read(long.as_bytes(), |_| true).unwrap().status.phase.chars().count(), 128, "256 bytes");
    assert_eq!(Candidate::read(b"{", |_| true), None, "not JSON");
}

#[test]
fn one_owner_occurs_once_and_keeps_its_controller() {
    let references =
        json!([{"uid": "b"}, {"uid": "a"}, {"uid": "b", "controller": true}, {"uid": "b"}, {"uid": 1}, {"uid": "c"}]);
    let object = json!({"metadata": {"ownerReferences": references}}).to_string();
    let read = Candidate::read(object.as_bytes(), |uid| uid != "c").unwrap();
    let owner = |uid: &str, controller| Owner { uid: uid.to_owned(), controller };
    assert_eq!(read.owners, [owner("a", false), owner("b", true)]);
}

#[test]
fn many_owners_of_one_object_are_shown_up_to_a_limit() {
    let parents: Vec<Value> = (0..100)
        .map(|number| object("a", &format!("p{number}"), &format!("p{number}"), &["root".to_owned()]))
        .collect();
    let owners: Vec<String> = (0..100).map(|number| format!("p{number}")).chain(["root".to_owned()]).collect();
    let children = [object("a", "child", "child", &owners[..100]), object("a", "sibling", "sibling", &owners)];
    let resources = [stored(0, Scope::Namespaced, &parents), stored(1, Scope::Namespaced, &children)];
    let found = found(&everywhere(&resources), "root", WalkOptions::default());
    let owners: BTreeMap<&str, &Vec<Owner>> =
        found.dependents.iter().map(|found| (&*found.uid, &found.owners)).collect();
    assert_eq!((owners.len(), owners["child"].len(), owners["p7"].len()), (102, 16, 1));
    let first = |uid: &str| owners[uid][0].uid.clone();
    assert_eq!((owners["sibling"].len(), &*first("sibling")), (16, "root"), "the owner through which it was found");
}

#[test]
fn one_version_of_each_resource_is_searched() {
    use crate::registry::{ApiGroup, Catalog, VersionInfo};
    let of = |version: &str, is_complete: bool| {
        let resource = crate::registry::tests::resource("things");
        let resource = Resource { gvr: Gvr::new("g", version, "things"), ..Resource::clone(&resource) };
        if is_complete {
            resource.state.publish(LoadState::Ready(Store::new(HistoryLimits::default()).snapshot()));
        }
        Arc::new(resource)
    };
    for (v1, v2, expected) in [(true, true, "v2"), (true, false, "v1"), (false, true, "v2"), (false, false, "v2")] {
        let group = ApiGroup { name: "g".to_owned(), versions: vec!["v2".to_owned(), "v1".to_owned()] };
        let catalog = Catalog::new(vec![group], [of("v1", v1), of("v2", v2)], VersionInfo::default());
        let chosen = super::preferred(&catalog);
        let versions: Vec<String> = chosen.iter().map(|resource| resource.gvr.version.to_string()).collect();
        assert_eq!(versions, [expected], "v1 is complete: {v1}, v2 is complete: {v2}");
    }
}

#[test]
fn texts_of_objects_are_short_and_have_no_control_characters() {
    let read = |reason: &str| {
        let condition = json!({"type": "Ready", "status": "False", "reason": reason});
        let object = json!({"metadata": {"uid": "u"}, "status": {"conditions": [condition]}}).to_string();
        Candidate::read(object.as_bytes(), |_| true).unwrap().status.reason
    };
    for (reason, expected, why) in [
        ("Failed", "Failed".to_owned(), "a usual reason"),
        ("a\u{1b}[31m\nb", "a [31m b".to_owned(), "what a terminal would obey"),
        (&*"\u{1f600}".repeat(65), "\u{1f600}".repeat(64), "at most 256 bytes, in whole characters"),
        (&*format!("a{}", "\u{1f600}".repeat(64)), format!("a{}", "\u{1f600}".repeat(63)), "the last one does not fit"),
    ] {
        assert_eq!(read(reason), expected, "{why}");
    }
}
