//! Leader election by a Lease of coordination.k8s.io, as in client-go.
//!
//! Every replica serves reads; only the leader writes statuses. The holder renews its Lease. Another replica takes the
//! Lease over if it has not changed for its duration. The replica measures that since it saw the last change, so clocks
//! need not agree. A holder that cannot renew stops writing before another one can begin. [`lease_action`] decides
//! without a clock, and [`run`] acts.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::api_error::{LastProblem, described};

/// The settings of the election.
#[derive(Clone, Debug)]
pub struct Election {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// The name of this replica, unique among replicas, such as its Pod's name.
    pub identity: String,
    /// How long others wait for a holder that does not renew.
    pub lease_duration: Duration,
    /// A holder that has not renewed for this long stops writing; shorter than the lease.
    pub renew_deadline: Duration,
    /// How often the holder renews the Lease, and others read it.
    pub retry_period: Duration,
}

/// See [`Election::lease_duration`]. These are client-go's defaults.
pub const LEASE_DURATION: Duration = Duration::from_secs(15);
/// See [`Election::renew_deadline`].
pub const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// See [`Election::retry_period`].
pub const RETRY_PERIOD: Duration = Duration::from_secs(2);

/// What to do about a Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeaseAction {
    /// This replica holds the Lease: renew it.
    Renew,
    /// The Lease is released or expired: take it.
    Take,
    /// Another replica holds the Lease.
    Wait,
}

/// What the replica `identity` does about the Lease `current`, which has not changed for `unchanged`. A Lease without a
/// valid duration counts as expired.
pub(super) fn lease_action(current: &LeaseSpec, identity: &str, unchanged: Duration) -> LeaseAction {
    let holder = current.holder_identity.as_deref().unwrap_or_default();
    let seconds = u64::try_from(current.lease_duration_seconds.unwrap_or_default()).unwrap_or_default();
    if holder == identity {
        LeaseAction::Renew
    } else if holder.is_empty() || unchanged >= Duration::from_secs(seconds) {
        LeaseAction::Take
    } else {
        LeaseAction::Wait
    }
}

/// The Lease after this replica has acquired or renewed it at `now`. `current` is the Lease before; `None`: there is
/// none. `leaseTransitions` is incremented when the holder changes.
pub(super) fn next_lease(current: Option<&LeaseSpec>, election: &Election, now: MicroTime) -> LeaseSpec {
    let is_ours = current.and_then(|current| current.holder_identity.as_ref()) == Some(&election.identity);
    let transitions = current.and_then(|current| current.lease_transitions);
    LeaseSpec {
        holder_identity: Some(election.identity.clone()),
        lease_duration_seconds: i32::try_from(election.lease_duration.as_secs()).ok(),
        acquire_time: current
            .filter(|_| is_ours)
            .and_then(|current| current.acquire_time.clone())
            .or(Some(now.clone())),
        renew_time: Some(now),
        lease_transitions: match (current, is_ours) {
            (None, _) => Some(0),
            (Some(_), true) => transitions,
            (Some(_), false) => Some(transitions.unwrap_or_default() + 1),
        },
        ..LeaseSpec::default()
    }
}

/// Takes part in the election until the future is dropped, and sends to `leading` whether this replica is the leader.
pub async fn run(client: Client, election: Election, leading: &watch::Sender<bool>) -> ! {
    let leases: Api<Lease> = Api::namespaced(client, &election.namespace);
    // The last state of the Lease, and since when it has not changed.
    let mut seen: Option<(LeaseSpec, Instant)> = None;
    let mut renewed = Instant::now();
    let mut logged = LastProblem::default();
    loop {
        let began = Instant::now();
        let attempt = timeout(election.renew_deadline, acquire_or_renew(&leases, &election, &mut seen)).await;
        let holds = match attempt {
            Ok(Ok(holds)) => {
                logged.forget();
                Some(holds)
            }
            Ok(Err(error)) => {
                let problem = described(&error);
                if logged.record_if_new(&problem) {
                    tracing::warn!(lease = %election.name, problem, "cannot read or write the Lease, retrying");
                }
                None
            }
            Err(_) => {
                tracing::warn!(lease = %election.name, "the request for the Lease timed out, retrying");
                None
            }
        };
        if holds == Some(true) {
            // The time before the request. Other replicas measure from a later time, so they take the Lease only after
            // this one has stopped.
            renewed = began;
        }
        let leads = match holds {
            Some(holds) => holds,
            // Nothing is known: a leader stays leader until its deadline, and others do not become leader.
            None => *leading.borrow() && renewed.elapsed() < election.renew_deadline,
        };
        leading.send_if_modified(|leading| {
            let changed = *leading != leads;
            if changed {
                let message = match leads {
                    true => "this replica is now the leader: it writes statuses and SelectableResources",
                    false => "this replica is no longer the leader: it does not write statuses and SelectableResources",
                };
                tracing::info!(lease = %election.name, identity = %election.identity, leads, "{message}");
            }
            *leading = leads;
            changed
        });
        sleep(election.retry_period).await;
    }
}

/// Releases the Lease, so that another replica need not wait until it expires. A failure is only logged: the process is
/// ending.
///
/// The caller has dropped [`run`], but a renewal that [`run`] had sent may still reach the API server between the read
/// and the write here. Then the write conflicts, and the Lease is read again.
pub async fn release(client: Client, election: &Election) {
    let leases: Api<Lease> = Api::namespaced(client, &election.namespace);
    let released = async {
        loop {
            let mut lease = leases.get(&election.name).await?;
            let spec = lease.spec.get_or_insert_default();
            if spec.holder_identity.as_ref() != Some(&election.identity) {
                return Ok::<_, kube::Error>(());
            }
            spec.holder_identity = Some(String::new());
            // The shortest duration that the API server accepts, as client-go sets it.
            spec.lease_duration_seconds = Some(1);
            if is_written(leases.replace(&election.name, &PostParams::default(), &lease).await)? {
                return Ok(());
            }
        }
    };
    match timeout(election.renew_deadline, released).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            tracing::debug!(problem = described(&error), "cannot release the Lease; it expires by itself")
        }
        Err(_) => tracing::debug!("the request to release the Lease timed out; it expires by itself"),
    }
}

/// Reads the Lease once, and acquires or renews it if [`lease_action`] says so. Returns whether this replica holds it.
/// `seen` keeps the last state of the Lease, and since when it has not changed, between calls.
///
/// # Errors
/// The Lease cannot be read or written. A conflict is not an error: another replica holds the Lease.
async fn acquire_or_renew(
    leases: &Api<Lease>,
    election: &Election,
    seen: &mut Option<(LeaseSpec, Instant)>,
) -> Result<bool, kube::Error> {
    let now = || MicroTime(jiff::Timestamp::now());
    let Some(mut lease) = leases.get_opt(&election.name).await? else {
        let metadata = ObjectMeta { name: Some(election.name.clone()), ..ObjectMeta::default() };
        let lease = Lease { metadata, spec: Some(next_lease(None, election, now())) };
        return is_written(leases.create(&PostParams::default(), &lease).await);
    };
    let current = lease.spec.clone().unwrap_or_default();
    let since = match seen {
        Some((last, since)) if *last == current => *since,
        _ => Instant::now(),
    };
    *seen = Some((current.clone(), since));
    match lease_action(&current, &election.identity, since.elapsed()) {
        LeaseAction::Wait => Ok(false),
        LeaseAction::Renew | LeaseAction::Take => {
            // With the resourceVersion that was read: if two replicas take the Lease at once, the API server rejects
            // one.
            lease.spec = Some(next_lease(Some(&current), election, now()));
            is_written(leases.replace(&election.name, &PostParams::default(), &lease).await)
        }
    }
}

/// Whether a write of the Lease succeeded; false for a conflict: another writer was faster.
fn is_written(response: Result<Lease, kube::Error>) -> Result<bool, kube::Error> {
    match response {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
        Err(error) => Err(error),
    }
}
