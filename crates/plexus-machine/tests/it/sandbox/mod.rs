//! Commands in a sandbox: everything that is allowed works at each level.

mod jobs;
mod works;

use plexus_kit::Environment;
use plexus_machine::launch::{Launcher, SandboxLevel};

/// The levels that restrict commands.
pub(crate) const LEVELS: [SandboxLevel; 2] = [SandboxLevel::Landlock, SandboxLevel::Bubblewrap];

/// Whether a level is available on this machine. If not, its tests are skipped with a message; with `CI=true` they
/// fail.
#[allow(clippy::print_stderr, reason = "what is left out is named")]
pub(crate) fn is_available(level: SandboxLevel) -> bool {
    let path = ("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned());
    let environment: Environment = [path].into_iter().collect();
    let launcher = Launcher::new(env!("CARGO_BIN_EXE_plexus-launcher").into(), &environment);
    let missing = launcher.missing_levels(true).into_iter().find(|missing| missing.level == level);
    if let Some(missing) = &missing {
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "{missing:?}");
        eprintln!("left out at level {level}: {}", missing.because);
    }
    missing.is_none()
}

/// A policy that sets only a level.
pub(crate) fn policy_with_level(level: SandboxLevel) -> String {
    format!("[sandbox]\nlevel = \"{level}\"\n")
}
