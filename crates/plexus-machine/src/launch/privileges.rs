//! Drops administrator privileges.

use std::io;

use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs};

/// Permanently drops all capabilities: no program that runs later can regain them, whoever owns it. For a node that
/// runs as root, this makes file permissions effective.
pub(super) fn drop_capabilities() -> io::Result<()> {
    set_no_new_privs(true)?;
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    Ok(())
}
