//! The launcher's main function.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use super::sandbox::Next;
use super::{Launch, Launcher, Limits, environment};
use crate::warden;

/// The exit codes of shells for a missing and for an unusable program.
const NOT_FOUND: u8 = 127;
const CANNOT_EXECUTE: u8 = 126;

/// Becomes the command, given the arguments after [`super::COMMAND`]. Returns only on failure.
///
/// Must be called first, in a single-threaded process.
pub fn main(words: impl Iterator<Item = OsString>) -> ExitCode {
    let Err((what, code)) = begin(words) else { return ExitCode::SUCCESS };
    // The command's error output is the only place to report to.
    let _ = writeln!(io::stderr(), "plexus: {what}");
    ExitCode::from(code)
}

/// Returns if nothing could be started, or after a watched command has ended.
fn begin(mut words: impl Iterator<Item = OsString>) -> Result<(), (String, u8)> {
    let spec = words.next().and_then(|text| text.into_string().ok());
    let launch: Option<Launch> = spec.and_then(|text| serde_json::from_str(&text).ok());
    let unusable = |what: String| (what, CANNOT_EXECUTE);
    let mut launch = launch.ok_or_else(|| unusable("this is an internal command of plexus".to_owned()))?;
    launch.argv = words.collect();
    #[cfg(target_os = "linux")]
    close_others();
    if let Some(limits) = &launch.limits {
        if !launch.watched {
            return watch(&launch, limits).map_err(|error| unusable(error.to_string()));
        }
        limits.bind_self().map_err(|error| unusable(format!("limits cannot be set: {error}")))?;
    }
    #[cfg(target_os = "linux")]
    if matches!(launch.sandbox, Some(super::Sandbox::Inside)) {
        take_terminal();
    }
    let apply_to_self = launch.sandbox.map_or(Ok(Next::Command), super::Sandbox::apply_to_self);
    let next = apply_to_self
        .map_err(|error| unusable(format!("nothing was run, the sandbox cannot be made: {error}")))?;
    Err(match next {
        Next::Command => command(&launch.argv),
        #[cfg(target_os = "linux")]
        Next::ExecBubblewrap { program, arguments } => exec_bubblewrap(&program, arguments, launch.argv),
    })
}

/// Starts another launcher that becomes the command, and stays to watch it.
fn watch(launch: &Launch, limits: &Limits) -> io::Result<()> {
    let words = Launcher::own_command_line(&Launch { watched: true, ..launch.clone() })?;
    warden::watch(limits, &words)
}

/// Closes file descriptors inherited from the node's parent, except the standard streams.
#[cfg(target_os = "linux")]
fn close_others() {
    let open = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    // List them all first, because one of them is the folder being read.
    let numbers: Vec<i32> = open.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for number in numbers.into_iter().filter(|number| *number > 2) {
        let _ = nix::unistd::close(number);
    }
}

/// In the sandbox, the process group that owns the terminal is not visible because it is outside, so a shell that
/// restores the terminal to it at its end would fail. So the command gets its own process group, which owns the
/// terminal.
#[cfg(target_os = "linux")]
fn take_terminal() {
    use std::io::IsTerminal as _;

    if io::stdin().is_terminal() && rustix::process::setpgid(None, None).is_ok() {
        let _ = rustix::termios::tcsetpgrp(io::stdin(), rustix::process::getpgrp());
    }
}

fn command(argv: &[OsString]) -> (String, u8) {
    let Some((program, arguments)) = argv.split_first() else {
        return ("there is no command to run".to_owned(), CANNOT_EXECUTE);
    };
    let variables = environment::unpacked(std::env::vars_os());
    // This also unblocks signals.
    let error = Command::new(program).args(arguments).env_clear().envs(variables).exec();
    let code = if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { CANNOT_EXECUTE };
    (format!("{}: {error}", program.display()), code)
}

/// Becomes a program that starts this one again and waits for it outside. Signals to the whole group should reach the
/// inside; outside they are blocked, so that the waiting process can report how the command ended.
#[cfg(target_os = "linux")]
fn exec_bubblewrap(program: &std::path::Path, arguments: Vec<OsString>, argv: Vec<OsString>) -> (String, u8) {
    use std::ffi::CString;
    use std::os::unix::ffi::OsStringExt as _;

    use nix::sys::signal::{SigSet, Signal};

    const BLOCKED_SIGNALS: [Signal; 10] = [
        Signal::SIGHUP,
        Signal::SIGINT,
        Signal::SIGQUIT,
        Signal::SIGPIPE,
        Signal::SIGALRM,
        Signal::SIGUSR1,
        Signal::SIGUSR2,
        Signal::SIGTERM,
        Signal::SIGTSTP,
        // Sent when the terminal is taken over inside.
        Signal::SIGTTOU,
    ];

    let texts = |words: Vec<OsString>| {
        words.into_iter().map(|word| CString::new(word.into_vec())).collect::<Result<Vec<_>, _>>()
    };
    let program_name = program.as_os_str().to_owned();
    let variables = std::env::vars_os().map(|(name, value)| {
        let mut text = name;
        text.push("=");
        text.push(value);
        text
    });
    let (Ok(path), Ok(words), Ok(variables)) = (
        CString::new(program_name.clone().into_vec()),
        texts([program_name].into_iter().chain(arguments).chain(argv).collect()),
        texts(variables.collect()),
    ) else {
        return ("the command contains a NUL".to_owned(), CANNOT_EXECUTE);
    };
    if let Err(error) = SigSet::from_iter(BLOCKED_SIGNALS).thread_block() {
        return (format!("signals cannot be blocked: {error}"), CANNOT_EXECUTE);
    }
    let error = nix::unistd::execve(&path, &words, &variables).err();
    (format!("{}: {}", program.display(), error.map_or("", |error| error.desc())), CANNOT_EXECUTE)
}
