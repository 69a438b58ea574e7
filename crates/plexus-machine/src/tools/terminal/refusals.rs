//! Explains sandbox refusals, of which a program only reports a permission error.

use plexus_tools::CallError;

use super::jobs::{Exit, Job};
use super::read;
use crate::Machine;
use crate::launch::SandboxLevel;
use crate::tools::output::Stream;

/// What programs report if they may not write a file, in lower case: the texts of the C library and of Go, and the
/// codes that Node.js prints.
const REFUSALS: [&str; 6] =
    ["read-only file system", "permission denied", "operation not permitted", "eacces", "eperm", "erofs"];
/// The number of bytes at the end of an output that are searched for a refusal.
const SEARCHED: u64 = 64 << 10;

/// A possible reason why a command failed, given its output.
pub(super) fn note(machine: &Machine, output: &str) -> Option<String> {
    if !reports_refusal(output) {
        return None;
    }
    let level =
        machine.sandbox_level(&machine.policy.now()).ok().filter(|level| *level != SandboxLevel::None)?;
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

fn reports_refusal(output: &str) -> bool {
    let output = output.to_ascii_lowercase();
    REFUSALS.iter().any(|refusal| output.contains(refusal))
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

#[cfg(test)]
mod tests;
