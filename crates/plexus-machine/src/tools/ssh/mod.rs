//! `ssh_exec`: commands and files on hosts that this machine can reach.
//!
//! It uses the system's OpenSSH instead of a library. So the setup of a host by its user also applies to agents,
//! through code that the user already trusts: aliases, jump hosts, proxies, certificates, agents, hardware keys,
//! known hosts and revocations. A library supports only part of this, and each missing part is a host that cannot be
//! reached or a check that is not made. Keys stay where they are: the node reads none of them.
//!
//! Guarantees that neither a caller nor the owner's configuration can change: the host key must already be known, or
//! nothing is sent; there are no prompts and no passwords; no agent, port or display is forwarded. A caller names a
//! host, a user and a port, under the rules of [`target`], and never an option. A connection belongs to one session.
//!
//! ssh is started by the node itself and not in the sandbox of the terminal, because it needs what the sandbox
//! denies: keys, the agent and the network. Its command lines are fixed here. The node reads and writes files on this
//! machine under its policy; ssh never does.

mod args;
mod client;
mod marker_filter;
mod master;
mod pool;
mod refusal;
mod remote;
mod report;
mod sftp;
mod target;
mod transfer;

use std::io;
use std::time::Duration;

use plexus_proto::ErrorCode;
use plexus_proto::api::ToolAnnotations;
use plexus_tools::{
    Access, Action, CallError, Outcome, ToolContext, ToolOutput, ToolSpec, TypedTool, arguments,
};
use serde_json::json;
use tokio::time::Instant;

use crate::Machine;
use crate::files::Files;
use crate::tools::COMMAND;
use crate::tools::output::{Live, Stream};
use args::{ALIASES, Args, DEFAULT_TIME, MAX_TIME, SshAction};
use pool::Pool;
use remote::{Program, RunError};
use report::{CommandEnd, Output};
use target::Target;
use transfer::CopyRoute;

const NAME: &str = "ssh_exec";
/// The folder of connection sockets, in the node's folder.
const FOLDER: &str = "ssh";
/// The time to stop a call after its timeout and to answer.
const GRACE: Duration = Duration::from_secs(15);

#[derive(Debug)]
pub(super) struct SshExec {
    machine: Machine,
    pool: Pool,
}

/// The tool's specification without its schemas.
pub(super) fn spec() -> ToolSpec {
    // A file is replaced as a whole, so repeating a copy has no further effect.
    let copy =
        Access { annotations: ToolAnnotations { idempotent_hint: true, ..COMMAND.annotations }, ..COMMAND };
    let close = Access {
        annotations: ToolAnnotations { destructive_hint: false, open_world_hint: false, ..copy.annotations },
        ..COMMAND
    };
    let action = |action: SshAction, access| Action::new(action.name(), access);
    let spec = ToolSpec::node(
        NAME,
        "SSH",
        "Runs commands on other hosts over ssh, from a machine that can reach them, and copies files to and from \
         them. Hosts, aliases and keys come from the machine's ssh configuration; a host key must already be known \
         there, and passwords are never used. `run` returns exit code, stdout and stderr; long output shows its \
         beginning and end: write the rest to a file on the host and `download` it. No state carries over between \
         commands: give `cwd` each time.",
        Access::READ,
    );
    let actions = vec![
        action(SshAction::Run, COMMAND),
        action(SshAction::Upload, copy),
        action(SshAction::Download, copy),
        action(SshAction::List, Access::READ),
        action(SshAction::Close, close),
    ];
    let spec = spec.with_actions(actions).with_time("timeout_seconds", MAX_TIME, GRACE).with_aliases(ALIASES);
    ToolSpec { deadline: DEFAULT_TIME + GRACE, ..spec }
}

impl TypedTool for SshExec {
    type Args = Args;
    type Output = Output;

    fn spec(&self) -> ToolSpec {
        spec()
    }

    async fn run(&self, context: ToolContext, args: Args) -> Result<Outcome, CallError> {
        let output = match args.action {
            SshAction::Run => self.run_remote(&context, args).await,
            SshAction::Upload | SshAction::Download => self.copy(&context, args).await,
            SshAction::List => {
                Ok(Output { connections: Some(self.pool.list(context.session_id)), ..Output::default() })
            }
            SshAction::Close => self.close(&context, &args),
        }?;
        Ok(Outcome::Ready(ToolOutput::new(output.text(), &output)))
    }
}

impl SshExec {
    pub(super) fn open(machine: &Machine) -> io::Result<Self> {
        let folder = machine.data_dir.join(FOLDER);
        let pool = Pool::open(&folder, &machine.environment, &machine.supervisor)?;
        Ok(Self { machine: machine.clone(), pool })
    }

    async fn run_remote(&self, context: &ToolContext, mut args: Args) -> Result<Output, CallError> {
        let target = Target::of(&args, &self.machine.policy.now().ssh)?;
        let program = program(&mut args)?;
        let (began, limit) = (Instant::now(), limit(&args));
        let deadline = began + limit;
        let (result, output) = loop {
            let leased = self.pool.lease(context.session_id, &target);
            let leased = tokio::time::timeout_at(deadline, leased).await;
            let lease = leased.map_err(|_| out_of_time(&target, limit).before_it_ran())??;
            let output = remote::captured(&target.host);
            let run = async {
                let ran = remote::run(&self.pool, lease, &program, deadline, &output).await;
                output.end();
                ran
            };
            let mut live = Live::from_start(context, &output);
            let (ran, ()) = tokio::join!(run, live.until_end());
            match ran {
                Ok(result) => break (result, output),
                // Each attempt uses another connection; only the timeout ends the loop.
                Err(RunError::Gone) => continue,
                Err(RunError::For(error)) => return Err(error),
            }
        };
        let end = CommandEnd {
            exit_code: result.exit_code,
            signal: CommandEnd::signal_of(result.exit_code),
            timed_out: result.timed_out,
            duration_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
            left_running: result.left_running,
        };
        Ok(Output {
            host: Some(target.host),
            end: Some(end),
            stdout: Some(output.excerpt(Stream::Stdout)),
            stderr: Some(output.excerpt(Stream::Stderr)),
            ..Output::default()
        })
    }

    async fn copy(&self, context: &ToolContext, args: Args) -> Result<Output, CallError> {
        let target = Target::of(&args, &self.machine.policy.now().ssh)?;
        let missing = |field| arguments::missing(NAME, field, args.action.name());
        let local = args.path.as_deref().ok_or_else(|| missing("path"))?;
        let remote = args.remote_path.as_deref().ok_or_else(|| missing("remote_path"))?;
        let files = Files::for_machine(&self.machine);
        let route = CopyRoute { pool: self.pool.clone(), session: context.session_id, target };
        let copying = async {
            match args.action {
                SshAction::Upload => transfer::upload(&route, files, context, local, remote).await,
                _ => transfer::download(&route, files, context, remote, local).await,
            }
        };
        let limit = limit(&args);
        let copied = tokio::time::timeout(limit, copying).await;
        let copied = copied.map_err(|_| out_of_time(&route.target, limit))??;
        Ok(Output { host: Some(route.target.host), copied: Some(copied), ..Output::default() })
    }

    fn close(&self, context: &ToolContext, args: &Args) -> Result<Output, CallError> {
        let closed = match &args.host {
            None => self.pool.close(context.session_id, |_| true),
            Some(_) => {
                let Target { host, user, port } = Target::of(args, &self.machine.policy.now().ssh)?;
                self.pool.close(context.session_id, |target| {
                    target.host == host
                        && (user.is_none() || target.user == user)
                        && (port.is_none() || target.port == port)
                })
            }
        };
        Ok(Output { closed: Some(closed), ..Output::default() })
    }
}

/// The command to run on the host.
fn program(args: &mut Args) -> Result<Program, CallError> {
    let line = match (args.command.take(), args.argv.take()) {
        (Some(line), None) => line,
        (None, Some(argv)) if argv.first().is_none_or(String::is_empty) => {
            return Err(wrong("argv", "the first element is the program and must not be empty"));
        }
        (None, Some(argv)) => remote::shell_line(&argv),
        (None, None) => return Err(arguments::missing(NAME, "command", args.action.name())),
        (Some(_), Some(_)) => return Err(wrong("argv", "give either `command` or `argv`, not both")),
    };
    if line.contains('\0') {
        return Err(wrong("command", "must not contain the character U+0000"));
    }
    let cwd = args.cwd.take();
    let is_folder = |cwd: &String| cwd.starts_with('/') || cwd == "~" || cwd.starts_with("~/");
    if cwd.as_ref().is_some_and(|cwd| !is_folder(cwd) || cwd.contains('\0')) {
        return Err(wrong("cwd", "expected an absolute path, or one that starts with ~/"));
    }
    Ok(Program { line, cwd, stdin: args.stdin.take().unwrap_or_default() })
}

fn limit(args: &Args) -> Duration {
    args.timeout_seconds.map_or(DEFAULT_TIME, Duration::from_secs).min(MAX_TIME)
}

fn out_of_time(target: &Target, limit: Duration) -> CallError {
    let message = format!("{target} took longer than {} s", limit.as_secs());
    CallError::new(ErrorCode::DeadlineExceeded, message)
        .hint("Existing files are unchanged. Raise `timeout_seconds`.")
}

/// An error about one argument.
fn wrong(field: &str, message: &str) -> CallError {
    arguments::invalid(NAME, vec![json!({ "path": format!("/{field}"), "message": message })])
}
