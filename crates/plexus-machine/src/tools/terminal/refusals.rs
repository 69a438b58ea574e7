//! What a sandbox refuses, explained: a program that is refused a file only says that it may not have it.

use plexus_tools::CallError;

use super::jobs::{Exit, Job};
use super::read;
use crate::Machine;
use crate::launch::Held;
use crate::tools::output::Stream;

/// What programs say of files that they may not write.
const REFUSALS: [&str; 3] = ["Read-only file system", "Permission denied", "Operation not permitted"];
/// Bytes at the end of an output that are searched for a refusal.
const SEARCHED: u64 = 64 << 10;

/// Why a command may have failed that complains about files, given what it wrote.
pub(super) fn note(machine: &Machine, said: &str) -> Option<String> {
    if !REFUSALS.iter().any(|refusal| said.contains(refusal)) {
        return None;
    }
    let held = machine.held(&machine.policy.now()).ok().filter(|held| *held != Held::None)?;
    let instead = match machine.work_folder() {
        Ok(work) => format!("Use the working folder {}, where commands start", work.display()),
        Err(_) => "Use a folder in it".to_owned(),
    };
    Some(format!(
        "commands on this machine are held to its policy by {held}. They write below the folders that it names, and make \
         nothing directly in a folder that has something protected in it, such as the home folder. {instead}"
    ))
}

/// The same for a job that has ended, if it failed. A terminal may have had many commands in it, of which its exit code is
/// the last one's: there, any refusal counts.
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
