//! Walks from an owner to its dependents, level by level, over the indexes of owners of all stores.
//!
//! The index gives candidates: objects whose owners have the hash of a wanted uid. Each candidate is read, and counts
//! only if it names the uid itself. An object occurs once, so cycles end. The limits below bound the work and the
//! result; a walk that reaches one says so. Stores are read one after the other, each in its newest state, so the
//! result is not of one point in time. No snapshot is held while the walk waits for its next turn.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::future::Future;
use std::sync::Arc;

use super::candidate::Candidate;
use super::document::{Dependent, MOST_OWNERS_SHOWN};
use crate::flow_control::long_work::{WorkMeter, count_work, wait_to_read};
use crate::model::{Gvr, Scope, fnv1a};
use crate::query::work::yield_to_others;
use crate::registry::{LoadState, Resource};
use crate::store::Object;

/// The limits of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalkOptions {
    /// The maximum number of dependents.
    pub dependents: usize,
    /// The maximum number of levels; 1 finds only the dependents of the owner itself.
    pub levels: usize,
    /// The maximum number of objects that are read. More can be read than are found, because an object with very many
    /// owners is a candidate for each owner.
    pub reads: usize,
    /// The maximum number of candidates of all stores in one level, including those that the caller may not list.
    pub candidates: usize,
    /// The maximum number of permissions that are decided for single namespaces.
    pub permissions: usize,
}

impl Default for WalkOptions {
    /// Trees that people look at have some ten to some hundred objects.
    fn default() -> WalkOptions {
        WalkOptions { dependents: 5_000, levels: 32, reads: 20_000, candidates: 100_000, permissions: 256 }
    }
}

/// A store to search.
#[derive(Clone, Debug)]
pub struct SearchedStore {
    /// Its resource.
    pub resource: Arc<Resource>,
    /// The part that is searched.
    pub scope: SearchScope,
}

/// The part of a store that is searched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SearchScope {
    /// All objects.
    All,
    /// The objects of one namespace.
    Namespace(Arc<str>),
    /// The objects of the namespaces that [`NamespacePermissions`] permits.
    Permitted,
}

/// Decides in which namespaces objects are searched.
pub trait NamespacePermissions: Sync {
    /// The error if there is no decision.
    type Error: Send;

    /// Whether the objects of a resource in a namespace may be shown.
    fn may_list(&self, gvr: &Gvr, namespace: &str) -> impl Future<Output = Result<bool, Self::Error>> + Send;
}

/// The dependents that a walk found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundDependents {
    /// The dependents; see [`super::DependentsDocument::dependents`].
    pub dependents: Vec<Dependent>,
    /// Which limit the walk reached; `None`: the result is complete.
    pub truncated: Option<String>,
}

/// The end of a walk before all dependents are found.
enum Stop<E> {
    /// A limit was reached, which the text names.
    Limit(String),
    /// There was no decision about a permission.
    Undecided(E),
}

/// A walk in progress.
struct Walk<'w, Permissions> {
    stores: &'w [SearchedStore],
    options: WalkOptions,
    permissions: &'w Permissions,
    /// The uids of the owner and of all dependents so far.
    known: HashSet<String>,
    found: Vec<Dependent>,
    /// The number of objects that were read.
    reads: usize,
    /// Whether the objects of a store, by its index, may be shown in a namespace.
    decided: BTreeMap<(usize, String), bool>,
    meter: WorkMeter,
}

/// Finds the dependents of the object with this uid. The object itself need not exist.
///
/// # Errors
/// That of [`NamespacePermissions`], if it does not decide about a namespace.
pub async fn walk<Permissions: NamespacePermissions>(
    stores: &[SearchedStore],
    owner: &str,
    options: WalkOptions,
    permissions: &Permissions,
) -> Result<FoundDependents, Permissions::Error> {
    let known = HashSet::from([owner.to_owned()]);
    let (decided, meter) = (BTreeMap::new(), WorkMeter::start());
    let mut walk = Walk { stores, options, permissions, known, found: Vec::new(), reads: 0, decided, meter };
    let truncated = match walk.levels(owner).await {
        Ok(()) => None,
        Err(Stop::Limit(limit)) => Some(limit),
        Err(Stop::Undecided(error)) => return Err(error),
    };
    let mut dependents = walk.found;
    for dependent in &mut dependents {
        // Owners outside of the tree are not shown, nor an object as the owner of itself.
        let uid = &dependent.uid;
        dependent.owners.retain(|reference| reference.uid != *uid && walk.known.contains(&reference.uid));
        dependent.owners.truncate(MOST_OWNERS_SHOWN);
    }
    Ok(FoundDependents { dependents, truncated })
}

impl<Permissions: NamespacePermissions> Walk<'_, Permissions> {
    /// Finds the dependents of all levels.
    async fn levels(&mut self, owner: &str) -> Result<(), Stop<Permissions::Error>> {
        let mut level = BTreeSet::from([owner.to_owned()]);
        for _ in 0..self.options.levels {
            let mut candidates = 0;
            let begins = self.found.len();
            for index in 0..self.stores.len() {
                let slots = self.candidates(index, &level, &mut candidates)?;
                for some in slots.chunks(AT_ONCE) {
                    for object in self.objects(index, some) {
                        self.look_at(index, &object, &level).await?;
                    }
                    self.end_turn_if_over().await;
                }
                // Looking into many stores is work too, also if none of them has a candidate.
                count_work(level.len() * BYTES_OF_A_LOOKUP);
                self.end_turn_if_over().await;
            }
            self.found[begins..].sort_by(|one, other| place(one).cmp(&place(other)));
            level = self.found[begins..].iter().map(|dependent| dependent.uid.clone()).collect();
            if level.is_empty() {
                return Ok(());
            }
        }
        match self.options.levels {
            // The caller wants no more.
            1 => Ok(()),
            levels => Err(Stop::Limit(format!("the result has the first {levels} levels"))),
        }
    }

    /// The slots of the objects of a store that may have one of these owners. `sum`: the number of candidates in this
    /// level so far.
    fn candidates(
        &self,
        index: usize,
        level: &BTreeSet<String>,
        sum: &mut usize,
    ) -> Result<Vec<u32>, Stop<Permissions::Error>> {
        let LoadState::Ready(snapshot) = self.stores[index].resource.state.load_state() else { return Ok(Vec::new()) };
        let owners = snapshot.postings().owners();
        if owners.is_empty() {
            return Ok(Vec::new());
        }
        let room = self.options.candidates.saturating_sub(*sum);
        let mut slots = BTreeSet::new();
        for uid in level {
            for slot in owners.candidates(fnv1a(uid)) {
                slots.insert(slot);
                if slots.len() > room {
                    break;
                }
            }
        }
        let unindexed = usize::try_from(owners.unindexed().len()).unwrap_or(usize::MAX);
        if slots.len().saturating_add(unindexed) > room {
            return Err(Stop::Limit(format!("a level has more than {} candidates", self.options.candidates)));
        }
        slots.extend(owners.unindexed().to_bitmap());
        *sum += slots.len();
        Ok(slots.into_iter().collect())
    }

    /// The objects in these slots now, as far as they are searched.
    fn objects(&self, index: usize, slots: &[u32]) -> Vec<Object> {
        let SearchedStore { resource, scope } = &self.stores[index];
        count_work(slots.len() * BYTES_OF_A_LOOKUP);
        let LoadState::Ready(snapshot) = resource.state.load_state() else { return Vec::new() };
        let is_searched = |object: &&Object| match scope {
            SearchScope::Namespace(namespace) => object.namespace() == &**namespace,
            SearchScope::All | SearchScope::Permitted => true,
        };
        slots.iter().filter_map(|slot| snapshot.object(*slot)).filter(is_searched).cloned().collect()
    }

    /// Reads a candidate, and adds it to the dependents if it has one of these owners and may be shown.
    async fn look_at(
        &mut self,
        index: usize,
        object: &Object,
        level: &BTreeSet<String>,
    ) -> Result<(), Stop<Permissions::Error>> {
        if !self.may_show(index, object.namespace()).await? {
            return Ok(());
        }
        if self.reads == self.options.reads {
            return Err(Stop::Limit(format!("{} objects were read", self.options.reads)));
        }
        self.reads += 1;
        wait_to_read(object.length()).await;
        count_work(object.length());
        let known = &self.known;
        let (mut is_owned, mut others) = (false, 0);
        let read = Candidate::read(&object.json(), |uid| {
            let is_of_level = level.contains(uid);
            is_owned |= is_of_level;
            if is_of_level || known.contains(uid) {
                return true;
            }
            // An object of a later level can be an owner too.
            others += 1;
            others <= MOST_OWNERS_SHOWN && uid.len() <= LONGEST_UID
        });
        self.end_turn_if_over().await;
        let Some(candidate) = read.filter(|candidate| is_owned && !candidate.uid.is_empty()) else { return Ok(()) };
        // The same object can be served in two groups.
        if self.known.contains(&candidate.uid) {
            return Ok(());
        }
        if self.found.len() == self.options.dependents {
            return Err(Stop::Limit(format!("the result has the first {} dependents", self.options.dependents)));
        }
        self.known.insert(candidate.uid.clone());
        let resource = &self.stores[index].resource;
        let Candidate { uid, name, namespace, creation_timestamp, status, mut owners } = candidate;
        // An owner of the level before comes first, so that each object has an owner through which it is reached.
        owners.sort_by_key(|owner| !level.contains(&owner.uid));
        owners.truncate(MOST_OWNERS_READ);
        self.found.push(Dependent {
            api_version: resource.gvr.group_version().to_string(),
            kind: resource.kind.clone(),
            namespace,
            name,
            uid,
            owners,
            creation_timestamp,
            status,
        });
        Ok(())
    }

    /// Whether the objects of a store may be shown in a namespace.
    async fn may_show(&mut self, index: usize, namespace: &str) -> Result<bool, Stop<Permissions::Error>> {
        let SearchedStore { resource, scope } = &self.stores[index];
        if *scope != SearchScope::Permitted {
            return Ok(true);
        }
        // The permission to list a cluster-scoped resource has no namespace, so it is missing.
        if resource.scope == Scope::Cluster || namespace.is_empty() {
            return Ok(false);
        }
        let place = (index, namespace.to_owned());
        if let Some(decided) = self.decided.get(&place) {
            return Ok(*decided);
        }
        let most = self.options.permissions;
        if self.decided.len() == most {
            return Err(Stop::Limit(format!("{most} permissions for single namespaces were checked")));
        }
        let decided = self.permissions.may_list(&resource.gvr, namespace).await.map_err(Stop::Undecided)?;
        self.decided.insert(place, decided);
        Ok(decided)
    }

    /// Ends the turn if it has taken long.
    async fn end_turn_if_over(&mut self) {
        if self.meter.is_over() {
            yield_to_others().await;
            self.meter = WorkMeter::start();
        }
    }
}

/// The order of the dependents of a level.
fn place(dependent: &Dependent) -> (&str, &str, &str, &str) {
    (&dependent.kind, &dependent.namespace, &dependent.name, &dependent.api_version)
}

/// The number of objects that a walk holds while it waits for its next turn.
const AT_ONCE: usize = 64;

/// The work of looking for the dependents of one owner in one store, in bytes of an object that could be read instead.
const BYTES_OF_A_LOOKUP: usize = 64;

/// The longest uid of an owner that is not known yet. An API server makes uids of 36 characters.
const LONGEST_UID: usize = 128;

/// The maximum number of owners of one object that are kept during a walk.
const MOST_OWNERS_READ: usize = 4 * MOST_OWNERS_SHOWN;
