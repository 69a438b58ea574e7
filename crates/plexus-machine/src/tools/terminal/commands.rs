//! Converts the arguments of a call into a command to start.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use plexus_proto::ErrorCode;
use plexus_tools::{CallError, ToolContext, arguments};
use serde_json::json;

use super::NAME;
use super::args::{Args, DEFAULT_TIME, MAX_TIME, TerminalAction};
use super::jobs::{Request, Screen, Stdin};
use crate::Machine;
use crate::files::{FileError, Files};
use crate::launch::SandboxLevel;
use crate::policy::{self, AccessKind, CommandRefused, Policy};
use crate::tools::{OWNER_HINT, SANDBOX_OWNER_HINT, variables};

/// The default terminal size, large enough for the tables that programs print.
const COLS: u16 = 120;
const ROWS: u16 = 40;

/// The request of a `run` or `start` call.
pub(super) fn request(
    machine: &Machine,
    context: &ToolContext,
    args: &mut Args,
) -> Result<Request, CallError> {
    let (argv, line) = match (args.command.take(), args.argv.take()) {
        (Some(line), None) => (vec!["/bin/sh".to_owned(), "-c".to_owned(), line.clone()], Some(line)),
        (None, Some(argv)) => (argv, None),
        (None, None) => return Err(arguments::missing(NAME, "command", args.action.name())),
        (Some(_), Some(_)) => return Err(wrong("argv", "give either `command` or `argv`, not both")),
    };
    if argv.first().is_none_or(String::is_empty) {
        return Err(wrong("argv", "the first element is the program and must not be empty"));
    }
    if argv.iter().any(|word| word.contains('\0')) {
        return Err(wrong("command", "must not contain the character U+0000"));
    }
    let policy = machine.policy.now();
    let checked = match &line {
        Some(line) => policy.commands.check_line(line),
        None => policy.commands.check_argv(&argv),
    };
    checked.map_err(not_allowed)?;
    let env = variables::checked(NAME, &policy, args.env.take())?;
    let given = args.timeout_seconds.map(std::time::Duration::from_secs);
    let (limit, stdin) = match args.action {
        TerminalAction::Start => (given, args.stdin.take().map_or(Stdin::Open, Stdin::Text)),
        _ => (Some(given.unwrap_or(DEFAULT_TIME)), args.stdin.take().map_or(Stdin::Nothing, Stdin::Text)),
    };
    let screen = args
        .pty
        .unwrap_or(false)
        .then(|| Screen { cols: args.cols.unwrap_or(COLS), rows: args.rows.unwrap_or(ROWS) });
    let cwd = cwd(machine, &policy, args.cwd.take())?;
    let sandbox = machine.sandbox(&policy, &cwd).map_err(|unavailable| {
        CallError::new(ErrorCode::Forbidden, unavailable.to_string()).hint(SANDBOX_OWNER_HINT).before_it_ran()
    })?;
    Ok(Request {
        argv,
        line,
        cwd,
        env,
        sandbox,
        policy,
        stdin,
        limit: limit.map(|limit| limit.min(MAX_TIME)),
        screen,
        leashed: args.action == TerminalAction::Run,
        by: context.principal.subject().to_owned(),
        session_id: context.session_id,
        call_id: context.call_id,
    })
}

/// The real path of the folder to run in, by default the working folder. A sandboxed command must start in a folder
/// that it can read.
fn cwd(machine: &Machine, policy: &Arc<Policy>, given: Option<String>) -> Result<PathBuf, CallError> {
    let home = policy::home(&machine.environment);
    let files = Files::with_policy(policy.clone(), home.clone());
    let is_free = matches!(machine.sandbox_level(policy), Ok(SandboxLevel::None));
    let can_be_read = |path: &Path| is_free || policy.files.check(path, AccessKind::Read).is_ok();
    let Some(given) = given else {
        match files.work_folder() {
            Ok(work) => return Ok(work),
            Err(error) => tracing::debug!("a command starts without a working folder: {error}"),
        }
        let real = if is_free { Some(home) } else { fs_err::canonicalize(home).ok() };
        let home = real.filter(|home| home.is_dir() && can_be_read(home));
        return Ok(home.unwrap_or_else(|| PathBuf::from("/")));
    };
    let path = files.path(&given).map_err(|error| match error {
        FileError::NoPath(_) => wrong("cwd", "is not a valid path on this machine"),
        error => CallError::from(error).before_it_ran(),
    })?;
    let real = if is_free { Ok(path) } else { fs_err::canonicalize(&path) };
    match real {
        Ok(real) if !can_be_read(&real) => Err(forbidden(format!(
            "the policy of this machine does not allow commands to read the folder {given:?}, so none can run in it"
        ))),
        Ok(real) if real.is_dir() => Ok(real),
        _ => Err(wrong("cwd", "there is no such folder on this machine")),
    }
}

fn not_allowed(refused: CommandRefused) -> CallError {
    let hint = match &refused {
        CommandRefused::UnsupportedSyntax(_) => {
            "Nothing was run. Give the program and its arguments as `argv`, or only words and quotes in `command`."
        }
        CommandRefused::NotAllowed(_) | CommandRefused::Denied(_) => OWNER_HINT,
    };
    CallError::new(ErrorCode::Forbidden, refused.to_string()).hint(hint).before_it_ran()
}

fn forbidden(message: String) -> CallError {
    CallError::new(ErrorCode::Forbidden, message).hint(OWNER_HINT).before_it_ran()
}

/// An error about one argument.
pub(super) fn wrong(field: &str, message: &str) -> CallError {
    arguments::invalid(NAME, vec![json!({ "path": format!("/{field}"), "message": message })])
}
