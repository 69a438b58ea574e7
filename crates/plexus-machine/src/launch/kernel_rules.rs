//! Landlock rules, which the kernel enforces for this process and its children.

use std::io;
use std::os::fd::AsFd;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, PathBeneath, PathFd,
    Ruleset, RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetStatus, Scope,
};

use super::view::{self, Access};
use crate::policy::FileRules;

/// Earlier versions cannot prevent truncating read-only files.
const REQUIRED_ABI: ABI = ABI::V3;
/// The newest tested version. Features after the required version are used if the kernel has them.
const NEWEST_ABI: ABI = ABI::V7;

/// Devices that store nothing, or only what the command itself has written.
const DEVICES: &[&str] = &[
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
];
const SHARED_MEMORY: &str = "/dev/shm";
const PROCESSES: &str = "/proc";

/// Restricts this process to what a policy allows, and to processes with the same restrictions.
pub(super) fn restrict(
    files: FileRules,
    network: bool,
    own_folder: Option<&std::path::Path>,
) -> io::Result<()> {
    let mut rules = create_ruleset(network).map_err(failed)?;
    for entry in view::entries(files) {
        let rights = match entry.access {
            Access::Hidden | Access::Link => continue,
            // Rights apply to everything below, so names can be listed in all subfolders.
            Access::List => AccessFs::ReadDir.into(),
            Access::Read => reading(),
            Access::Write => writing(),
        };
        rules = allow(rules, &entry.path, rights, entry.is_dir)?;
    }
    if let Some(own_folder) = own_folder {
        rules = allow(rules, own_folder, writing(), true)?;
    }
    let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev;
    for path in DEVICES {
        let is_dir = *path == "/dev/pts";
        rules =
            allow(rules, path.as_ref(), if is_dir { device | AccessFs::ReadDir } else { device }, is_dir)?;
    }
    rules = allow(rules, SHARED_MEMORY.as_ref(), writing(), true)?;
    // The kernel protects information about other processes, with the same check as for ptrace.
    rules = allow(rules, PROCESSES.as_ref(), reading(), true)?;
    // Reopened by name (`>/dev/stderr`), these are files of the node.
    rules = allow_open(rules, io::stdin().as_fd(), AccessFs::ReadFile.into());
    for output in [io::stdout().as_fd(), io::stderr().as_fd()] {
        rules = allow_open(rules, output, AccessFs::WriteFile | AccessFs::Truncate);
    }
    let status = rules.restrict_self().map_err(failed)?;
    match status.ruleset {
        RulesetStatus::NotEnforced => Err(io::Error::other("the kernel does not support Landlock")),
        _ => Ok(()),
    }
}

/// Prevents signals and abstract Unix sockets from reaching other processes, if the kernel supports it.
pub(super) fn restrict_scope() -> io::Result<()> {
    let ruleset = Ruleset::default().scope(Scope::from_all(NEWEST_ABI)).map_err(failed)?;
    ruleset.create().and_then(RulesetCreated::restrict_self).map_err(failed)?;
    Ok(())
}

fn create_ruleset(network: bool) -> Result<RulesetCreated, landlock::RulesetError> {
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(REQUIRED_ABI))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST_ABI))?
        .scope(Scope::from_all(NEWEST_ABI))?;
    let ruleset = if network { ruleset } else { ruleset.handle_access(AccessNet::from_all(NEWEST_ABI))? };
    ruleset.create()
}

fn reading() -> BitFlags<AccessFs> {
    AccessFs::Execute | AccessFs::ReadFile | AccessFs::ReadDir
}

/// Everything except creating devices and sending them ioctls.
fn writing() -> BitFlags<AccessFs> {
    AccessFs::from_all(NEWEST_ABI) & !(AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev)
}

fn allow(
    rules: RulesetCreated,
    path: &std::path::Path,
    rights: BitFlags<AccessFs>,
    is_dir: bool,
) -> io::Result<RulesetCreated> {
    let rights = if is_dir { rights } else { rights & AccessFs::from_file(NEWEST_ABI) };
    // A path that no longer exists needs no rule.
    let Ok(file) = PathFd::new(path) else { return Ok(rules) };
    rules.add_rule(PathBeneath::new(file, rights)).map_err(failed)
}

/// Allows a file that is already open. If it is not a file, there is nothing to allow.
fn allow_open(rules: RulesetCreated, file: impl AsFd, rights: BitFlags<AccessFs>) -> RulesetCreated {
    let Ok(again) = rules.try_clone() else { return rules };
    again.add_rule(PathBeneath::new(file, rights)).unwrap_or(rules)
}

fn failed(error: impl std::error::Error) -> io::Error {
    io::Error::other(format!("Landlock: {error}"))
}
