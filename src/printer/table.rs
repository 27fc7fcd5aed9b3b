//! The printers of all kinds.

use super::column::{AGE, NAME};
use super::kind::{PrintedRow, Printer, SortKey, read_object};
use super::{access, autoscaling, cluster, devices, events, network, pods, policy, read, storage, time, workloads};

impl Printer {
    /// The printer of a resource, in whatever version; `None` for kinds without one.
    pub fn find(group: &str, resource: &str) -> Option<&'static Printer> {
        Printer::all().find(|printer| printer.group == group && printer.resource == resource)
    }

    /// All printers.
    pub fn all() -> impl Iterator<Item = &'static Printer> {
        [
            access::PRINTERS,
            autoscaling::PRINTERS,
            cluster::PRINTERS,
            devices::PRINTERS,
            events::PRINTERS,
            network::PRINTERS,
            pods::PRINTERS,
            policy::PRINTERS,
            storage::PRINTERS,
            workloads::PRINTERS,
        ]
        .into_iter()
        .flatten()
    }

    /// The sort key of the rows of a list; `None` for the order of the store, which all kinds but FlowSchema have.
    pub fn order(&self) -> Option<fn(&[u8]) -> SortKey> {
        (self.group == "flowcontrol.apiserver.k8s.io" && self.resource == "flowschemas")
            .then_some(|json| read_object(json, policy::flow_schema_order))
    }
}

/// Name and age: kinds that are not in the table, such as those of aggregated API servers.
pub const FALLBACK: &Printer = &Printer {
    group: "",
    resource: "",
    columns: &[NAME, AGE],
    print: |object, now| PrintedRow::new(vec![read::name(object), time::age(object, now)]),
};
