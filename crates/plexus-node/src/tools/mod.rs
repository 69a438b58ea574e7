//! The tools of a machine.

use plexus_tools::Tool;

use crate::Machine;

/// All of them.
#[must_use]
pub fn tools(_machine: &Machine) -> Vec<Tool> {
    Vec::new()
}
