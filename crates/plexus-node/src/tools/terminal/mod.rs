//! `terminal`: commands on this machine.
//!
//! Every command is a job: a folder with what it is, what it wrote and how it ended. A job belongs to the machine and not
//! to the call that started it, so its output can be read later, by whoever may use the terminal here.

mod args;
mod report;

use std::io;
use std::time::Duration;

use plexus_proto::ErrorCode;
use plexus_proto::api::ToolAnnotations;
use plexus_tools::{Access, Action, CallError, Outcome, ToolContext, ToolSpec, TypedTool};

use crate::Machine;
use args::{Args, DEFAULT_TIME, LONGEST, TerminalAction};
use report::Output;

const NAME: &str = "terminal";
/// What it takes to stop what takes too long, and to say so.
const GRACE: Duration = Duration::from_secs(15);

#[derive(Debug)]
pub(super) struct Terminal;

/// A command does whatever it does: once, and never later than it was asked for.
const COMMAND: Access = Access {
    annotations: ToolAnnotations {
        read_only_hint: false,
        destructive_hint: true,
        idempotent_hint: false,
        open_world_hint: true,
    },
    bufferable: false,
};

impl Terminal {
    pub(super) fn open(_: &Machine) -> io::Result<Self> {
        Ok(Self)
    }
}

/// Everything but the schemas.
pub(super) fn spec() -> ToolSpec {
    let ended =
        Access { annotations: ToolAnnotations { idempotent_hint: true, ..COMMAND.annotations }, ..COMMAND };
    let action = |action: TerminalAction, access| Action::new(action.name(), access);
    let spec = ToolSpec::node(
        NAME,
        "Terminal",
        "Runs commands on a machine. `run` waits for the end and gives exit code, stdout and stderr; `start` returns at \
         once, for servers and long work: follow up with `read`, `write`, `wait`, `kill`. Of long output the beginning \
         and the end are shown; the rest is read with action `read` and the `job` of the answer. Nothing is kept between \
         two commands: give `cwd` and `env` each time.",
        Access::READ,
    );
    let actions = vec![
        action(TerminalAction::Run, COMMAND),
        action(TerminalAction::Start, COMMAND),
        action(TerminalAction::Read, Access::READ),
        action(TerminalAction::Write, COMMAND),
        action(TerminalAction::Wait, Access::READ),
        action(TerminalAction::Kill, ended),
        action(TerminalAction::List, Access::READ),
    ];
    ToolSpec {
        deadline: DEFAULT_TIME + GRACE,
        ..spec.with_actions(actions).with_time("timeout_seconds", LONGEST, GRACE)
    }
}

impl TypedTool for Terminal {
    type Args = Args;
    type Output = Output;

    fn spec(&self) -> ToolSpec {
        spec()
    }

    async fn run(&self, _: ToolContext, _: Args) -> Result<Outcome, CallError> {
        Err(CallError::new(ErrorCode::Unavailable, "the terminal is not there yet"))
    }
}
