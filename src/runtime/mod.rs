//! What `fieldcache serve` and `fieldcache operator` start, and how they end.
//!
//! [`serve`] and [`operator`] open what a command needs and make a [`Service`] of it. Its list of tasks, in
//! `service`, is the same for both commands; a command without the parts of a task does not start it. [`source`]
//! reads a cluster or a folder on a thread of its own, and other commands read with it too. `certificate_renewer`
//! renews the operator's self-signed certificate, and `client_authorities` watches the CA certificates of clients.
//! [`poll_keeper`] keeps sockets polled while a thread is busy.
//! Options and output are `cli`'s.

mod certificate_renewer;
mod client_authorities;
pub mod operator;
pub mod poll_keeper;
pub mod resource_name;
pub mod serve;
mod service;
pub mod source;
mod tasks;
#[cfg(test)]
mod tests;

pub use service::Service;
