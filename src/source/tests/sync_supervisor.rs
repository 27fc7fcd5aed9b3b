//! Sync tasks that end, and sync tasks that panic.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::feed::resource;
use crate::registry::LoadState;
use crate::source::sync_supervisor::SyncSupervisor;

async fn panics(after: Duration) {
    sleep(after).await;
    panic!("a defect");
}

#[tokio::test(start_paused = true)]
async fn one_that_panics_is_counted_and_waits_longer_each_time() {
    let (broken, sound) = (resource(), resource());
    let mut supervisor = SyncSupervisor::default();
    supervisor.start(broken.clone(), panics(Duration::ZERO));
    supervisor.start(sound.clone(), std::future::pending());
    sound.state.publish(LoadState::Idle);
    for (times, base) in [800, 1_600, 3_200, 6_400].into_iter().enumerate() {
        let panicked = supervisor.next_ended().await.unwrap().unwrap();
        assert_eq!(panicked.resource.gvr, broken.gvr);
        let bounds = Duration::from_millis(base)..=Duration::from_millis(2 * base);
        assert!(bounds.contains(&panicked.delay), "{times}: {:?}", panicked.delay);
        assert_eq!(broken.state.panics(), times as u64 + 1);
        assert!(matches!(broken.state.load_state(), LoadState::Loading(_)), "its readers wait for the new store");
        supervisor.replace(panicked, panics(Duration::from_secs(1)));
    }
    let panicked = supervisor.next_ended().await.unwrap().unwrap();
    supervisor.replace(panicked, panics(Duration::from_secs(300)));
    let panicked = supervisor.next_ended().await.unwrap().unwrap();
    assert!(panicked.delay <= Duration::from_millis(1_600), "it went well for long: {:?}", panicked.delay);
    timeout(Duration::from_secs(999), supervisor.next_ended()).await.expect_err("the other one goes on");
    assert!(matches!(sound.state.load_state(), LoadState::Idle));
    assert_eq!(sound.state.panics(), 0);
}

#[tokio::test]
async fn one_that_ends_with_its_resource_is_forgotten() {
    let mut supervisor = SyncSupervisor::default();
    assert!(supervisor.next_ended().await.is_none(), "there is none");
    let gone = resource();
    supervisor.start(gone.clone(), std::future::ready(()));
    assert!(supervisor.next_ended().await.unwrap().is_none());
    assert_eq!(gone.state.panics(), 0);
    assert!(supervisor.next_ended().await.is_none());
}
