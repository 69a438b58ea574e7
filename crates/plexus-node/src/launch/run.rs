//! The launcher at work.

use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use super::{Launch, environment};

/// As shells say it: not found, and found but not to be run.
const NOT_FOUND: u8 = 127;
const UNUSABLE: u8 = 126;

/// Becomes the command, given what stands after [`super::COMMAND`]. Returns only where that fails.
///
/// To be called before anything else, in a process with one thread.
pub fn main(words: impl Iterator<Item = OsString>) -> ExitCode {
    let (what, code) = begin(words);
    // Where the output of the command goes; there is nobody else to tell.
    let _ = writeln!(std::io::stderr(), "plexus: {what}");
    ExitCode::from(code)
}

fn begin(mut words: impl Iterator<Item = OsString>) -> (String, u8) {
    let spec = words.next().and_then(|text| text.into_string().ok());
    let launch: Option<Launch> = spec.and_then(|text| serde_json::from_str(&text).ok());
    let Some(mut launch) = launch else { return ("this command is for plexus itself".to_owned(), UNUSABLE) };
    launch.argv = words.collect();
    let Some((program, arguments)) = launch.argv.split_first() else {
        return ("there is no command to run".to_owned(), UNUSABLE);
    };
    let error = Command::new(program)
        .args(arguments)
        .env_clear()
        .envs(environment::unpacked(std::env::vars_os()))
        .exec();
    let code = if error.kind() == std::io::ErrorKind::NotFound { NOT_FOUND } else { UNUSABLE };
    (format!("{}: {error}", program.display()), code)
}
