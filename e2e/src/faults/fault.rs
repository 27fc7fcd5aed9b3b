//! The faults, as data.

use std::fmt;
use std::time::Duration;

/// Between which sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// The API server and fieldcache.
    Source,
    /// fieldcache and its clients.
    Clients,
}

/// Which requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// Every request.
    Everything,
    /// Requests that are no watches.
    Reads,
    /// Watches, those with initial events too.
    Watches,
}

/// What happens to bytes or requests on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LineFault {
    /// Every piece of bytes comes later.
    Delay(Duration),
    /// So many bytes a second.
    Throttle(u64),
    /// Nothing comes, and nothing is lost.
    Freeze,
    /// What is connected when it begins carries nothing any more and is never closed; new connections do.
    Lose,
    /// All connections end when it begins.
    Cut,
    /// All connections are reset when it begins.
    Reset,
    /// Connections end after so many bytes of answers, wherever that is: in a frame, in a list, in a head.
    CutAfter(u64),
    /// Bodies of answers break off after so many bytes.
    BreakBodies(What, u64),
    /// Bodies end after so many bytes as if they were complete.
    TruncateBodies(What, u64),
    /// Requests get this status, and perhaps Retry-After in seconds.
    Refuse(What, u16, Option<u64>),
    /// Requests reach the server only after this time.
    Slow(What, Duration),
    /// Bodies are compressed as gzip of several members, for any client that takes gzip.
    GzipMembers,
}

/// What happens to programs and data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SystemFault {
    /// fieldcache is killed; it is started again when the fault ends.
    KillFieldcache,
    /// fieldcache is stopped; it is started again when the fault ends.
    StopFieldcache,
    /// fieldcache gets no CPU.
    PauseFieldcache,
    /// kube-apiserver is killed; it is started again when the fault ends.
    KillApiserver,
    /// kube-apiserver gets no CPU.
    PauseApiserver,
    /// etcd is killed; it is started again when the fault ends.
    KillEtcd,
    /// etcd gets no CPU.
    PauseEtcd,
    /// etcd forgets all revisions before now.
    Compact,
    /// The CustomResourceDefinition is deleted, with all objects; it is created again when the fault ends.
    DeleteDefinition,
    /// The version of the definition is not served until the fault ends.
    UnserveVersion,
}

/// A fault and where it happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// On a line.
    Line(Side, LineFault),
    /// To a program or to data.
    System(SystemFault),
}

impl Fault {
    /// Whether no other schedule may use the control plane meanwhile.
    #[must_use]
    pub fn needs_own_control_plane(self) -> bool {
        use SystemFault::{KillApiserver, KillEtcd, PauseApiserver, PauseEtcd};
        matches!(self, Fault::System(KillApiserver | PauseApiserver | KillEtcd | PauseEtcd))
    }

    /// Its kind alone, without numbers: how recovery times are grouped.
    #[must_use]
    pub fn kind(self) -> String {
        let (side, fault) = match self {
            Fault::Line(Side::Source, fault) => ("source: ", fault),
            Fault::Line(Side::Clients, fault) => ("clients: ", fault),
            Fault::System(fault) => return fault.to_string(),
        };
        let kind = match fault {
            LineFault::Delay(_) => "delay".to_owned(),
            LineFault::Throttle(_) => "throttle".to_owned(),
            LineFault::Freeze => "freeze".to_owned(),
            LineFault::Lose => "connections lost silently".to_owned(),
            LineFault::Cut => "cut".to_owned(),
            LineFault::Reset => "reset".to_owned(),
            LineFault::CutAfter(_) => "cut after some bytes".to_owned(),
            LineFault::BreakBodies(What::Watches, _) => "broken in a frame".to_owned(),
            LineFault::BreakBodies(..) => "broken in a list".to_owned(),
            LineFault::TruncateBodies(..) => "ended too early".to_owned(),
            LineFault::Refuse(_, status, retry_after) => {
                let class = if status == 429 { "429" } else { "5xx" };
                format!("{class} {} Retry-After", if retry_after.is_some() { "with" } else { "without" })
            }
            LineFault::Slow(..) => "slow to answer".to_owned(),
            LineFault::GzipMembers => "gzip of several members".to_owned(),
        };
        format!("{side}{kind}")
    }
}

impl fmt::Display for Side {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Side::Source => "API server | fieldcache",
            Side::Clients => "fieldcache | clients",
        })
    }
}

impl fmt::Display for What {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            What::Everything => "requests",
            What::Reads => "reads",
            What::Watches => "watches",
        })
    }
}

impl fmt::Display for LineFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LineFault::Delay(delay) => write!(formatter, "every piece {delay:?} late"),
            LineFault::Throttle(rate) => write!(formatter, "{rate} bytes a second"),
            LineFault::Freeze => write!(formatter, "frozen"),
            LineFault::Lose => write!(formatter, "connections lost without a word"),
            LineFault::Cut => write!(formatter, "all connections ended"),
            LineFault::Reset => write!(formatter, "all connections reset"),
            LineFault::CutAfter(bytes) => write!(formatter, "connections ended after {bytes} bytes of answers"),
            LineFault::BreakBodies(what, bytes) => write!(formatter, "{what} broken off after {bytes} bytes of body"),
            LineFault::TruncateBodies(what, bytes) => {
                write!(formatter, "{what} ended as if complete after {bytes} bytes of body")
            }
            LineFault::Refuse(what, status, Some(seconds)) => {
                write!(formatter, "{what} answered {status}, Retry-After {seconds}")
            }
            LineFault::Refuse(what, status, None) => write!(formatter, "{what} answered {status}"),
            LineFault::Slow(what, before) => write!(formatter, "{what} passed on after {before:?}"),
            LineFault::GzipMembers => write!(formatter, "gzip of several members"),
        }
    }
}

impl fmt::Display for SystemFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            SystemFault::KillFieldcache => "fieldcache killed",
            SystemFault::StopFieldcache => "fieldcache stopped",
            SystemFault::PauseFieldcache => "fieldcache paused",
            SystemFault::KillApiserver => "kube-apiserver killed",
            SystemFault::PauseApiserver => "kube-apiserver paused",
            SystemFault::KillEtcd => "etcd killed",
            SystemFault::PauseEtcd => "etcd paused",
            SystemFault::Compact => "etcd compacted",
            SystemFault::DeleteDefinition => "definition deleted and created again",
            SystemFault::UnserveVersion => "version not served for a while",
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Line(side, fault) => write!(formatter, "{side}: {fault}"),
            Fault::System(fault) => write!(formatter, "{fault}"),
        }
    }
}
