//! Keeps the callers whose permitted namespaces are known, bounded in number and bytes.
//!
//! When there are too many, the tenant with the most callers loses the one that was used least recently: a tenant that
//! can create users or tokens does not remove those of others. When they take too much memory, the tenant whose callers
//! take the most loses some of them. A caller that is in use by a watch is not removed for its memory. If it is removed
//! for their number, its watch keeps it, but its next request sends new reviews.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use super::permitted_caller::{CallerMemory, PermittedCaller};
use crate::access::attributes::Attributes;
use crate::access::single_flight::CacheKey;
use crate::access::{AccessControl, Identity};
use crate::model::user_name;
use crate::registry::Registry;
use crate::registry::view_namespaces::PermittedSince;

/// The maximum number of callers, counted for each resource.
const MOST: usize = 8_192;

/// The maximum number of bytes of all callers together, beyond which those that are not in use are removed.
const MOST_BYTES: usize = super::permitted_caller::MOST_BYTES / 2;

/// The callers, by their permission to list a resource.
pub(super) struct PermittedCallers {
    registry: Arc<Registry>,
    table: Mutex<Table>,
}

/// The callers of a table of bounded size.
#[derive(Default)]
struct Table {
    entries: HashMap<CacheKey, Entry>,
    /// The keys of each tenant, by the number of their last use.
    tenants: HashMap<String, BTreeMap<u64, CacheKey>>,
    /// The number of uses so far.
    uses: u64,
    /// Counts the bytes of all callers.
    memory: CallerMemory,
    /// The bytes of all callers after the last removal of idle ones. There is nothing more to remove before they grow.
    kept_bytes: usize,
}

/// A caller and a resource.
#[derive(Default)]
struct Entry {
    /// The name of the user.
    user: String,
    /// By the verb of the permission.
    callers: BTreeMap<String, Arc<PermittedCaller>>,
    /// The version since which the namespaces are shown, with all verbs.
    since: PermittedSince,
    /// The number of its last use.
    used: u64,
}

impl Entry {
    /// The bytes of the callers.
    fn bytes(&self) -> usize {
        self.callers.values().map(|caller| caller.held_bytes()).sum()
    }

    /// Whether only the table has the callers.
    fn is_idle(&self) -> bool {
        self.callers.values().all(|caller| Arc::strong_count(caller) == 1)
    }
}

/// The callers of a tenant that only the table has. Tenants are ordered by their bytes.
#[derive(Default, PartialEq, Eq, PartialOrd, Ord)]
struct IdleCallers {
    bytes: usize,
    /// When each was used last, its key and its bytes. The one that was used least recently is the last one.
    callers: Vec<(Reverse<u64>, CacheKey, usize)>,
}

impl PermittedCallers {
    /// No callers yet.
    pub(super) fn new(registry: Arc<Registry>) -> PermittedCallers {
        PermittedCallers { registry, table: Mutex::default() }
    }

    /// The caller with its permission for the verb and the resource of `request`. `None` if every request of the caller
    /// is allowed without a review.
    pub(super) fn get(
        &self,
        access: &AccessControl,
        identity: &Arc<Identity>,
        request: &Attributes,
    ) -> Option<Arc<PermittedCaller>> {
        let permission = request.of_resource();
        let listing = Attributes { verb: "list".to_owned(), ..permission.clone() };
        let key = access.authorizer().key(identity, &listing)?;
        // The hash is as good as a random number.
        let sooner = 0.2 * f64::from(key[0]) / 256.0;
        let verb = permission.verb.clone();
        let caller = (access.authorizer().clone(), identity.clone());
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let memory = table.memory.clone();
        let make = |since| PermittedCaller::new(self.registry.clone(), caller, permission, since, (sooner, memory));
        let caller = table.get(key, (&identity.user, &verb), make);
        table.evict(MOST, MOST_BYTES);
        Some(caller)
    }
}

impl Table {
    /// The caller of this key, user and verb, or the one that `make` creates. It is the one that was used last.
    fn get(
        &mut self,
        key: CacheKey,
        (user, verb): (&str, &str),
        make: impl FnOnce(PermittedSince) -> PermittedCaller,
    ) -> Arc<PermittedCaller> {
        let mut entry = self.remove(&key).unwrap_or_else(|| Entry { user: user.to_owned(), ..Entry::default() });
        let since = entry.since.clone();
        let caller = entry.callers.entry(verb.to_owned()).or_insert_with(|| Arc::new(make(since))).clone();
        self.uses += 1;
        entry.used = self.uses;
        self.tenants.entry(user_name::tenant(user).to_owned()).or_default().insert(entry.used, key);
        self.entries.insert(key, entry);
        caller
    }

    /// Removes callers while there are more than `most`, and idle ones while all have more than `most_bytes`; not the last
    /// one.
    fn evict(&mut self, most: usize, most_bytes: usize) {
        while self.entries.len() > most.max(1) {
            // Of equal tenants, the one whose caller was used least recently.
            let oldest = |keys: &BTreeMap<u64, CacheKey>| Reverse(keys.first_key_value().map(|(used, _)| *used));
            let largest = self.tenants.values().max_by_key(|keys| (keys.len(), oldest(keys)));
            let Some(oldest) = largest.and_then(|keys| keys.first_key_value()).map(|(_, key)| *key) else { return };
            self.remove(&oldest);
        }
        self.kept_bytes = self.kept_bytes.min(self.memory.bytes());
        // The removal reads all entries, so many requests in a row do not repeat it.
        if self.memory.bytes() > most_bytes.max(self.kept_bytes + self.kept_bytes / 16) {
            self.evict_idle(most_bytes);
            self.kept_bytes = self.memory.bytes();
        }
    }

    /// Removes idle callers, those of the tenant with the most bytes first, until all have at most `most_bytes`.
    fn evict_idle(&mut self, most_bytes: usize) {
        let mut tenants: HashMap<&str, IdleCallers> = HashMap::new();
        for (key, entry) in self.entries.iter().filter(|(_, entry)| entry.used != self.uses && entry.is_idle()) {
            let tenant = tenants.entry(user_name::tenant(&entry.user)).or_default();
            tenant.bytes += entry.bytes();
            tenant.callers.push((Reverse(entry.used), *key, entry.bytes()));
        }
        tenants.values_mut().for_each(|tenant| tenant.callers.sort_unstable());
        let mut tenants: BinaryHeap<IdleCallers> = tenants.into_values().collect();
        let (mut excess, mut removed) = (self.memory.bytes().saturating_sub(most_bytes), Vec::new());
        while excess > 0
            && let Some(mut tenant) = tenants.pop()
        {
            let Some((_, key, bytes)) = tenant.callers.pop() else { continue };
            removed.push(key);
            excess = excess.saturating_sub(bytes);
            tenant.bytes -= bytes;
            tenants.push(tenant);
        }
        for key in removed {
            self.remove(&key);
        }
    }

    fn remove(&mut self, key: &CacheKey) -> Option<Entry> {
        let entry = self.entries.remove(key)?;
        let tenant = user_name::tenant(&entry.user);
        if let Some(keys) = self.tenants.get_mut(tenant) {
            keys.remove(&entry.used);
            if keys.is_empty() {
                self.tenants.remove(tenant);
            }
        }
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::attributes::ResourceAttributes;
    use crate::access::backend::ReviewError;
    use crate::access::namespace_permissions::{NamespacePermissions, NoPermittedNamespace};
    use crate::access::tests::cluster::Cluster;
    use crate::model::Gvr;
    use crate::registry::{Catalog, VersionInfo};

    fn caller(user: &str, memory: &CallerMemory) -> PermittedCaller {
        caller_of_group(user, String::new(), memory)
    }

    fn caller_of_group(user: &str, group: String, memory: &CallerMemory) -> PermittedCaller {
        let version = VersionInfo { body: serde_json::json!({}) };
        let registry = Arc::new(Registry::new(Catalog::new(Vec::new(), [], version)));
        let identity = Arc::new(Identity { user: user.to_owned(), groups: vec![group], ..Identity::default() });
        let authorizer = Cluster::new(|_| true).access().authorizer().clone();
        PermittedCaller::new(
            registry,
            (authorizer, identity),
            Attributes::listing(&Gvr::new("", "v1", "pods")),
            PermittedSince::default(),
            (0.0, memory.clone()),
        )
    }

    /// The users in a table, in the order of their keys.
    fn users(table: &Table) -> Vec<String> {
        let mut entries: Vec<_> = table.entries.iter().collect();
        entries.sort_unstable_by_key(|(key, _)| **key);
        entries.into_iter().map(|(_, entry)| entry.user.clone()).collect()
    }

    #[tokio::test]
    async fn the_tenant_with_the_most_callers_loses_the_oldest() {
        let mut table = Table::default();
        let robot = |number: u8| format!("system:serviceaccount:ns:robot-{number}");
        let memory = table.memory.clone();
        let get = |table: &mut Table, number: u8, user: &str| {
            table.get([number; 32], (user, "list"), |_| caller(user, &memory))
        };
        let kept = get(&mut table, 0, "jane");
        for number in 1..=4 {
            get(&mut table, number, &robot(number));
            table.evict(4, usize::MAX);
        }
        assert_eq!(users(&table), ["jane".to_owned(), robot(2), robot(3), robot(4)]);
        get(&mut table, 2, &robot(2));
        get(&mut table, 5, "bob");
        table.evict(4, usize::MAX);
        assert_eq!(users(&table), ["jane".to_owned(), robot(2), robot(4), "bob".to_owned()], "used last: 4, then 2");
        assert!(Arc::ptr_eq(&kept, &get(&mut table, 0, "jane")));
        let bytes = table.entries.values().map(Entry::bytes).sum::<usize>();
        let watching = table.get([0; 32], ("jane", "watch"), |_| caller("jane", &memory));
        assert_eq!((memory.bytes(), table.entries.len()), (bytes + watching.held_bytes(), 4), "another verb");
        // The robots take the most bytes together, and the second one was used last.
        table.evict(usize::MAX, memory.bytes() - 1);
        assert_eq!(users(&table), ["jane".to_owned(), robot(2), "bob".to_owned()]);
        get(&mut table, 6, "carol");
        table.evict(usize::MAX, 0);
        assert_eq!(users(&table), ["jane", "carol"], "one is in use, and one was used just now");
        assert_eq!((table.tenants.len(), table.entries.len()), (2, 2));
        drop((kept, watching));
        table.evict(usize::MAX, 0);
        assert_eq!(users(&table), ["jane", "carol"], "the removal is not repeated before there is more");
        get(&mut table, 7, "dora");
        table.evict(usize::MAX, 0);
        assert_eq!(users(&table), ["dora"]);
        assert_eq!(memory.bytes(), table.entries.values().map(Entry::bytes).sum::<usize>(), "of the others, nothing");
    }

    /// A tenant gets half of what the others leave, so that it cannot end the reviews of others.
    #[tokio::test]
    async fn only_the_tenant_that_takes_its_share_of_the_memory_gets_no_reviews() {
        let memory = CallerMemory::default();
        let review = |user: &str, bytes: usize| {
            let caller = Arc::new(caller_of_group(user, "g".repeat(bytes / 3), &memory));
            async move { (caller.clone().review(true).await, caller) }
        };
        let robot = |number: usize| format!("system:serviceaccount:ns:robot-{number}");
        let share = super::super::permitted_caller::MOST_BYTES / 2;
        let mut held = Vec::new();
        for number in 0..40 {
            let (result, caller) = review(&robot(number), share / 16).await;
            held.push((result, caller));
        }
        let permitted = held.iter().filter(|(result, _)| *result == Ok(())).count();
        assert!((12..=16).contains(&permitted), "{permitted} of 40");
        let too_many = Err(NoPermittedNamespace::Undecided(ReviewError::TooMany));
        assert_eq!(held[39].0, too_many);
        assert!(memory.bytes() <= share);
        assert_eq!(review("jane", share / 4).await.0, Ok(()), "another tenant");
        held.truncate(8);
        assert_eq!(review(&robot(0), share / 16).await.0, Ok(()), "with room again");
        drop(held);
        assert_eq!(memory.bytes(), 0);
    }

    #[test]
    fn selectors_and_names_of_a_request_make_no_other_permission() {
        let request = |name: &str, namespace: &str| {
            let about = ResourceAttributes {
                resource: "pods".to_owned(),
                name: name.to_owned(),
                namespace: namespace.to_owned(),
                ..ResourceAttributes::default()
            };
            Attributes { verb: "list".to_owned(), path: format!("/{name}"), resource: Some(about) }.of_resource()
        };
        assert_eq!(request("a", "b"), request("", ""));
    }
}
