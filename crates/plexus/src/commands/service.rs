//! Systemd services: `plexus service` for the hub, `plexus node install` and `uninstall` for a node.
//!
//! An edited unit is overwritten or removed only with `--force`. The `systemctl` commands that are still needed are printed,
//! and run only with `--now`. Neither command changes the data of the hub or the node.

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

/// A program that systemd can run, with the paths in its unit.
#[derive(Debug)]
pub(crate) struct Service {
    /// Name of the service; its file adds `.service`.
    name: &'static str,
    /// The command that has the subcommands `install` and `uninstall`.
    command: &'static str,
    /// Arguments of `plexus` in the unit.
    run: &'static str,
    /// Environment variable for the data folder.
    variable: &'static str,
    /// Units of a system service and of a user service.
    templates: [&'static str; 2],
    /// Folders of a system service.
    state: &'static str,
    home: &'static str,
    data: &'static str,
    /// Message of `uninstall` about what it does not remove.
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
    remains: "The hub's data was not removed. Commands that it started keep running.",
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
    remains: "The node's credential and data were not removed. Commands that it started keep running.",
};

/// The user of a system service, as in its unit.
pub(crate) const USER: &str = "plexus";
/// Exists if systemd is the init system.
const SYSTEMD_RUNTIME_DIR: &str = "/run/systemd/system";

#[derive(Debug, Args)]
pub(crate) struct UnitArgs {
    /// User service: runs as the current user
    #[arg(long, conflicts_with = "system")]
    user: bool,
    /// System service: runs as a dedicated user, without access to home folders
    #[arg(long)]
    system: bool,
    /// Folder for the unit file [default: the one that systemd reads]
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
    /// Install a systemd service that runs the hub
    #[command(
        after_help = "Installs a user service, or a system service if run as root. To change the unit, use `systemctl edit`: \
an edited unit file is replaced only with --force.\n\n\
Example:\n  plexus service install --print\n  plexus service install --user --now\n  sudo plexus service install --system"
    )]
    Install(InstallArgs),
    /// Remove the hub's systemd service; its data stays
    #[command(after_help = "Example:\n  plexus service uninstall --user --now")]
    Uninstall(UninstallArgs),
}

#[derive(Debug, Args)]
pub(crate) struct InstallArgs {
    #[command(flatten)]
    pub(crate) unit: UnitArgs,
    /// Print the unit instead of writing it
    #[arg(long, conflicts_with_all = ["now", "force"])]
    print: bool,
    /// Start the service now and on every boot or login
    #[arg(long)]
    now: bool,
    /// Replace the unit even if it was edited
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct UninstallArgs {
    #[command(flatten)]
    unit: UnitArgs,
    /// Stop the service first
    #[arg(long)]
    now: bool,
    /// Remove the unit even if it was edited
    #[arg(long)]
    force: bool,
}

impl UnitArgs {
    pub(crate) fn scope(&self) -> Scope {
        match self.system || !self.user && rustix::process::geteuid().is_root() {
            true => Scope::System,
            false => Scope::User,
        }
    }

    /// Path of the unit file.
    fn file(&self, service: &Service, invocation: &Invocation<'_>) -> anyhow::Result<PathBuf> {
        if let Some(folder) = &self.unit_dir {
            return Ok(std::path::absolute(folder)?.join(service.file_name()));
        }
        if !cfg!(target_os = "linux") || !Path::new(SYSTEMD_RUNTIME_DIR).is_dir() {
            let hint = format!(
                "without systemd, let the service manager of this machine run `plexus {}`; --print prints the unit, and \
                 --unit-dir writes it to a folder",
                service.run
            );
            return Err(Failure::new(Exit::Failed, "systemd is not running on this machine")
                .hint(hint)
                .into());
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
            let message = "the folder for user units is not known: neither HOME nor XDG_CONFIG_HOME is set";
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

/// Writes the unit. `user_data_dir` is the data folder of a user service; `setup_steps` are the steps to take before the
/// service is started with a data folder.
pub(crate) async fn install(
    service: &Service,
    args: &InstallArgs,
    user_data_dir: impl FnOnce() -> anyhow::Result<PathBuf>,
    setup_steps: impl FnOnce(&Path) -> Vec<String>,
    invocation: &Invocation<'_>,
) -> anyhow::Result<()> {
    let (out, scope) = (&invocation.out, args.unit.scope());
    let data_dir = match (scope, invocation.data_dir()) {
        (Scope::User, _) => std::path::absolute(user_data_dir()?)?,
        (Scope::System, Some(named)) => std::path::absolute(named)?,
        (Scope::System, None) => PathBuf::from(service.data),
    };
    let program = std::env::current_exe().context("cannot get the path of this program")?;
    let text = unit::text(service, scope, &program, &data_dir).map_err(|unsupported| {
        let paths = describe_paths(&program, &data_dir);
        let message =
            format!("{} contains {unsupported}, which is not supported in a unit", one_line(&paths));
        Failure::new(Exit::Usage, message).hint("use a path without it")
    })?;
    if args.print {
        return match out.json() {
            true => out.json_line(&json!({ "unit": text }).to_string()),
            false => output::write_bytes(text.as_bytes()),
        };
    }
    let file = args.unit.file(service, invocation)?;
    let content = unit::with_checksum(service, &text);
    let before = read(&file)?;
    if before.as_deref() == Some(&*content) {
        out.note(&format!("{} is up to date.", file.display()));
    } else {
        refuse_edited(service, before.as_deref(), args.force, &file, "replaces")?;
        write(&file, &content)?;
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
    steps.extend(setup_steps(&data_dir));
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
    let (out, scope) = (&invocation.out, args.unit.scope());
    let file = args.unit.file(service, invocation)?;
    let Some(before) = read(&file)? else {
        out.note(&format!("{} does not exist.", file.display()));
        return Ok(());
    };
    refuse_edited(service, Some(&before), args.force, &file, "removes")?;
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
        out.note(&format!(
            "To stop the service: `{control} disable --now {name}`, then `{control} daemon-reload`."
        ));
    }
    out.note(service.remains);
    Ok(())
}

fn describe_paths(program: &Path, data_dir: &Path) -> String {
    format!("the path of the program ({}) or of the data folder ({})", program.display(), data_dir.display())
}

fn read(file: &Path) -> anyhow::Result<Option<String>> {
    match fs_err::read_to_string(file) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Fails if the unit was edited or written by another program, unless with `--force`.
fn refuse_edited(
    service: &Service,
    before: Option<&str>,
    force: bool,
    file: &Path,
    action: &str,
) -> anyhow::Result<()> {
    if force || before.is_none_or(|text| unit::is_unchanged(service, text)) {
        return Ok(());
    }
    let message = format!("{} is not the file that `{} install` wrote", file.display(), service.command);
    Err(Failure::new(Exit::Failed, message).hint(format!("nothing was changed; --force {action} it")).into())
}

/// Writes the file atomically.
fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    let folder = file.parent().context("the path of the unit has no folder")?;
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
    let output = command.output().await.with_context(|| format!("cannot run `{line}`"))?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let message = format!("`{line}` failed: {}", one_line(stderr.trim()));
    Err(Failure::new(Exit::Failed, message).hint("fix the cause and run the command again").into())
}

/// How to create the user and the folders of a system service, if the user does not exist.
fn user_steps(service: &Service, scope: Scope, data_dir: &Path) -> Option<String> {
    if scope == Scope::User || has_user(USER) {
        return None;
    }
    Some(format!(
        "Create its user and folders: `useradd --system --user-group --home-dir {home} --no-create-home --shell \
         /usr/sbin/nologin {USER}` and `install -d -o {USER} -g {USER} -m 0700 {state} {home} {folder}`",
        home = service.home,
        state = service.state,
        folder = shell::word(data_dir),
    ))
}

fn start_steps(service: &Service, scope: Scope, started: bool) -> Vec<String> {
    let (control, name, mut steps) = (scope.systemctl(), service.name, Vec::new());
    if !started {
        steps.push(format!(
            "To start the service: `{control} daemon-reload`, then `{control} enable --now {name}`."
        ));
    }
    if scope == Scope::User {
        steps.push("To keep it running while you are logged out: `loginctl enable-linger`.".to_owned());
    }
    steps
}

fn has_user(name: &str) -> bool {
    let users = fs_err::read_to_string("/etc/passwd").unwrap_or_default();
    users.lines().any(|line| line.split(':').next() == Some(name))
}
