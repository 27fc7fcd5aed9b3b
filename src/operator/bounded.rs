//! Events of the objects that fit into an [`ObjectBudget`].
//!
//! Objects that do not fit are only in the API server. When there is space again, for instance because an older object
//! was deleted, all objects are listed again.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use kube::runtime::watcher::{Error, Event};
use tokio::time::{Instant, sleep_until};

use super::lenient::{Lenient, Replaceable};
use super::object_budget::{BudgetChange, ObjectBudget};

/// The shortest time between two lists, however often older objects are created and deleted.
pub(super) const LIST_AGAIN_AFTER: Duration = Duration::from_secs(30);

/// After a list, the next one begins at the earliest after this many times its duration: changes of objects wait for
/// the end of a list.
const PAUSE_FACTOR: u32 = 50;

/// The events of a watcher.
pub(super) type EventStream<K> = BoxStream<'static, Result<Event<Lenient<K>>, Error>>;

struct Bounded<K, Begin> {
    events: EventStream<K>,
    /// Returns a new stream, which lists all objects and then watches them.
    begin: Begin,
    budget: ObjectBudget,
    /// The objects of a list that is not complete, by name. Their events are yielded when the list is complete, because
    /// a later object of the list can displace them.
    listing: BTreeMap<String, K>,
    /// When the last list was complete; `None` during a list.
    listed: Option<Instant>,
    /// When the last list began.
    begun: Instant,
    /// How long the last complete list took.
    took: Duration,
    /// Events to yield next.
    ready: VecDeque<Event<K>>,
}

/// The events of the objects that fit into the budget. `begin` returns a stream that lists all objects and then watches
/// them. `shorten` drops the parts of an object that are not read.
pub(super) fn bounded<K: Replaceable + Send + 'static>(
    mut begin: impl FnMut() -> EventStream<K> + Send,
    mut shorten: impl FnMut(&mut K) + Send,
) -> impl Stream<Item = Result<Event<K>, Error>> + Send {
    let state = Bounded {
        events: begin(),
        begin,
        budget: ObjectBudget::new(K::LIMITS),
        listing: BTreeMap::new(),
        listed: None,
        begun: Instant::now(),
        took: Duration::ZERO,
        ready: VecDeque::new(),
    };
    let shorten = move |Lenient(mut object): Lenient<K>| {
        shorten(&mut object);
        object
    };
    stream::unfold((state, shorten), |(mut state, mut shorten)| async move {
        loop {
            if let Some(event) = state.ready.pop_front() {
                return Some((Ok(event), (state, shorten)));
            }
            // The time of the next list; `None` during a list, and while nothing that was left out would fit.
            let pause = LIST_AGAIN_AFTER.max(state.took * PAUSE_FACTOR);
            let again = state.listed.filter(|_| state.budget.has_space()).map(|listed| listed + pause);
            let event = tokio::select! {
                event = state.events.next() => event?,
                () = sleep_until(again.unwrap_or_else(Instant::now)), if again.is_some() => {
                    state.listed = None;
                    state.events = (state.begin)();
                    continue;
                }
            };
            match event {
                Ok(Event::Init) => {
                    (state.listed, state.begun) = (None, Instant::now());
                    state.budget.clear();
                    state.listing.clear();
                }
                Ok(Event::InitApply(object)) => {
                    let BudgetChange { retained: kept, gone } = state.budget.admit(shorten(object));
                    state.listing.extend(kept.into_iter().map(|object| (name(&object), object)));
                    gone.iter().for_each(|object| drop(state.listing.remove(&name(object))));
                }
                Ok(Event::InitDone) => {
                    (state.listed, state.took) = (Some(Instant::now()), state.begun.elapsed());
                    let listed = std::mem::take(&mut state.listing).into_values().map(Event::InitApply);
                    state.ready.extend([Event::Init].into_iter().chain(listed).chain([Event::InitDone]));
                }
                Ok(Event::Apply(object)) => {
                    let BudgetChange { retained: kept, gone } = state.budget.admit(shorten(object));
                    state.ready.extend(kept.into_iter().map(Event::Apply));
                    state.ready.extend(gone.into_iter().map(Event::Delete));
                }
                Ok(Event::Delete(object)) => {
                    let object = shorten(object);
                    state.budget.remove(&name(&object));
                    state.listing.remove(&name(&object));
                    state.ready.push_back(Event::Delete(object));
                }
                Err(error) => return Some((Err(error), (state, shorten))),
            }
        }
    })
}

/// The name of an object; empty if it has none.
fn name<K: Replaceable>(object: &K) -> String {
    object.meta().name.clone().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use futures::{StreamExt, stream};
    use kube::ResourceExt;
    use kube::runtime::watcher::Event;
    use serde_json::json;
    use tokio::time::{Instant, timeout};

    use super::super::lenient::{Lenient, Replaceable};
    use super::super::object_budget::ObjectLimits;
    use super::{LIST_AGAIN_AFTER, bounded};
    use crate::kinds::{Absence, FieldCache, View};

    const LIMITS: ObjectLimits = ObjectLimits::WRITTEN_BY_USERS;

    /// A View of an age, smaller numbers being older, with a spec of about so many bytes.
    fn view(number: usize, second: usize, bytes: usize) -> Lenient<View> {
        let namespaces: Vec<String> = (0..bytes / 63).map(|name| format!("{name:060}")).collect();
        let created = format!("2026-01-02T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60);
        let view = json!({
            "apiVersion": "fieldcache.dev/v1alpha1", "kind": "View",
            "metadata": {"name": format!("view-{number}"), "generation": 3, "creationTimestamp": created},
            "spec": {"resources": [{"group": "stable.example.com", "resource": "shirts", "namespaces": namespaces}]},
        });
        serde_json::from_value(view).unwrap()
    }

    fn listed<K>(objects: Vec<Lenient<K>>) -> Vec<Event<Lenient<K>>> {
        [Event::Init].into_iter().chain(objects.into_iter().map(Event::InitApply)).chain([Event::InitDone]).collect()
    }

    fn applied<K>(objects: Vec<Lenient<K>>) -> Vec<Event<Lenient<K>>> {
        [Event::Init, Event::InitDone].into_iter().chain(objects.into_iter().map(Event::Apply)).collect()
    }

    /// What is kept after these events, by name. Each inner list is what one watch sees, until it is followed by another one.
    async fn kept<K: Replaceable + Clone + Send + Sync + 'static>(
        watches: Vec<Vec<Event<Lenient<K>>>>,
    ) -> (BTreeMap<String, K>, usize, Duration) {
        let begun = Arc::new(Mutex::new(0));
        let (mut watches, counted, start) = (watches.into_iter(), begun.clone(), Instant::now());
        let begin = move || {
            *counted.lock().unwrap() += 1;
            stream::iter(watches.next().unwrap_or_default()).map(Ok).chain(stream::pending()).boxed()
        };
        let mut events = Box::pin(bounded(begin, |_: &mut K| {}));
        let (mut objects, mut listing, mut last) = (BTreeMap::new(), BTreeMap::new(), start);
        while let Ok(Some(event)) = timeout(LIST_AGAIN_AFTER * 10, events.next()).await {
            last = Instant::now();
            match event.unwrap() {
                Event::Init => listing.clear(),
                Event::InitApply(object) => drop(listing.insert(object.name_any(), object)),
                Event::InitDone => objects = std::mem::take(&mut listing),
                Event::Apply(object) => drop(objects.insert(object.name_any(), object)),
                Event::Delete(object) => drop(objects.remove(&object.name_any())),
            }
        }
        let begun = *begun.lock().unwrap();
        (objects, begun, last - start)
    }

    /// In a list of Views, a name of a pruned path can have two bytes.
    #[test]
    fn names_of_pruned_paths_count_beside_their_text() {
        let length = |list: &str, path: String| {
            let shown = json!({"resource": "pods", list: [path]});
            let view: Lenient<View> = serde_json::from_value(json!({
                "apiVersion": "fieldcache.dev/v1alpha1", "kind": "View", "metadata": {"name": "v"}, "spec": {"resources": [shown]},
            }))
            .unwrap();
            view.0.spec_length()
        };
        for list in ["prune", "keep"] {
            let length_with = |names: usize| length(list, format!(".spec{}", ".a".repeat(names)));
            assert_eq!(length_with(200) - length_with(100), 100 * (2 + 48), "{list}");
        }
    }

    /// Changes wait for the end of a list, which for thousands of objects takes seconds.
    #[tokio::test(start_paused = true)]
    async fn long_lists_are_made_rarely() {
        let took = Duration::from_secs(7);
        let all: Vec<_> = (0..LIMITS.objects + 1).map(|number| view(number, number, 0)).collect();
        let begun = Arc::new(Mutex::new(Vec::new()));
        let noted = begun.clone();
        let begin = move || {
            noted.lock().unwrap().push(Instant::now());
            let list = listed(all.clone());
            let (deleted, last) = (Event::Delete(all[3].clone()), list.len() - 1);
            let paced = move |(place, event)| async move {
                tokio::time::sleep(if place == last { took } else { Duration::ZERO }).await;
                Ok(event)
            };
            stream::iter(list.into_iter().enumerate())
                .then(paced)
                .chain(stream::iter([Ok(deleted)]))
                .chain(stream::pending())
                .boxed()
        };
        let mut events = Box::pin(bounded(begin, |_: &mut View| {}));
        while begun.lock().unwrap().len() < 3 {
            events.next().await.unwrap().unwrap();
        }
        let begun = begun.lock().unwrap();
        for pair in begun.windows(2) {
            assert!(pair[1] - pair[0] >= took * 50, "{:?}", pair[1] - pair[0]);
        }
    }

    fn counts(stored: &BTreeMap<String, View>) -> BTreeMap<&'static str, usize> {
        stored.values().fold(BTreeMap::new(), |mut counts, view| {
            let what = match view.spec.absent {
                None => "whole",
                Some(Absence::TooLong) => "too long",
                Some(Absence::CrowdedOut) => "crowded out",
                Some(Absence::Unreadable(_)) => "unreadable",
            };
            *counts.entry(what).or_default() += 1;
            counts
        })
    }

    #[tokio::test(start_paused = true)]
    async fn views_are_kept_up_to_a_number_and_a_length() {
        let length = view(0, 0, LIMITS.longest - 1_000).0.spec_length();
        let fitting = LIMITS.excess / (length - LIMITS.free);
        let make_views = |count: usize, bytes| (0..count).map(|number| view(number, number, bytes)).collect::<Vec<_>>();
        for (views, expected, what) in [
            (make_views(3, 100), &[("whole", 3)][..], "a few"),
            (make_views(1, LIMITS.longest + 100), &[("too long", 1)], "a long one"),
            (make_views(LIMITS.objects + 2, 0), &[("crowded out", 2), ("whole", LIMITS.objects)], "many"),
            (
                make_views(fitting + 9, LIMITS.longest - 1_000),
                &[("crowded out", 9), ("whole", fitting)],
                "many long ones",
            ),
            (
                make_views(LIMITS.names + 7, 0),
                &[("crowded out", LIMITS.names - LIMITS.objects), ("whole", LIMITS.objects)],
                "more than names are kept of",
            ),
        ] {
            let reversed = views.iter().rev().cloned().collect::<Vec<_>>();
            let (stored, _, _) = kept(vec![listed(views)]).await;
            assert_eq!(counts(&stored), expected.iter().copied().collect(), "{what}");
            assert_eq!(stored["view-0"].spec.absent.is_none(), what != "a long one", "the oldest of {what}");
            // In the other order, younger ones have to make room.
            for events in [listed(reversed.clone()), applied(reversed)] {
                let (stored, _, _) = kept(vec![events]).await;
                assert_eq!(counts(&stored), expected.iter().copied().collect(), "{what}, in reverse");
                let is_whole = stored["view-0"].spec.absent.is_none();
                assert_eq!(is_whole, what != "a long one", "the oldest of {what}, in reverse");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn no_view_takes_the_place_of_an_older_one() {
        let old = (0..LIMITS.objects).map(|number| view(number, 100 + number, 0)).collect::<Vec<_>>();
        // It comes, is edited, and comes again; then an older one comes, as if it had been restored.
        let mut events = listed(old);
        events.extend([view(9_000, 9_000, 0), view(9_000, 9_000, 200), view(9_001, 9_001, 0)].map(Event::Apply));
        let (stored, begun, _) = kept(vec![events.clone()]).await;
        assert_eq!(counts(&stored), BTreeMap::from([("crowded out", 2), ("whole", LIMITS.objects)]));
        assert_eq!((stored["view-0"].spec.absent.clone(), begun), (None, 1), "nothing is listed again");
        events.push(Event::Apply(view(7, 50, 0)));
        events.push(Event::Apply(view(10_000, 50, 0)));
        let (stored, _, _) = kept(vec![events]).await;
        assert_eq!(counts(&stored), BTreeMap::from([("crowded out", 3), ("whole", LIMITS.objects)]));
        let youngest = &stored[&format!("view-{}", LIMITS.objects - 1)];
        assert_eq!((&youngest.spec.absent, youngest.metadata.generation), (&Some(Absence::CrowdedOut), Some(3)));
    }

    #[tokio::test(start_paused = true)]
    async fn growth_of_older_views_leaves_small_ones_served() {
        // 150 older Views of one author, and two younger Views of another: one within 2 KiB and one beyond it.
        let mut events = listed((0..150).map(|number| view(number, number, 0)).collect());
        events.extend([view(9_000, 9_000, 1_500), view(9_001, 9_001, 3_000)].map(Event::Apply));
        let (stored, _, _) = kept(vec![events.clone()]).await;
        assert_eq!(counts(&stored), BTreeMap::from([("whole", 152)]));
        events.extend((0..150).map(|number| Event::Apply(view(number, number, 60_000))));
        let (stored, begun, _) = kept(vec![events.clone()]).await;
        assert_eq!(stored["view-9000"].spec.absent, None, "it is small");
        assert_eq!(stored["view-9001"].spec.absent, Some(Absence::CrowdedOut), "it is the youngest that is long");
        assert_eq!((stored["view-0"].spec.absent.clone(), begun), (None, 1), "nothing is listed again");
        // An object that becomes short is served at once, although others wait.
        events.push(Event::Apply(view(149, 149, 1_500)));
        let (stored, _, _) = kept(vec![events.clone()]).await;
        assert_eq!(stored["view-149"].spec.absent, None);
        // A small one that comes later is served too, and a long one is not.
        events.extend([view(9_002, 9_002, 1_500), view(9_003, 9_003, 3_000)].map(Event::Apply));
        let (stored, _, _) = kept(vec![events]).await;
        assert_eq!(stored["view-9002"].spec.absent, None);
        assert_eq!(stored["view-9003"].spec.absent, Some(Absence::CrowdedOut));
    }

    #[tokio::test(start_paused = true)]
    async fn objects_that_were_left_out_are_read_again_when_there_is_room() {
        let all = (0..=LIMITS.objects).map(|number| view(number, number, 0)).collect::<Vec<_>>();
        let without = |gone: usize| all.iter().filter(move |view| view.0.name_any() != format!("view-{gone}")).cloned();
        let mut first = listed(all.clone());
        first.push(Event::Delete(all[5].clone()));
        let (stored, begun, took) = kept(vec![first.clone(), listed(without(5).collect())]).await;
        assert_eq!((counts(&stored), begun), (BTreeMap::from([("whole", LIMITS.objects)]), 2));
        assert!(took >= LIST_AGAIN_AFTER, "{took:?}");
        // A younger one does not take the place that an older one waits for.
        let mut early = listed(all.clone());
        early.extend([Event::Delete(all[5].clone()), Event::Apply(view(9_000, 9_000, 0))]);
        let (stored, _, _) = kept(vec![early]).await;
        assert_eq!(stored["view-9000"].spec.absent, Some(Absence::CrowdedOut));
        // What is left out goes by itself, and what is served is only edited.
        let mut first = listed(all.clone());
        first.extend([Event::Delete(all[LIMITS.objects].clone()), Event::Apply(view(3, 3, 500))]);
        assert_eq!(kept(vec![first]).await.1, 1);
        // One that has become short makes room.
        let long = LIMITS.longest - 1_000;
        let fitting = LIMITS.excess / (view(0, 0, long).0.spec_length() - LIMITS.free);
        let long = (0..=fitting).map(|number| view(number, number, long)).collect::<Vec<_>>();
        let mut first = listed(long.clone());
        first.push(Event::Apply(view(2, 2, 0)));
        let mut second = long;
        second[2] = view(2, 2, 0);
        let (stored, begun, _) = kept(vec![first, listed(second)]).await;
        assert_eq!((counts(&stored), begun), (BTreeMap::from([("whole", fitting + 1)]), 2));
    }

    #[tokio::test(start_paused = true)]
    async fn field_caches_are_bounded_too() {
        let field_cache = |number: usize| -> Lenient<FieldCache> {
            let values: Vec<String> = (0..5_000).map(|value| format!("{value:030}")).collect();
            let values = if number == 0 { values } else { Vec::new() };
            let requirement = json!([{"key": "app", "operator": "In", "values": values}]);
            serde_json::from_value(json!({
                "apiVersion": "fieldcache.dev/v1alpha1", "kind": "FieldCache",
                "metadata": {"name": format!("r{number}"), "creationTimestamp": "2026-01-02T03:04:05Z"},
                "spec": {"resource": format!("r{number}"), "scope": {"labelSelector": {"matchExpressions": requirement}}},
            }))
            .unwrap()
        };
        let (stored, _, _) = kept(vec![listed((0..LIMITS.objects + 3).map(field_cache).collect())]).await;
        assert_eq!(stored["r0"].spec.absent, Some(Absence::TooLong));
        assert_eq!(stored.values().filter(|stored| stored.spec.absent == Some(Absence::CrowdedOut)).count(), 3);
    }
}
