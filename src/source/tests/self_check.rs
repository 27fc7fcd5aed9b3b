//! The self-check beside an obviously correct comparison, with pages as a source would send them. Its effect on a
//! running fieldcache is tested beside a real API server in `e2e`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use proptest::collection::btree_map;
use proptest::prelude::{Strategy, any};
use proptest::{prop_assert_eq, proptest};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use super::feed::{object, resource};
use crate::model::{Key, Version};
use crate::registry::{CheckOutcome, LoadState, Resource, UnreadableNames};
use crate::source::connection::RequestError;
use crate::source::feed::{Feed, SourceEvent};
use crate::source::metadata_pages::Pages;
use crate::source::self_check::{CheckResult, Difference, Differing, SelfCheck, check};
use crate::source::watch_decoder::MetadataPage;
use crate::store::HistoryLimits;

/// Namespace and name -> version.
pub(super) type Objects = BTreeMap<String, u64>;

/// What a source answers next: each list in turn, the last one again and again.
pub(super) struct Listed {
    lists: Vec<Objects>,
    /// Objects in a page.
    page: usize,
    /// The version that lists say they show.
    version: u64,
    is_in_order: bool,
    pub(super) requested: Mutex<Vec<String>>,
    begun: AtomicU64,
}

impl Listed {
    pub(super) fn new(lists: impl IntoIterator<Item = Objects>) -> Listed {
        let lists = lists.into_iter().collect();
        Listed { lists, page: 2, version: 50, is_in_order: true, requested: Mutex::default(), begun: AtomicU64::new(0) }
    }
}

impl Listed {
    /// One list of this version, with so many objects in a page.
    pub(super) fn at(version: u64, page: usize, objects: Objects) -> Listed {
        Listed { version, page, ..Listed::new([objects]) }
    }
}

impl Pages for Listed {
    async fn page(&self, path: &str) -> Result<MetadataPage, RequestError> {
        self.requested.lock().unwrap().push(path.to_owned());
        let from: usize = path.split_once("continue=").map_or(0, |(_, from)| from.parse().unwrap());
        if from == 0 {
            self.begun.fetch_add(1, Ordering::Relaxed);
        }
        let list = (self.begun.load(Ordering::Relaxed) as usize).min(self.lists.len()) - 1;
        let mut entries: Vec<(Key, Option<Version>)> = self.lists[list]
            .iter()
            .map(|(key, version)| (Key::new("", key), Some(Version::new(*version)).filter(|_| *version > 0)))
            .collect();
        if !self.is_in_order {
            entries.reverse();
        }
        let next = if from + self.page < entries.len() { (from + self.page).to_string() } else { String::new() };
        let remaining = entries.len().checked_sub(from + self.page).filter(|left| *left > 0).map(|left| left as u64);
        let entries = entries.into_iter().skip(from).take(self.page).collect();
        Ok(MetadataPage { entries, version: Version::new(self.version), next, remaining })
    }
}

/// A source that answers nothing but this.
struct Refusing(RequestError);

impl Pages for Refusing {
    async fn page(&self, _: &str) -> Result<MetadataPage, RequestError> {
        Err(self.0.clone())
    }
}

fn refused(code: u16, too_large_version: bool) -> RequestError {
    RequestError::Status {
        url: "http://source".to_owned(),
        path: "/x".to_owned(),
        code,
        message: "no".to_owned(),
        too_large_version,
        retry_after: None,
    }
}

pub(super) fn objects(objects: &[(&str, u64)]) -> Objects {
    objects.iter().map(|(key, version)| ((*key).to_owned(), *version)).collect()
}

/// A feed that holds these objects of namespace `a` at version 50.
pub(super) fn holding(stored: &Objects) -> (Arc<Resource>, Feed) {
    let resource = resource();
    let mut feed = Feed::new(resource.clone(), HistoryLimits::default());
    feed.take(SourceEvent::Begin);
    for (key, version) in stored {
        feed.take(SourceEvent::Item(object(key.strip_prefix("a/").unwrap(), *version)));
    }
    feed.take(SourceEvent::Commit(Version::new(50)));
    feed.publish();
    (resource, feed)
}

fn difference(verdict: CheckResult) -> Option<Difference> {
    match verdict {
        CheckResult::Same => None,
        CheckResult::Differs(difference) => Some(difference),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_difference_is_found_and_its_first_object_named() {
    let stored = objects(&[("a/b", 3), ("a/d", 4), ("a/f", 5)]);
    let differing = |key: &str, listed: Option<u64>, stored: Option<u64>| Differing {
        key: key.to_owned(),
        listed: listed.map(Version::new),
        stored: stored.map(Version::new),
    };
    for (listed, first, why) in [
        (&[("a/b", 3), ("a/d", 4), ("a/f", 5)][..], None, "the same"),
        (&[("a/b", 3), ("a/d", 6), ("a/f", 5)], Some(differing("a/d", Some(6), Some(4))), "a change that was lost"),
        (&[("a/b", 3), ("a/d", 2), ("a/f", 5)], Some(differing("a/d", Some(2), Some(4))), "an older one"),
        (&[("a/d", 4), ("a/f", 5)], Some(differing("a/b", None, Some(3))), "a deletion that was lost, the first"),
        (&[("a/b", 3), ("a/f", 5)], Some(differing("a/d", None, Some(4))), "one in the middle"),
        (&[("a/b", 3), ("a/d", 4)], Some(differing("a/f", None, Some(5))), "the last"),
        (&[], Some(differing("a/b", None, Some(3))), "all of them"),
        (&[("a/b", 3), ("a/c", 9), ("a/d", 4), ("a/f", 5)], Some(differing("a/c", Some(9), None)), "a creation"),
        (&[("a/a", 9), ("a/b", 3), ("a/d", 4), ("a/f", 5)], Some(differing("a/a", Some(9), None)), "the first"),
        (&[("a/b", 3), ("a/d", 4), ("a/f", 5), ("a/g", 9)], Some(differing("a/g", Some(9), None)), "the last"),
        (
            &[("a/b", 3), ("a/d", 5), ("a/f", 4)],
            Some(differing("a/d", Some(5), Some(4))),
            "versions that changed places",
        ),
        (&[("a/b", 3), ("a/d", 0), ("a/f", 5)], Some(differing("a/d", None, Some(4))), "a version that is no number"),
        (&[("a/b", 3), ("a-/d", 4), ("a/f", 5)], Some(differing("a-/d", Some(4), None)), "another namespace"),
    ] {
        let (resource, _feed) = holding(&stored);
        let pages = Listed::new([objects(listed)]);
        let found = difference(check(&pages, "/api/v1/configmaps", "", &resource.state).await);
        let counts = found.as_ref().map(|found| (found.version.number(), found.listed, found.stored));
        assert_eq!(counts, first.is_some().then_some((50, listed.len() as u64, 3)), "{why}");
        assert_eq!(found.and_then(|found| found.first), first, "{why}");
        assert_eq!(pages.begun.load(Ordering::Relaxed), if first.is_some() { 2 } else { 1 }, "{why}: lists");
    }
}

#[tokio::test]
async fn the_list_is_of_metadata_at_the_version_of_the_store_in_pages() {
    let stored = objects(&[("a/b", 3), ("a/d", 4), ("a/f", 5)]);
    let (resource, _feed) = holding(&stored);
    let pages = Listed::new([stored]);
    assert!(matches!(check(&pages, "/api/v1/configmaps", "", &resource.state).await, CheckResult::Same));
    let requested = pages.requested.into_inner().unwrap();
    let expected = [
        "/api/v1/configmaps?limit=500&resourceVersion=50&resourceVersionMatch=Exact",
        "/api/v1/configmaps?limit=500&continue=2",
    ];
    assert_eq!(requested, expected);
}

#[tokio::test]
async fn only_a_second_list_makes_a_mismatch() {
    let stored = objects(&[("a/b", 3)]);
    let (resource, _feed) = holding(&stored);
    let pages = Listed::new([objects(&[]), stored]);
    assert!(matches!(check(&pages, "/x", "", &resource.state).await, CheckResult::Same), "the first one was wrong");
    assert_eq!(pages.begun.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_list_in_another_order_is_the_same_list() {
    let stored = objects(&[("a/b", 3), ("a/d", 4), ("a/f", 5)]);
    let (resource, _feed) = holding(&stored);
    let pages = Listed { is_in_order: false, ..Listed::new([stored]) };
    assert!(matches!(check(&pages, "/x", "", &resource.state).await, CheckResult::Same));
    let pages = Listed { is_in_order: false, ..Listed::new([objects(&[("a/b", 3), ("a/d", 4)])]) };
    let found = difference(check(&pages, "/x", "", &resource.state).await).unwrap();
    assert_eq!((found.listed, found.stored, found.first), (2, 3, None), "the first one cannot be named");
}

#[tokio::test]
async fn objects_that_cannot_be_read_are_on_neither_side() {
    let (resource, mut feed) = holding(&objects(&[("a/b", 3), ("a/d", 4)]));
    let unreadable = |name: &str| {
        Bytes::from(format!(r#"{{"metadata":{{"name":"{name}","namespace":"a","resourceVersion":"?"}}}}"#))
    };
    feed.take(SourceEvent::Upsert(unreadable("d")));
    feed.take(SourceEvent::Upsert(unreadable("z")));
    feed.publish();
    let lists = |version: u64| {
        let list = objects(&[("a/b", 3), ("a/d", 0), ("a/z", 0)]);
        Listed { version, ..Listed::new([list]) }
    };
    assert!(matches!(check(&lists(50), "/x", "", &resource.state).await, CheckResult::Same));
    feed.take(SourceEvent::Upsert(object("d", 60)));
    feed.publish();
    let found = difference(check(&lists(60), "/x", "", &resource.state).await).unwrap();
    assert_eq!(found.first.map(|first| first.key), Some("a/d".to_owned()), "it can be read again, so it counts again");

    // The name is reported as unreadable before the store removes the object.
    let names: BTreeSet<String> = ["a/b", "a/d", "a/z"].map(str::to_owned).into();
    resource.state.publish_unreadable(UnreadableNames { names, are_all: true });
    assert!(matches!(check(&lists(60), "/x", "", &resource.state).await, CheckResult::Same));

    for number in 0..1_000 {
        feed.take(SourceEvent::Upsert(unreadable(&format!("n{number}"))));
    }
    feed.publish();
    let verdict = check(&lists(60), "/x", "", &resource.state).await;
    assert!(matches!(verdict, CheckResult::Skipped(_)), "more than are remembered: {verdict:?}");
}

/// Two Events whose names differ in bytes that are not UTF-8.
struct Alike;

impl Pages for Alike {
    async fn page(&self, _: &str) -> Result<MetadataPage, RequestError> {
        let entry = |name: &str, version| (Key::new("a", name), Some(Version::new(version)));
        let entries = vec![entry("b", 3), entry("dup\u{fffd}", 4), entry("dup\u{fffd}", 5), entry("e", 6)];
        Ok(MetadataPage { entries, version: Version::new(50), next: String::new(), remaining: None })
    }
}

#[tokio::test]
async fn objects_whose_names_are_equal_in_json_are_not_compared() {
    let (resource, _feed) = holding(&objects(&[("a/b", 3), ("a/dup\u{fffd}", 5), ("a/e", 6)]));
    let verdict = check(&Alike, "/x", "", &resource.state).await;
    assert!(matches!(verdict, CheckResult::Same), "{verdict:?}");
    let (resource, _feed) = holding(&objects(&[("a/b", 3), ("a/dup\u{fffd}", 5), ("a/e", 7)]));
    let found = difference(check(&Alike, "/x", "", &resource.state).await).unwrap();
    assert_eq!(found.first.map(|first| first.key), Some("a/e".to_owned()));
}

#[tokio::test]
async fn what_cannot_be_compared_is_skipped_and_what_is_refused_has_failed() {
    let stored = objects(&[("a/b", 3)]);
    let (resource, mut feed) = holding(&stored);
    for (error, outcome) in [
        (refused(410, false), CheckOutcome::Skipped),
        (refused(504, true), CheckOutcome::Skipped),
        (refused(504, false), CheckOutcome::Failed),
        (refused(403, false), CheckOutcome::Failed),
        (refused(406, false), CheckOutcome::Failed),
        (refused(429, false), CheckOutcome::Failed),
    ] {
        let what = error.to_string();
        assert_eq!(check(&Refusing(error), "/x", "", &resource.state).await.outcome(), outcome, "{what}");
    }
    let newest = Listed { version: 51, ..Listed::new([stored.clone()]) };
    assert_eq!(
        check(&newest, "/x", "", &resource.state).await.outcome(),
        CheckOutcome::Skipped,
        "a list of another version"
    );

    feed.take(SourceEvent::Begin);
    let pages = Listed::new([stored]);
    assert_eq!(
        check(&pages, "/x", "", &resource.state).await.outcome(),
        CheckOutcome::Skipped,
        "a relist is under way"
    );
    assert_eq!(pages.begun.load(Ordering::Relaxed), 0, "and is not disturbed");
    feed.take(SourceEvent::Abort);
    assert_eq!(check(&pages, "/x", "", &resource.state).await.outcome(), CheckOutcome::Ok, "it broke off");
    resource.state.publish(LoadState::Loading("again".to_owned()));
    assert_eq!(check(&pages, "/x", "", &resource.state).await.outcome(), CheckOutcome::Skipped, "nothing is loaded");
}

/// A source whose store is replaced while it lists.
struct Replacing(Listed, Mutex<Feed>);

impl Pages for Replacing {
    async fn page(&self, path: &str) -> Result<MetadataPage, RequestError> {
        {
            let mut feed = self.1.lock().unwrap();
            feed.invalidate();
            feed.take(SourceEvent::Begin);
            feed.take(SourceEvent::Commit(Version::new(50)));
            feed.publish();
        }
        self.0.page(path).await
    }
}

#[tokio::test]
async fn a_store_that_was_replaced_meanwhile_is_not_compared() {
    let (resource, feed) = holding(&objects(&[("a/b", 3)]));
    let pages = Replacing(Listed::new([objects(&[])]), Mutex::new(feed));
    assert_eq!(check(&pages, "/x", "", &resource.state).await.outcome(), CheckOutcome::Skipped);
}

#[tokio::test(start_paused = true)]
async fn checks_come_at_their_interval_and_more_seldom_when_they_help_nothing() {
    let (resource, _feed) = holding(&objects(&[("a/b", 3)]));
    let turn = Arc::new(Semaphore::new(1));
    let interval = Duration::from_secs(100);
    let within = |waited: Duration, factor: u32, what: &str| {
        let (shortest, longest) = (interval * factor / 2, interval * factor * 3 / 2);
        assert!((shortest..=longest + Duration::from_millis(9)).contains(&waited), "{what}: {waited:?}");
    };
    let mut wrong = SelfCheck::new(Listed::new([objects(&[])]), resource.clone(), interval, turn.clone());
    for factor in [1, 2, 4, 8, 16, 32, 64, 64] {
        let begun = Instant::now();
        wrong.mismatch().await;
        within(begun.elapsed(), factor, "a mismatch that comes back");
    }
    assert_eq!(resource.state.checks().count_of(CheckOutcome::Mismatch), 8);

    let right = objects(&[("a/b", 3)]);
    // Right, wrong for both lists of a check, right, wrong.
    let lists = [right.clone(), objects(&[]), objects(&[]), right, objects(&[])];
    let mut healed = SelfCheck::new(Listed::new(lists), resource.clone(), interval, turn.clone());
    let begun = Instant::now();
    healed.mismatch().await;
    assert_eq!(resource.state.checks().count_of(CheckOutcome::Ok), 1);
    assert!(begun.elapsed() <= interval * 3, "two checks");
    let begun = Instant::now();
    healed.mismatch().await;
    assert_eq!(resource.state.checks().count_of(CheckOutcome::Ok), 2);
    assert!(begun.elapsed() <= interval * 9 / 2, "one at twice the interval, and one at the usual one again");

    let stored = turn.clone().acquire_owned().await.unwrap();
    let before = CheckOutcome::ALL.map(|outcome| resource.state.checks().count_of(outcome));
    timeout(interval * 1_000, healed.mismatch()).await.unwrap_err();
    let after = CheckOutcome::ALL.map(|outcome| resource.state.checks().count_of(outcome));
    assert_eq!(before, after, "it is another one's turn");
    drop(stored);
    healed.mismatch().await;
}

/// A source whose lists never end.
struct Endless;

impl Pages for Endless {
    async fn page(&self, _: &str) -> Result<MetadataPage, RequestError> {
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn a_check_that_does_not_end_leaves_its_turn_to_others() {
    let (slow, _slow_feed) = holding(&objects(&[("a/b", 3)]));
    let (other, _other_feed) = holding(&objects(&[("a/b", 3)]));
    let turn = Arc::new(Semaphore::new(1));
    let interval = Duration::from_secs(100);
    let mut endless = SelfCheck::new(Endless, slow.clone(), interval, turn.clone());
    let mut wrong = SelfCheck::new(Listed::new([objects(&[])]), other.clone(), interval * 4, turn.clone());
    let found = timeout(interval * 60, async {
        tokio::select! {
            () = endless.mismatch() => panic!("nothing was compared"),
            () = wrong.mismatch() => {}
        }
    });
    found.await.expect("the other one is checked");
    assert_eq!(slow.state.checks().count_of(CheckOutcome::Skipped), 1);
}

/// Objects of few names and versions, so that sides often agree in part.
fn sides() -> impl Strategy<Value = (Objects, Objects, BTreeSet<String>)> {
    let some = || btree_map("a/[a-e]{1,2}", 1u64..4, 0..12);
    (some(), some(), any::<[bool; 2]>(), proptest::collection::btree_set("a/[a-e]{1,2}", 0..3)).prop_map(
        |(stored, other, [is_near, has_unreadable], unreadable)| {
            let listed = if is_near {
                stored.iter().chain(other.iter().take(1)).map(|(key, version)| (key.clone(), *version)).collect()
            } else {
                other
            };
            (stored, listed, if has_unreadable { unreadable } else { BTreeSet::new() })
        },
    )
}

proptest! {
    #[test]
    fn the_verdict_is_that_of_a_plain_comparison((stored, listed, unreadable) in sides()) {
        let (resource, mut feed) = holding(&stored);
        for key in &unreadable {
            let name = key.strip_prefix("a/").unwrap();
            let text = format!(r#"{{"metadata":{{"name":"{name}","namespace":"a","resourceVersion":"?"}}}}"#);
            feed.take(SourceEvent::Upsert(Bytes::from(text)));
        }
        feed.publish();
        let readable = |side: &Objects| -> Objects {
            side.iter().filter(|(key, _)| !unreadable.contains(*key)).map(|(key, version)| (key.clone(), *version)).collect()
        };
        let (plain_stored, plain_listed) = (readable(&stored), readable(&listed));
        let keys: BTreeSet<&String> = plain_stored.keys().chain(plain_listed.keys()).collect();
        let first = keys.into_iter().find(|key| plain_stored.get(*key) != plain_listed.get(*key));
        let pages = Listed { version: feed.version().number(), ..Listed::new([listed]) };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let found = difference(runtime.block_on(check(&pages, "/x", "", &resource.state)));
        prop_assert_eq!(found.is_some(), plain_stored != plain_listed);
        let found = found.and_then(|found| found.first);
        prop_assert_eq!(found.as_ref().map(|first| &first.key), first);
        if let Some(found) = found {
            let version_of = |side: &Objects| side.get(&found.key).copied().map(Version::new);
            prop_assert_eq!((found.stored, found.listed), (version_of(&plain_stored), version_of(&plain_listed)));
        }
    }
}
