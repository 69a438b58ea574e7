//! From what a caller says to a command that can be started.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use plexus_proto::ErrorCode;
use plexus_tools::{CallError, ToolContext, arguments};
use serde_json::json;

use super::NAME;
use super::args::{Args, DEFAULT_TIME, LONGEST, TerminalAction};
use super::jobs::{Request, Screen, Stdin};
use crate::Machine;
use crate::files::{FileError, Files};
use crate::launch::Held;
use crate::policy::{self, CommandRefused, Policy, Want};
use crate::tools::{OWNER, UNHELD, variables};

/// What a terminal has where nothing is said: room for what programs print as a table.
const COLS: u16 = 120;
const ROWS: u16 = 40;

/// What `run` and `start` are to start.
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
        return Err(wrong("argv", "its first element is the program, which is empty"));
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
        CallError::new(ErrorCode::Forbidden, unavailable.to_string()).hint(UNHELD).before_it_ran()
    })?;
    Ok(Request {
        argv,
        line,
        cwd,
        env,
        sandbox,
        policy,
        stdin,
        limit: limit.map(|limit| limit.min(LONGEST)),
        screen,
        leashed: args.action == TerminalAction::Run,
        by: context.principal.subject().to_owned(),
        session_id: context.session_id,
        call_id: context.call_id,
    })
}

/// The folder to run in, by its real name: the working folder, where none is given. A command that is held to certain
/// folders begins in one of them.
fn cwd(machine: &Machine, policy: &Arc<Policy>, given: Option<String>) -> Result<PathBuf, CallError> {
    let home = policy::home(&machine.environment);
    let files = Files::under(policy.clone(), home.clone());
    let is_free = matches!(machine.held(policy), Ok(Held::None));
    let can_be_read = |path: &Path| is_free || policy.files.check(path, Want::Read).is_ok();
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
            "the policy of this machine does not let commands read the folder {given:?}, so none can run in it"
        ))),
        Ok(real) if real.is_dir() => Ok(real),
        _ => Err(wrong("cwd", "there is no such folder on this machine")),
    }
}

fn not_allowed(refused: CommandRefused) -> CallError {
    let hint = match &refused {
        CommandRefused::Unclear(_) => {
            "Nothing was run. Give the program and its arguments as `argv`, or only words and quotes in `command`."
        }
        CommandRefused::NotAllowed(_) | CommandRefused::Denied(_) => OWNER,
    };
    CallError::new(ErrorCode::Forbidden, refused.to_string()).hint(hint).before_it_ran()
}

fn forbidden(message: String) -> CallError {
    CallError::new(ErrorCode::Forbidden, message).hint(OWNER).before_it_ran()
}

/// One thing that is wrong with the arguments.
pub(super) fn wrong(field: &str, message: &str) -> CallError {
    arguments::invalid(NAME, vec![json!({ "path": format!("/{field}"), "message": message })])
}
