//! The router of watches with its subscriptions and prepared changes: what routing alone is measured on.
//!
//! Nothing is encoded and nothing is sent: a subscription takes its changes and throws them away, between the stretches
//! that are timed. Its reader sleeps meanwhile, so that each change wakes a task.

use std::sync::Arc;
use std::task::{Context as TaskContext, Waker};

use anyhow::{Context, Result};
use fieldcache::crd::Crd;
use fieldcache::extract::Extractor;
use fieldcache::model::{Record, Version};
use fieldcache::query::{FieldTerm, Selection};
use fieldcache::registry::event_dispatcher::{EventDispatcher, MailboxContents, Subscription};
use fieldcache::selector::Operator;
use fieldcache::store::{HistoryLimits, RelistMode, Snapshot, Store};

use crate::corpus::shirts::Shirts;

/// A store's states, one after the other, and the subscriptions.
#[derive(Debug)]
pub struct Routing {
    selections: Vec<Selection>,
    /// The state before all changes.
    first: Snapshot,
    /// Stretches of states. In each, every object changes once.
    stretches: Vec<Vec<Snapshot>>,
}

/// A router whose subscriptions have taken everything and sleep.
#[derive(Debug)]
pub struct Ready {
    router: Arc<EventDispatcher>,
    subscriptions: Vec<Subscription>,
}

impl Routing {
    /// As many shirts as subscriptions; each subscription selects one shirt through a value that no other shirt has.
    /// There are `stretches` changes of each, so many of them in a snapshot.
    ///
    /// # Errors
    /// When the corpus cannot be read.
    pub fn prepare(subscriptions: u64, stretches: u64, changes_a_snapshot: u64) -> Result<Routing> {
        let shirts = Shirts { count: subscriptions, ..Shirts::default() };
        let definition = Crd::read(&shirts.definition()).context("the corpus's definition")?;
        let plan = Extractor::custom_resource(&definition, "v1");
        let mut selections = Vec::new();
        let mut store = Store::new(HistoryLimits::default());
        store.begin_list();
        let mut version = subscriptions + 2_000;
        for index in 0..subscriptions {
            let object = shirts.stored(index);
            let value = object["spec"]["serial"].as_str().unwrap_or_default().to_owned();
            let field = plan.resolve("spec.serial").context("the corpus has serial numbers")?;
            let term = FieldTerm::new(field, Operator::equal_to(value));
            selections.push(Selection { fields: vec![term], ..Selection::default() });
            store.list(&read(&plan, object.to_string())?);
        }
        store.commit_list(Version::new(version), RelistMode::TrustVersions);
        let first = store.snapshot();
        let mut prepared = Vec::new();
        for _ in 0..stretches {
            let mut snapshots = Vec::new();
            for index in 0..subscriptions {
                version += 1;
                let mut object = shirts.stored(index);
                object["spec"]["order"] = format!("O-v{version}").into();
                let mut record = read(&plan, object.to_string())?;
                record.version = Version::new(version);
                store.apply(&record);
                if (index + 1) % changes_a_snapshot == 0 || index + 1 == subscriptions {
                    snapshots.push(store.snapshot());
                }
            }
            prepared.push(snapshots);
        }
        Ok(Routing { selections, first, stretches: prepared })
    }

    /// A new router in the first state.
    #[must_use]
    pub fn ready(&self) -> Ready {
        let router = Arc::<EventDispatcher>::default();
        router.route(&self.first);
        let subscriptions = self.selections.iter().map(|selection| router.subscribe(selection, false)).collect();
        let ready = Ready { router, subscriptions };
        ready.take();
        ready
    }

    /// The stretches, which have to be routed in their order.
    #[must_use]
    pub fn stretches(&self) -> &[Vec<Snapshot>] {
        &self.stretches
    }
}

impl Ready {
    /// Routes the changes of one stretch.
    pub fn route(&self, stretch: &[Snapshot]) {
        stretch.iter().for_each(|snapshot| self.router.route(snapshot));
    }

    /// All tasks take what has come and sleep again. Returns how many changes that were.
    pub fn take(&self) -> usize {
        let mut context = TaskContext::from_waker(Waker::noop());
        let mut taken = 0;
        for subscription in &self.subscriptions {
            if let MailboxContents::Changes { changes, .. } = subscription.take() {
                taken += changes.len();
            }
            // Changes are reported once; the second question finds none and leaves the waker.
            while std::pin::pin!(subscription.changed()).poll(&mut context).is_ready() {}
        }
        taken
    }
}

fn read(plan: &Extractor, object: String) -> Result<Record> {
    plan.extract(object.into()).map_err(|error| anyhow::anyhow!("an object of the corpus cannot be read: {error}"))
}
