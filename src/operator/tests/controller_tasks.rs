//! That no controller waits for another one, on a runtime with threads as the program has it.

use std::collections::BTreeSet;
use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use http_body_util::Full;
use kube::Client;
use tokio::sync::watch;
use tokio::time::timeout;
use tower::service_fn;

use crate::operator::controller_tasks::{ControllerTasks, compute};
use crate::operator::election::Election;
use crate::operator::views::Address;
use crate::operator::{Controllers, run};
use crate::registry::{Catalog, Registry};

/// The stages that were reached, for tasks that block their thread until then.
#[derive(Default)]
struct Reached(Mutex<BTreeSet<&'static str>>, Condvar);

impl Reached {
    fn note(&self, what: &'static str) {
        self.0.lock().unwrap().insert(what);
        self.1.notify_all();
    }

    fn forget(&self) {
        self.0.lock().unwrap().clear();
    }

    /// Blocks the thread. Gives up after a while, so that a test that fails ends.
    fn block(&self, wanted: &[&'static str]) -> bool {
        let lacks = |reached: &mut BTreeSet<&'static str>| !wanted.iter().all(|what| reached.contains(what));
        let reached = self.1.wait_timeout_while(self.0.lock().unwrap(), Duration::from_secs(20), lacks).unwrap();
        !reached.1.timed_out()
    }
}

/// Judging can keep a thread busy for long. The Lease must be renewed meanwhile, and a missing admission policy must be noticed.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_election_and_the_policies_go_on_while_a_controller_is_busy() {
    let reached = Arc::new(Reached::default());
    let (stages, is_free) = (reached.clone(), Arc::new(AtomicBool::new(false)));
    let result = is_free.clone();
    let service = service_fn(move |request: http::Request<kube::client::Body>| {
        let (stages, result, path) = (stages.clone(), result.clone(), request.uri().path().to_owned());
        async move {
            // The client repeats requests that fail.
            if path.contains("/leases/") {
                stages.note("lease");
            } else if path.contains("/validatingadmissionpolicies") {
                stages.note("policy");
            } else if path.ends_with("/fieldcaches") {
                // In the task that evaluates them.
                stages.forget();
                result.store(stages.block(&["lease", "policy"]), Ordering::Release);
                stages.note("judged");
            } else {
                pending::<()>().await;
            }
            Err::<http::Response<Full<bytes::Bytes>>, _>(std::io::Error::other("not answered"))
        }
    });
    let client = Client::new(service, "default");
    let election = Election {
        namespace: "default".to_owned(),
        name: "fieldcache".to_owned(),
        identity: "one".to_owned(),
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_millis(1),
    };
    let (definitions, authorities) = (watch::Sender::default(), watch::Sender::default());
    let operator = Controllers {
        client,
        registry: Arc::new(Registry::new(Catalog::default())),
        definitions: definitions.subscribe(),
        election,
        always_cached: BTreeSet::new(),
        wanted: watch::Sender::default(),
        store_options: watch::Sender::default(),
        synced: Arc::default(),
        address: Address { base: String::new(), authorities: authorities.subscribe() },
        reported: Arc::default(),
    };
    let waiting = reached.clone();
    let ended = tokio::task::spawn_blocking(move || waiting.block(&["judged"]));
    tokio::select! {
        () = run(operator) => unreachable!("the controllers never end"),
        ended = ended => assert!(ended.unwrap(), "the FieldCaches were listed"),
    }
    assert!(is_free.load(Ordering::Acquire), "the Lease and the policies were read while the other task was busy");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_end_with_their_owner_and_a_panic_of_one_is_the_owners() {
    let marker = Arc::new(());
    let mut tasks = ControllerTasks::default();
    let of_task = marker.clone();
    tasks.start(async move {
        pending::<()>().await;
        drop(of_task);
    });
    tasks.start(async { panic!("a defect") });
    let mut owner = tokio::task::JoinSet::from_iter([tasks.run()]);
    let ended = timeout(Duration::from_secs(20), owner.join_next()).await.expect("the owner ends with its task");
    let panic = ended.unwrap().unwrap_err().into_panic();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"a defect"));
    let dropped = async {
        while Arc::strong_count(&marker) > 1 {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(20), dropped).await.expect("the other task ends with its owner");
}

#[tokio::test]
async fn what_is_computed_apart_leaves_the_thread_to_others() {
    let reached = Arc::new(Reached::default());
    let waiting = reached.clone();
    let (computed, ()) = tokio::join!(compute(move || waiting.block(&["other"])), async { reached.note("other") });
    assert!(computed, "the other future went on in the only thread");
    let panicking = async { compute(|| panic!("a defect")).await };
    let panic = tokio::task::JoinSet::from_iter([panicking]).join_next().await.unwrap().unwrap_err();
    assert!(panic.is_panic());
}
