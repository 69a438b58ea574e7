//! What only an administrator may do.

use std::io;

use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs};

/// Gives up all capabilities, for good: no program that is run later brings any of them back, whoever owns it. For a node
/// that runs as root this is what makes permissions of files count.
pub(super) fn give_up() -> io::Result<()> {
    set_no_new_privs(true)?;
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    Ok(())
}
