//! Services of systemd: `plexus service` for the hub, `plexus node install` and `uninstall` for a node.
//!
//! A unit that somebody has changed is overwritten or removed only with `--force`. What systemd has left to do is printed,
//! and done only with `--now`. Neither command touches the data of the hub or the node.

mod unit;

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use plexus_kit::env;
use serde_json::json;

use super::Invocation;
use crate::failure::{Exit, Failure};
use crate::output::{self, one_line};
use crate::shell;
pub(crate) use unit::Scope;

/// A program that systemd can run, with the paths that its unit has.
#[derive(Debug)]
pub(crate) struct Service {
    /// Of the service, and of its file with `.service` after it.
    name: &'static str,
    /// The command with the subcommands `install` and `uninstall`.
    command: &'static str,
    /// Arguments of the program.
    run: &'static str,
    /// Names the data folder.
    variable: &'static str,
    /// Of the machine, and of a user.
    templates: [&'static str; 2],
    /// Folders of the service of a machine.
    state: &'static str,
    home: &'static str,
    data: &'static str,
    /// What `uninstall` leaves.
    remains: &'static str,
}

pub(crate) static HUB: Service = Service {
    name: "plexus",
    command: "plexus service",
    run: "up",
    variable: "PLEXUS_DATA_DIR",
    templates: [
        include_str!("../../../../deploy/plexus.service"),
        include_str!("../../../../deploy/plexus.user.service"),
    ],
    state: "/var/lib/plexus",
    home: "/var/lib/plexus/home",
    data: "/var/lib/plexus/data",
    remains: "The data of the hub is still there. Commands that it started go on.",
};

pub(crate) static NODE: Service = Service {
    name: "plexus-node",
    command: "plexus node",
    run: "node run",
    variable: "PLEXUS_NODE_DATA_DIR",
    templates: [
        include_str!("../../../../deploy/plexus-node.service"),
        include_str!("../../../../deploy/plexus-node.user.service"),
    ],
    state: "/var/lib/plexus-node",
    home: "/var/lib/plexus-node/home",
    data: "/var/lib/plexus-node/data",
    remains: "What it has joined as and its data are still there. Commands that it started go on.",
};

/// The user that the service of a machine runs as; the unit says the same.
pub(crate) const USER: &str = "plexus";
/// There when systemd runs this machine.
const BOOTED: &str = "/run/systemd/system";

#[derive(Debug, Args)]
pub(crate) struct PlaceArgs {
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

/// `plexus service`.
#[derive(Debug, Args)]
pub(crate) struct ServiceArgs {
    #[command(subcommand)]
    command: ServiceCommand,
}

#[derive(Debug, Subcommand)]
enum ServiceCommand {
    /// Have systemd run the hub of this machine
    #[command(
        after_help = "The unit is of the user who runs this, or of the machine for root. It is written once; change it with `systemctl \
edit`.\n\n\
Example:\n  plexus service install --print\n  plexus service install --user --now\n  sudo plexus service install --system"
    )]
    Install(InstallArgs),
    /// Remove the unit of the hub; its data stays
    #[command(after_help = "Example:\n  plexus service uninstall --user --now")]
    Uninstall(UninstallArgs),
}

#[derive(Debug, Args)]
pub(crate) struct InstallArgs {
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
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
pub(crate) struct UninstallArgs {
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
    pub(crate) fn scope(&self) -> Scope {
        match self.system || !self.user && rustix::process::geteuid().is_root() {
            true => Scope::System,
            false => Scope::User,
        }
    }

    /// The file of the unit.
    fn file(&self, service: &Service, invocation: &Invocation<'_>) -> anyhow::Result<PathBuf> {
        if let Some(folder) = &self.unit_dir {
            return Ok(std::path::absolute(folder)?.join(service.file_name()));
        }
        if !cfg!(target_os = "linux") || !Path::new(BOOTED).is_dir() {
            let hint = format!(
                "--print prints the unit and --unit-dir writes it elsewhere; without systemd, have the service manager of this \
                 machine run `plexus {}`",
                service.run
            );
            return Err(Failure::new(Exit::Failed, "systemd does not run this machine").hint(hint).into());
        }
        if self.scope() == Scope::System {
            return Ok(Path::new("/etc/systemd/system").join(service.file_name()));
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
        Ok(config.join("systemd/user").join(service.file_name()))
    }
}

impl Service {
    fn file_name(&self) -> String {
        format!("{}.service", self.name)
    }
}

/// `plexus service`.
pub(crate) async fn run(args: ServiceArgs, invocation: &Invocation<'_>) -> anyhow::Result<ExitCode> {
    match args.command {
        ServiceCommand::Install(args) => {
            install(&HUB, &args, || invocation.data_folder(), |_| Vec::new(), invocation).await?;
        }
        ServiceCommand::Uninstall(args) => uninstall(&HUB, &args, invocation).await?,
    }
    Ok(Exit::Ok.into())
}

/// Writes the unit. `usual`: the data folder for a service of a user. `first`: what a person has to do before it is started,
/// for this data folder.
pub(crate) async fn install(
    service: &Service,
    args: &InstallArgs,
    usual: impl FnOnce() -> anyhow::Result<PathBuf>,
    first: impl FnOnce(&Path) -> Vec<String>,
    invocation: &Invocation<'_>,
) -> anyhow::Result<()> {
    let (out, scope) = (&invocation.out, args.place.scope());
    let data_dir = match (scope, invocation.data_dir()) {
        (Scope::User, _) => std::path::absolute(usual()?)?,
        (Scope::System, Some(named)) => std::path::absolute(named)?,
        (Scope::System, None) => PathBuf::from(service.data),
    };
    let program = std::env::current_exe().context("cannot find out where this program is")?;
    let text = unit::text(service, scope, &program, &data_dir).map_err(|what| {
        let message =
            format!("{} has {what} in it, which a unit cannot say", one_line(&what_of(&program, &data_dir)));
        Failure::new(Exit::Usage, message).hint("use paths of plain characters")
    })?;
    if args.print {
        return match out.json() {
            true => out.json_line(&json!({ "unit": text }).to_string()),
            false => output::write_bytes(text.as_bytes()),
        };
    }
    let file = args.place.file(service, invocation)?;
    let marked = unit::marked(service, &text);
    let before = read(&file)?;
    if before.as_deref() == Some(&*marked) {
        out.note(&format!("{} is there already.", file.display()));
    } else {
        refuse_changed(service, before.as_deref(), args.force, &file, "replaces")?;
        write(&file, &marked)?;
        if !out.json() {
            out.line(&format!("Unit: {}", file.display()))?;
        }
    }
    if args.now {
        systemctl(scope, &["daemon-reload"]).await?;
        systemctl(scope, &["enable", "--now", service.name]).await?;
    }
    if out.json() {
        return out
            .json_line(&json!({ "file": file, "data_dir": data_dir, "started": args.now }).to_string());
    }
    let mut steps = Vec::from_iter(user_steps(service, scope, &data_dir));
    steps.extend(first(&data_dir));
    steps.extend(start_steps(service, scope, args.now));
    for step in steps {
        out.note(&step);
    }
    Ok(())
}

pub(crate) async fn uninstall(
    service: &Service,
    args: &UninstallArgs,
    invocation: &Invocation<'_>,
) -> anyhow::Result<()> {
    let (out, scope) = (&invocation.out, args.place.scope());
    let file = args.place.file(service, invocation)?;
    let Some(before) = read(&file)? else {
        out.note(&format!("There is no {}.", file.display()));
        return Ok(());
    };
    refuse_changed(service, Some(&before), args.force, &file, "removes")?;
    if args.now {
        systemctl(scope, &["disable", "--now", service.name]).await?;
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
        let (control, name) = (scope.systemctl(), service.name);
        out.note(&format!("To stop it: `{control} disable --now {name}`, then `{control} daemon-reload`."));
    }
    out.note(service.remains);
    Ok(())
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

fn refuse_changed(
    service: &Service,
    before: Option<&str>,
    force: bool,
    file: &Path,
    does: &str,
) -> anyhow::Result<()> {
    if force || before.is_none_or(|text| unit::is_unchanged(service, text)) {
        return Ok(());
    }
    let message = format!("{} is not as `{} install` wrote it", file.display(), service.command);
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

/// How to make the user that the service of a machine runs as, where there is none.
fn user_steps(service: &Service, scope: Scope, data_dir: &Path) -> Option<String> {
    if scope == Scope::User || has_user(USER) {
        return None;
    }
    Some(format!(
        "Make its user and its folders: `useradd --system --user-group --home-dir {home} --no-create-home --shell \
         /usr/sbin/nologin {USER}` and `install -d -o {USER} -g {USER} -m 0700 {state} {home} {folder}`",
        home = service.home,
        state = service.state,
        folder = shell::word(data_dir),
    ))
}

fn start_steps(service: &Service, scope: Scope, started: bool) -> Vec<String> {
    let (control, name, mut steps) = (scope.systemctl(), service.name, Vec::new());
    if !started {
        steps.push(format!("To start it: `{control} daemon-reload`, then `{control} enable --now {name}`."));
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
