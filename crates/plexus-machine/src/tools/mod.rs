//! The tools of a machine: commands, files, code, images, other hosts and system information.
//!
//! They are ordinary tools, called by the dispatcher of the node they run on. A hub lists them by their [`specs`] and
//! has nodes run them.

mod code;
mod filesystem;
mod image_view;
mod output;
pub mod probe;
mod ssh;
mod system_info;
mod terminal;
mod transfer;
mod variables;

use std::io;

use plexus_proto::api::ToolAnnotations;
use plexus_tools::{Access, Tool, ToolSpec};

use crate::Machine;
use code::CodeExec;
use filesystem::Filesystem;
use image_view::ImageView;
use ssh::SshExec;
use system_info::SystemInfo;
use terminal::Terminal;
use terminal::console::{self, Console};
use transfer::Transfer;

/// Runs code, which can start any program.
pub(crate) const CODE_EXEC: &str = "code_exec";
pub(crate) const TERMINAL: &str = terminal::NAME;
/// Follows jobs of the terminal and writes to their input.
pub(crate) const CONSOLE: &str = console::NAME;

/// A command can have any effect. It runs once, and is never delayed.
const COMMAND: Access = Access {
    annotations: ToolAnnotations {
        read_only_hint: false,
        destructive_hint: true,
        idempotent_hint: false,
        open_world_hint: true,
    },
    bufferable: false,
    repeated: false,
};

/// The hint for calls that the policy refuses.
const OWNER_HINT: &str =
    "Nothing was run. Continue without it, or ask the owner of the machine to change its node.toml.";

/// The hint for calls that are refused because the sandbox required by the policy does not work.
const SANDBOX_OWNER_HINT: &str = "Nothing was run. The owner of the machine sees the reason with `plexus node policy`, and can \
                      change its node.toml or the machine.";

/// All tools of this machine, including the unlisted one. Jobs that an earlier process left running are picked up
/// again. Must be called within a runtime, because a task watches each running job.
pub fn open(machine: &Machine) -> io::Result<Vec<Tool>> {
    let terminal = Terminal::open(machine)?;
    Ok(vec![
        Tool::typed(terminal.console()),
        Tool::typed(terminal),
        Tool::typed(Filesystem::open(machine)),
        Tool::typed(CodeExec::open(machine)?),
        Tool::typed(ImageView::new(machine)),
        Tool::typed(SshExec::open(machine)?),
        Tool::typed(SystemInfo),
        Tool::typed(Transfer::open(machine)?),
        Tool::typed(probe::Probe),
    ])
}

/// The tools that a hub can run on nodes, with their schemas; the probe is not listed.
#[must_use]
pub fn specs() -> Vec<ToolSpec> {
    vec![
        terminal::spec().typed::<Terminal>(),
        filesystem::spec().typed::<Filesystem>(),
        code::spec().typed::<CodeExec>(),
        image_view::spec().typed::<ImageView>(),
        ssh::spec().typed::<SshExec>(),
        system_info::spec().typed::<SystemInfo>(),
        transfer::spec().typed::<Transfer>(),
        console::spec().typed::<Console>(),
    ]
}

#[cfg(test)]
mod tests;
