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
    let mut keepers = SyncSupervisor::default();
    keepers.start(broken.clone(), panics(Duration::ZERO));
    keepers.start(sound.clone(), std::future::pending());
    sound.state.publish(LoadState::Idle);
    for (times, base) in [800, 1_600, 3_200, 6_400].into_iter().enumerate() {
        let fallen = keepers.next_ended().await.unwrap().unwrap();
        assert_eq!(fallen.resource.gvr, broken.gvr);
        let bounds = Duration::from_millis(base)..=Duration::from_millis(2 * base);
        assert!(bounds.contains(&fallen.delay), "{times}: {:?}", fallen.delay);
        assert_eq!(broken.state.panics(), times as u64 + 1);
        assert!(matches!(broken.state.load_state(), LoadState::Loading(_)), "its readers wait for the new copy");
        keepers.replace(fallen, panics(Duration::from_secs(1)));
    }
    let fallen = keepers.next_ended().await.unwrap().unwrap();
    keepers.replace(fallen, panics(Duration::from_secs(300)));
    let fallen = keepers.next_ended().await.unwrap().unwrap();
    assert!(fallen.delay <= Duration::from_millis(1_600), "it went well for long: {:?}", fallen.delay);
    timeout(Duration::from_secs(999), keepers.next_ended()).await.expect_err("the other one goes on");
    assert!(matches!(sound.state.load_state(), LoadState::Idle));
    assert_eq!(sound.state.panics(), 0);
}

#[tokio::test]
async fn one_that_ends_with_its_resource_is_forgotten() {
    let mut keepers = SyncSupervisor::default();
    assert!(keepers.next_ended().await.is_none(), "there is none");
    let gone = resource();
    keepers.start(gone.clone(), std::future::ready(()));
    assert!(keepers.next_ended().await.unwrap().is_none());
    assert_eq!(gone.state.panics(), 0);
    assert!(keepers.next_ended().await.is_none());
}
