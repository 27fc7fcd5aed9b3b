//! Cached and shared results, and the budget of failures.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Context;
use std::time::Duration;

use tokio::time::{Instant, advance, sleep};

use crate::access::cache_key_hasher::CacheKeyHasher;
use crate::access::failure_rate_limiter::{EVERY, JWT_TRIES, TRIES, TokenClass, TokenFailures};
use crate::access::single_flight::{CacheKey, CacheResult, SingleFlightCache};

/// Even numbers are kept for ten seconds.
fn flights(most: usize) -> Arc<SingleFlightCache<u64>> {
    SingleFlightCache::new(most, |answer| (answer % 2 == 0).then_some(Duration::from_secs(10)))
}

fn key(number: u8) -> CacheKey {
    [number; 32]
}

/// Whether it has not ended when it is looked at once.
fn is_pending<Answer>(flight: &mut (impl Future<Output = Answer> + Unpin)) -> bool {
    let waker = futures::task::noop_waker();
    Pin::new(flight).poll(&mut Context::from_waker(&waker)).is_pending()
}

async fn slowly(answer: u64, calls: Arc<AtomicUsize>) -> u64 {
    calls.fetch_add(1, Ordering::Relaxed);
    sleep(Duration::from_secs(1)).await;
    answer
}

#[tokio::test(start_paused = true)]
async fn equal_simultaneous_requests_share_one_review() {
    let (flights, calls) = (flights(10), Arc::new(AtomicUsize::new(0)));
    for answer in [2, 3] {
        let all = (0..50).map(|_| flights.get(key(answer as u8), || slowly(answer, calls.clone())));
        let had = futures::future::join_all(all).await;
        assert!(had.iter().all(|(found, _)| *found == answer), "{answer}");
        assert_eq!(had.iter().filter(|(_, had)| *had == CacheResult::Miss).count(), 1, "{answer}");
        assert_eq!(had.iter().filter(|(_, had)| *had == CacheResult::Shared).count(), 49, "{answer}");
    }
    assert_eq!(calls.load(Ordering::Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn answers_are_cached_for_their_time_or_not_at_all() {
    let (flights, calls) = (flights(10), Arc::new(AtomicUsize::new(0)));
    let rows = [
        (2, 0, CacheResult::Miss, "first"),
        (2, 9, CacheResult::Hit, "within its time"),
        (2, 2, CacheResult::Miss, "after it"),
        (3, 0, CacheResult::Miss, "one that is not kept"),
        (3, 0, CacheResult::Miss, "once more"),
    ];
    for (answer, seconds, expected, what) in rows {
        advance(Duration::from_secs(seconds)).await;
        let (found, had) = flights.get(key(answer as u8), || slowly(answer, calls.clone())).await;
        assert_eq!((found, had), (answer, expected), "{what}");
    }
    assert_eq!(flights.cached(&key(2)), Some(2));
    assert_eq!(flights.cached(&key(3)), None);
}

#[tokio::test(start_paused = true)]
async fn a_review_continues_without_its_first_caller_and_ends_with_the_last() {
    let (flights, calls) = (flights(10), Arc::new(AtomicUsize::new(0)));
    let mut first = Box::pin(flights.get(key(2), || slowly(2, calls.clone())));
    assert!(is_pending(&mut first));
    let mut second = Box::pin(flights.get(key(2), || slowly(2, calls.clone())));
    assert!(is_pending(&mut second));
    drop(first);
    assert_eq!(second.await, (2, CacheResult::Shared));
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    let mut only = Box::pin(flights.get(key(4), || slowly(4, calls.clone())));
    assert!(is_pending(&mut only));
    drop(only);
    assert_eq!(
        flights.get(key(4), || slowly(4, calls.clone())).await,
        (4, CacheResult::Miss),
        "no task polls it any more"
    );
    assert_eq!(calls.load(Ordering::Relaxed), 3);
}

#[tokio::test(start_paused = true)]
async fn the_least_recently_used_answer_goes_first() {
    let (flights, calls) = (flights(3), Arc::new(AtomicUsize::new(0)));
    for number in [2u8, 4, 6, 2, 8] {
        flights.get(key(number), || slowly(u64::from(number), calls.clone())).await;
    }
    let kept: Vec<bool> = [2, 4, 6, 8].map(|number| flights.cached(&key(number)).is_some()).into();
    assert_eq!(kept, [true, false, true, true]);
}

#[test]
fn a_key_distinguishes_texts_and_their_boundaries_and_belongs_to_the_process() {
    let hasher = CacheKeyHasher::new().unwrap();
    let key_of = |texts: &[&str]| hasher.key(texts.iter().map(|text| text.as_bytes()));
    assert_eq!(key_of(&["ab", "c"]), key_of(&["ab", "c"]));
    for other in [&["a", "bc"][..], &["abc"], &["ab", "c", ""], &["ab", "d"]] {
        assert_ne!(key_of(&["ab", "c"]), key_of(other), "{other:?}");
    }
    assert_ne!(CacheKeyHasher::new().unwrap().key([&b"abc"[..]]), key_of(&["abc"]));
}

#[tokio::test(start_paused = true)]
async fn an_address_has_its_tries_and_gets_them_back_with_time() {
    let (buckets, address) = (TokenFailures::default(), IpAddr::from([10, 0, 0, 1]));
    let take = |address: IpAddr| buckets.take(TokenClass::Failed, address, Instant::now());
    assert_eq!((0..TRIES * 2).filter(|_| take(address)).count(), TRIES as usize);
    assert!(take(IpAddr::from([10, 0, 0, 2])), "another address has its own");
    let new = |_: &u32| buckets.take(TokenClass::NewJwt, address, Instant::now());
    assert_eq!((0..JWT_TRIES * 2).filter(new).count(), JWT_TRIES as usize, "and so has another class of tokens");
    advance(EVERY * 3).await;
    assert_eq!((0..10).filter(|_| take(address)).count(), 3);
    buckets.give_back(TokenClass::Failed, address, Instant::now());
    assert_eq!((0..10).filter(|_| take(address)).count(), 1, "one that was no failure is given back");
    advance(EVERY * TRIES * 5).await;
    assert_eq!((0..TRIES * 2).filter(|_| take(address)).count(), TRIES as usize, "never more than a full bucket");
}

#[tokio::test(start_paused = true)]
async fn a_client_with_many_addresses_has_one_bucket_or_none() {
    let buckets = TokenFailures::default();
    let take = |address: IpAddr| buckets.take(TokenClass::Failed, address, Instant::now());
    let near = |number: u16| IpAddr::from([0x2001, 0xdb8, 0, 1, 0, 0, 0, number]);
    assert_eq!((0..500).filter(|number| take(near(*number))).count(), TRIES as usize, "a /64 is one place");
    let mapped = "::ffff:10.0.0.9".parse().unwrap();
    let plain = IpAddr::from([10, 0, 0, 9]);
    assert_eq!(
        (0..TRIES * 2).filter(|number| take(if number % 2 == 0 { mapped } else { plain })).count(),
        TRIES as usize
    );
    let taken = (0..6000u32).filter(|number| take(IpAddr::from((0x0b00_0000 + number).to_be_bytes()))).count();
    let bounds = 4000 + TRIES as usize..=4096 + TRIES as usize;
    assert!(bounds.contains(&taken), "the table is bounded, and all further addresses share one bucket: {taken}");
    advance(EVERY * TRIES).await;
    assert!(take(IpAddr::from([12, 0, 0, 1])), "and is cleared of what is full again");
}
