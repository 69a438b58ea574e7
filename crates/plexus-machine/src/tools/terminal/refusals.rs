//! Tells callers about the sandbox: at the start of a terminal, and after a refusal, of which a program only reports a
//! permission error.

mod recognition;

use plexus_tools::CallError;

use super::jobs::{Exit, Job};
use super::read;
use crate::Machine;
use crate::launch::SandboxLevel;
use crate::policy::Policy;
use crate::tools::output::Stream;

/// The number of bytes at the end of an output that are searched for a refusal.
const SEARCHED: u64 = 64 << 10;

/// The level of the sandbox, if there is one.
fn level(machine: &Machine, policy: &Policy) -> Option<SandboxLevel> {
    machine.sandbox_level(policy).ok().filter(|level| *level != SandboxLevel::None)
}

/// What the sandbox lets commands write, on one line, for the start of a terminal.
pub(super) fn announcement(machine: &Machine) -> Option<String> {
    let policy = machine.policy.now();
    let level = level(machine, &policy)?;
    let folders: Vec<_> =
        policy.files.write.iter().map(|pattern| pattern.as_path().display().to_string()).collect();
    let writable = match &folders[..] {
        [] => "cannot write any folder".to_owned(),
        folders => format!(
            "can write below {}, except directly in folders that contain something protected, such as the home folder",
            folders.join(" and ")
        ),
    };
    let place = machine
        .work_folder()
        .map_or_else(|_| String::new(), |work| format!("; the working folder is {}", work.display()));
    Some(format!("the sandbox {level} restricts this terminal: commands {writable}{place}"))
}

/// A possible reason why a command failed, given its output.
pub(super) fn note(machine: &Machine, output: &str) -> Option<String> {
    if !recognition::reports_refusal(output) {
        return None;
    }
    let level = level(machine, &machine.policy.now())?;
    let instead = match machine.work_folder() {
        Ok(work) => format!("Use the working folder {}, where commands start", work.display()),
        Err(_) => "Use one of their subfolders".to_owned(),
    };
    Some(format!(
        "commands on this machine are restricted to its policy by {level}. They can write below the folders that the \
         policy names, but cannot create files directly in a folder that contains something protected, such as the \
         home folder. {instead}"
    ))
}

/// The same for an ended job, if it failed. A terminal may have run many commands, and its exit code is that of the
/// last one, so there any refusal counts.
pub(super) async fn note_of(machine: &Machine, job: &Job) -> Result<Option<String>, CallError> {
    let has_failed = job.end().is_some_and(|end| end.exit.code() != Some(0) && end.exit != Exit::Unknown);
    let stream = match job.record.pty {
        true => Stream::Stdout,
        false if has_failed => Stream::Stderr,
        false => return Ok(None),
    };
    let spool = job.spool(stream);
    let from = spool.size().saturating_sub(SEARCHED);
    let part = read::part(spool, from, SEARCHED as usize).await.map_err(read::unreadable)?;
    Ok(note(machine, &String::from_utf8_lossy(&part.bytes)))
}
