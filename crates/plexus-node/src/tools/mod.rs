//! The tools of a machine: a terminal, other hosts by ssh, and what the machine is made of.
//!
//! They are ordinary tools, called by the dispatcher of the node they run on. A hub lists them by their [`specs`] and has
//! nodes run them.

mod captured;
pub mod probe;
mod ssh;
mod system_info;
mod terminal;
mod text;

use std::io;

use plexus_tools::{Tool, ToolSpec};

use crate::Machine;
use ssh::SshExec;
use system_info::SystemInfo;
use terminal::Terminal;

/// Runs code, which can do whatever a command can.
pub(crate) const CODE_EXEC: &str = "code_exec";

/// All tools of this machine, also the one that no list shows. Jobs that an earlier process left running are found again.
/// To be called within a runtime: each job that runs is watched by a task.
pub fn open(machine: &Machine) -> io::Result<Vec<Tool>> {
    Ok(vec![
        Tool::typed(Terminal::open(machine)?),
        Tool::typed(SshExec::open(machine)?),
        Tool::typed(SystemInfo),
        Tool::typed(probe::Probe),
    ])
}

/// What a hub lists, with the schemas of the tools; the probe is not among them.
#[must_use]
pub fn specs() -> Vec<ToolSpec> {
    vec![
        terminal::spec().typed::<Terminal>(),
        ssh::spec().typed::<SshExec>(),
        system_info::spec().typed::<SystemInfo>(),
    ]
}

#[cfg(test)]
mod tests;
