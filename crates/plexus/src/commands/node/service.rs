//! `plexus node install` and `uninstall`: the node as a service of systemd.
//!
//! A unit that somebody has changed is never overwritten or removed without being told to. What systemd is to do is said,
//! and done only with `--now`. What the node has joined as, its policy and its data are not touched by either command.

mod unit;

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use plexus_kit::env;
use serde_json::json;

use super::place;
use crate::commands::Invocation;
use crate::failure::{Exit, Failure};
use crate::output::{self, one_line};
use crate::shell;
use unit::Scope;

/// Of the service, and of its file with `.service` after it.
const NAME: &str = "plexus-node";
/// Whom the service of a machine runs as; the unit says the same.
const USER: &str = "plexus";
/// There when systemd runs this machine.
const BOOTED: &str = "/run/systemd/system";

#[derive(Debug, Args)]
struct PlaceArgs {
    /// A service of this user, with what the user can reach
    #[arg(long, conflicts_with = "system")]
    user: bool,
    /// A service of the machine, with a user of its own and without the home folders
    #[arg(long)]
    system: bool,
    /// Folder for the unit, instead of the one that systemd reads
    #[arg(long, value_name = "DIR")]
    unit_dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct InstallArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// Print the unit and write nothing
    #[arg(long, conflicts_with_all = ["now", "force"])]
    print: bool,
    /// Start it, and have it start by itself
    #[arg(long)]
    now: bool,
    /// Replace a unit that somebody has changed
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Args)]
pub(super) struct UninstallArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// Stop it first
    #[arg(long)]
    now: bool,
    /// Remove a unit that somebody has changed
    #[arg(long)]
    force: bool,
}

impl PlaceArgs {
    fn scope(&self) -> Scope {
        match self.system || !self.user && rustix::process::geteuid().is_root() {
            true => Scope::System,
            false => Scope::User,
        }
    }

    /// The file of the unit.
    fn file(&self, invocation: &Invocation<'_>) -> anyhow::Result<PathBuf> {
        if let Some(folder) = &self.unit_dir {
            return Ok(std::path::absolute(folder)?.join(file_name()));
        }
        if !cfg!(target_os = "linux") || !Path::new(BOOTED).is_dir() {
            let hint = "--print prints the unit and --unit-dir writes it elsewhere; without systemd, have `plexus node run` \
                        started by what starts services here";
            return Err(Failure::new(Exit::Failed, "systemd does not run this machine").hint(hint).into());
        }
        if self.scope() == Scope::System {
            return Ok(Path::new("/etc/systemd/system").join(file_name()));
        }
        let environment = invocation.environment();
        let config =
            environment.get(env::XDG_CONFIG_HOME).map(PathBuf::from).filter(|path| path.is_absolute());
        let config =
            config.or_else(|| environment.get(env::HOME).map(|home| Path::new(home).join(".config")));
        let Some(config) = config else {
            let message = "neither HOME nor XDG_CONFIG_HOME says where units of this user are";
            return Err(Failure::new(Exit::Usage, message).hint("name a folder with --unit-dir").into());
        };
        Ok(config.join("systemd/user").join(file_name()))
    }
}

pub(super) async fn install(args: InstallArgs, invocation: &Invocation<'_>) -> anyhow::Result<()> {
    let (out, scope) = (&invocation.out, args.place.scope());
    let data_dir = match (scope, invocation.data_dir()) {
        (Scope::User, _) => place::data_dir(invocation)?,
        (Scope::System, Some(named)) => std::path::absolute(named)?,
        (Scope::System, None) => PathBuf::from(unit::SYSTEM_DATA),
    };
    let program = std::env::current_exe().context("cannot find out where this program is")?;
    let text = unit::text(scope, &program, &data_dir).map_err(|what| {
        let message =
            format!("{} has {what} in it, which a unit cannot say", one_line(&what_of(&program, &data_dir)));
        Failure::new(Exit::Usage, message).hint("use paths of plain characters")
    })?;
    if args.print {
        return match out.json() {
            true => out.json_line(&json!({ "unit": text }).to_string()),
            false => output::file(text.as_bytes()),
        };
    }
    let file = args.place.file(invocation)?;
    let marked = unit::marked(&text);
    let before = read(&file)?;
    if before.as_deref() == Some(&*marked) {
        out.note(&format!("{} is there already.", file.display()));
    } else {
        refuse_changed(before.as_deref(), args.force, &file, "replaces")?;
        write(&file, &marked)?;
        if !out.json() {
            out.line(&format!("Unit: {}", file.display()))?;
        }
    }
    if args.now {
        systemctl(scope, &["daemon-reload"]).await?;
        systemctl(scope, &["enable", "--now", NAME]).await?;
    }
    if out.json() {
        return out
            .json_line(&json!({ "file": file, "data_dir": data_dir, "started": args.now }).to_string());
    }
    for line in next_steps(scope, &data_dir, args.now, invocation) {
        out.note(&line);
    }
    Ok(())
}

pub(super) async fn uninstall(args: UninstallArgs, invocation: &Invocation<'_>) -> anyhow::Result<()> {
    let (out, scope) = (&invocation.out, args.place.scope());
    let file = args.place.file(invocation)?;
    let Some(before) = read(&file)? else {
        out.note(&format!("There is no {}.", file.display()));
        return Ok(());
    };
    refuse_changed(Some(&before), args.force, &file, "removes")?;
    if args.now {
        systemctl(scope, &["disable", "--now", NAME]).await?;
    }
    fs_err::remove_file(&file)?;
    if args.now {
        systemctl(scope, &["daemon-reload"]).await?;
    }
    if out.json() {
        return out.json_line(&json!({ "file": file, "stopped": args.now }).to_string());
    }
    out.line(&format!("Removed {}.", file.display()))?;
    if !args.now {
        let control = scope.systemctl();
        out.note(&format!("To stop it: `{control} disable --now {NAME}`, then `{control} daemon-reload`."));
    }
    out.note("What it has joined as and its data are still there. Commands that it started go on.");
    Ok(())
}

fn file_name() -> String {
    format!("{NAME}.service")
}

fn what_of(program: &Path, data_dir: &Path) -> String {
    format!("the path of the program ({}) or of the data folder ({})", program.display(), data_dir.display())
}

fn read(file: &Path) -> anyhow::Result<Option<String>> {
    match fs_err::read_to_string(file) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn refuse_changed(before: Option<&str>, force: bool, file: &Path, does: &str) -> anyhow::Result<()> {
    if force || before.is_none_or(unit::is_unchanged) {
        return Ok(());
    }
    let message = format!("{} is not as `plexus node install` wrote it", file.display());
    Err(Failure::new(Exit::Failed, message).hint(format!("nothing was done; --force {does} it")).into())
}

/// As a whole or not at all.
fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    let folder = file.parent().context("a unit is in a folder")?;
    fs_err::create_dir_all(folder)?;
    let mut draft = tempfile::NamedTempFile::new_in(folder)
        .with_context(|| format!("cannot write into {}", folder.display()))?;
    draft.write_all(text.as_bytes())?;
    draft.as_file().set_permissions(std::fs::Permissions::from_mode(0o644))?;
    draft.as_file().sync_all()?;
    draft.persist(file).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(())
}

async fn systemctl(scope: Scope, args: &[&str]) -> anyhow::Result<()> {
    let mut words = scope.systemctl().split(' ');
    let mut command = tokio::process::Command::new(words.next().unwrap_or_default());
    command.args(words).args(args).stdin(std::process::Stdio::null());
    let line = format!("{} {}", scope.systemctl(), args.join(" "));
    let ran = command.output().await.with_context(|| format!("cannot run `{line}`"))?;
    if ran.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ran.stderr);
    let message = format!("`{line}` failed: {}", one_line(said.trim()));
    Err(Failure::new(Exit::Failed, message)
        .hint("the unit is written; put this right and run it again")
        .into())
}

/// What is left to be done, by a person.
fn next_steps(scope: Scope, data_dir: &Path, started: bool, invocation: &Invocation<'_>) -> Vec<String> {
    let (control, mut steps) = (scope.systemctl(), Vec::new());
    let (plexus, folder) = (shell::plexus(invocation.environment()), shell::word(data_dir));
    if scope == Scope::System {
        if !has_user(USER) {
            steps.push(format!(
                "Make its user and its folders: `useradd --system --user-group --home-dir {home} --no-create-home --shell \
                 /usr/sbin/nologin {USER}` and `install -d -o {USER} -g {USER} -m 0700 {state} {home} {folder}`",
                home = unit::SYSTEM_HOME,
                state = unit::SYSTEM_STATE,
            ));
        }
        steps.push(format!(
            "If this machine has not joined yet: `runuser -u {USER} -- {plexus} --data-dir {folder} node join HUB_URL CODE`"
        ));
    } else if !matches!(place::joined(data_dir), Ok(Some(_))) {
        steps.push(
            "This machine has not joined yet: `plexus node invite NAME` on the hub prints the command."
                .to_owned(),
        );
    }
    if !started {
        steps.push(format!("To start it: `{control} daemon-reload`, then `{control} enable --now {NAME}`."));
    }
    if scope == Scope::User {
        steps.push("To have it run while nobody is logged in: `loginctl enable-linger`.".to_owned());
    }
    steps
}

fn has_user(name: &str) -> bool {
    let users = fs_err::read_to_string("/etc/passwd").unwrap_or_default();
    users.lines().any(|line| line.split(':').next() == Some(name))
}
