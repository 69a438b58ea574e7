//! The tools of a machine: commands, files, code, pictures, other hosts, and what the machine is made of.
//!
//! They are ordinary tools, called by the dispatcher of the node they run on. A hub lists them by their [`specs`] and has
//! nodes run them.

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

/// Runs code, which can do whatever a command can.
pub(crate) const CODE_EXEC: &str = "code_exec";
pub(crate) const TERMINAL: &str = terminal::NAME;
/// Follows and feeds what the terminal has started.
pub(crate) const CONSOLE: &str = console::NAME;

/// What is run does whatever it does: once, and never later than it was asked for.
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

/// Who can help where the policy does not allow something.
const OWNER: &str =
    "Nothing was run. Do without it, or ask the owner of the machine to change its node.toml.";

/// Who can help where the sandbox that the policy asks for does not work.
const UNHELD: &str = "Nothing was run. The owner of the machine sees why with `plexus node policy`, and can change its \
                      node.toml or the machine.";

/// All tools of this machine, also the one that no list shows. Jobs that an earlier process left running are found again.
/// To be called within a runtime: each job that runs is watched by a task.
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

/// What a hub can have nodes run, with the schemas of the tools; the probe is not among them.
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
