//! What runs on a user's machine: the link to the hub, and the tools of the machine.

pub mod link;
mod machine;
pub mod tools;

pub use machine::Machine;
