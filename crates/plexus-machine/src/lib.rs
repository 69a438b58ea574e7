//! The tools that agents use on a machine: run commands and code, work with files, view images, and reach other
//! hosts.
//!
//! A [`Machine`] is everything its [`tools`] share. The owner's [`policy`] decides what each of them may do, and
//! commands run in a sandbox that [`launch`] sets up. Nothing in this crate knows about hubs or links: `plexus-node`
//! runs the tools for a hub.

mod files;
pub mod launch;
mod machine;
pub mod policy;
pub mod tools;
mod warden;

pub use machine::Machine;
