//! A hub or a node as a service: the files that `install.sh` and `plexus node install` write, and that they work.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use plexus_testkit::{Plexus, ProgramOutput, Signal, send, until};

const BINARY: &str = env!("CARGO_BIN_EXE_plexus");
const TIMEOUT: Duration = Duration::from_secs(30);

fn deploy(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(file)
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A home with folders to install into.
struct Installation {
    plexus: Plexus,
    prefix: PathBuf,
    units: PathBuf,
}

impl Installation {
    fn new() -> Self {
        let plexus = crate::plexus();
        let (prefix, units) = (plexus.home().join("a prefix"), plexus.home().join("units"));
        Self { plexus, prefix, units }
    }

    async fn install(&self, args: &[&str]) -> ProgramOutput {
        let script = deploy("install.sh").display().to_string();
        let mut all = vec![script.as_str(), "--prefix", self.prefix.to_str().unwrap()];
        all.extend(["--unit-dir", self.units.to_str().unwrap()]);
        all.extend(args);
        self.run("/bin/sh", &all).await
    }

    async fn run(&self, program: &str, args: &[&str]) -> ProgramOutput {
        let run_output = self.plexus.command(program, args).output();
        let run_output = tokio::time::timeout(TIMEOUT, run_output).await.expect("it ends in time").unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        ProgramOutput {
            code: run_output.status.code(),
            stdout: text(&run_output.stdout),
            stderr: text(&run_output.stderr),
        }
    }

    async fn node(&self, args: &[&str]) -> ProgramOutput {
        let units = self.units.display().to_string();
        self.plexus.run(&[&["node"], args, &["--unit-dir", &units]].concat()).await
    }

    /// Whether systemd accepts a unit, and its messages.
    async fn verify(&self, unit: &Path, scope: &str) -> (bool, String) {
        let args = ["verify", "--man=no", scope, unit.to_str().unwrap()];
        let mut command = self.plexus.command("/usr/bin/systemd-analyze", &args);
        let run_output = command.env("XDG_RUNTIME_DIR", self.plexus.home().join("runtime")).output();
        let run_output = tokio::time::timeout(TIMEOUT, run_output).await.expect("it ends in time").unwrap();
        (run_output.status.success(), String::from_utf8_lossy(&run_output.stderr).into_owned())
    }

    fn unit(&self) -> PathBuf {
        self.units.join("plexus-node.service")
    }

    fn program(&self) -> PathBuf {
        self.prefix.join("bin/plexus")
    }
}

#[tokio::test]
async fn script_installs_a_working_node_and_uninstalls_it() {
    let target = Installation::new();
    let options = ["--user", "--binary", BINARY];
    let dry_run = target.install(&[&options[..], &["--dry-run"]].concat()).await;
    assert!(
        dry_run.ok().contains("would run: cp") && dry_run.ok().contains("node install --user"),
        "{dry_run:?}"
    );
    assert!(
        !target.prefix.exists() && !target.units.exists() && !target.plexus.home().join(".config").exists()
    );

    let run_output = target.install(&options).await;
    assert!(run_output.ok().contains("Program:") && run_output.ok().contains("Unit:"), "{run_output:?}");
    assert!(run_output.stderr.contains("systemctl --user enable --now plexus-node"), "{run_output:?}");
    assert!(run_output.stderr.contains("has not joined"), "{run_output:?}");
    let env_file = target.plexus.home().join(".config/plexus/node.env");
    assert_eq!(std::fs::metadata(&env_file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::metadata(target.unit()).unwrap().permissions().mode() & 0o777, 0o644);
    let start = format!("ExecStart=\"{}\" node run", target.program().display());
    assert!(text(&target.unit()).contains(&start), "{}", text(&target.unit()));

    // A second installation changes nothing, and keeps the user's file.
    std::fs::write(&env_file, "PLEXUS_LOG=debug\n").unwrap();
    let inode = |path: &Path| std::fs::metadata(path).unwrap().ino();
    let before = (inode(&target.program()), inode(&target.unit()));
    let again = target.install(&options).await;
    assert!(again.ok().contains("up to date") && again.stderr.contains("service is up to date"), "{again:?}");
    assert_eq!(before, (inode(&target.program()), inode(&target.unit())));
    assert_eq!(text(&env_file), "PLEXUS_LOG=debug\n");

    check_node_runs(&target).await;

    let uninstalled = target.install(&["--user", "--uninstall"]).await;
    assert!(uninstalled.ok().contains("Removed"), "{uninstalled:?}");
    assert!(!target.program().exists() && !target.unit().exists() && env_file.exists());
    assert!(
        target.plexus.home().join(".local/share/plexus-node").exists(),
        "the credential of the node stays"
    );
    assert!(target.install(&["--user", "--uninstall"]).await.ok().contains("is not installed"));
}

/// Runs the node with the program and the folder of the unit, like systemd would.
async fn check_node_runs(target: &Installation) {
    let hub = target.plexus.up().await;
    let invite = target.plexus.run(&["node", "invite", "nas", "--json"]).await.json(0);
    let unit = text(&target.unit());
    let folder =
        unit.lines().find_map(|line| line.strip_prefix("Environment=PLEXUS_NODE_DATA_DIR=")).unwrap();
    let program = target.program().display().to_string();
    let code = invite["code"].as_str().unwrap();
    target.run(&program, &["--data-dir", folder, "node", "join", &hub.url(""), code]).await.ok();
    let mut command = target.plexus.command(&program, &["node", "run"]);
    let mut node = command.env("PLEXUS_NODE_DATA_DIR", folder).spawn().unwrap();
    let echo = ["--node", "nas", "--arg", "action=run", "--arg", "command=echo a word"];
    let args = [&["tools", "call", "terminal"][..], &echo].concat();
    until("the node runs a command", async || target.plexus.run(&args).await.stdout.contains("a word")).await;
    send(&node, Signal::TERM);
    let ended = tokio::time::timeout(TIMEOUT, node.wait()).await.expect("it ends in time");
    assert!(ended.unwrap().success());
    assert!(hub.terminate().await.success());
}

#[tokio::test]
async fn script_reports_mistakes_before_it_changes_anything() {
    let target = Installation::new();
    for (args, expected) in [
        (&["--binary"][..], "needs a value"),
        (&["--binary", "/nowhere/plexus"], "is not an executable file"),
        (&["--binary", "/etc/passwd"], "is not an executable file"),
        (&["--user", "--system"], "cannot be combined"),
        (&["--frob"], "unknown option"),
        // The path of the test has no cargo.
        (&["--user"], "cargo is not installed"),
    ] {
        let run_output = target.install(args).await;
        assert!(run_output.failed(1).contains(expected), "{args:?}: {run_output:?}");
    }
    let system = target.install(&["--system", "--binary", BINARY, "--dry-run"]).await;
    assert!(system.ok().contains("would run: install -d -o plexus"), "{system:?}");
    assert!(!target.prefix.exists() && !target.units.exists());
    // Only the program.
    target.install(&["--user", "--binary", "/bin/true", "--no-service"]).await.ok();
    assert!(target.program().exists() && !target.units.exists());
}

#[tokio::test]
async fn edited_unit_is_replaced_or_removed_only_by_force() {
    let target = Installation::new();
    let printed = target.node(&["install", "--user", "--print"]).await;
    let folder = target.plexus.home().join(".local/share/plexus-node");
    assert!(
        printed.ok().contains(&format!("Environment=PLEXUS_NODE_DATA_DIR={}\n", folder.display())),
        "{printed:?}"
    );
    assert!(!target.units.exists());
    let system =
        target.plexus.run(&["node", "install", "--system", "--print", "--data-dir", "/srv/node"]).await;
    assert!(system.ok().contains("ReadWritePaths=/tmp /var/tmp /srv/node"), "{system:?}");

    let installed = target.node(&["install", "--user"]).await;
    assert_eq!(installed.ok(), format!("Unit: {}\n", target.unit().display()));
    let written = text(&target.unit());
    assert!(written.ends_with(printed.ok()), "{written}");
    let system = target.node(&["install", "--system", "--json"]).await.json(0);
    assert_eq!(system["data_dir"], "/var/lib/plexus-node/data");
    assert_ne!(text(&target.unit()), written, "a unit written by Plexus is replaced");

    let edited = text(&target.unit()) + "# mine\n";
    std::fs::write(target.unit(), &edited).unwrap();
    for args in [&["install", "--system"][..], &["uninstall", "--system"]] {
        let refused = target.node(args).await;
        assert!(refused.failed(1).contains("--force"), "{refused:?}");
        assert_eq!(text(&target.unit()), edited);
    }
    target.node(&["install", "--system", "--force"]).await.ok();
    assert_ne!(text(&target.unit()), edited);
    let removed = target.node(&["uninstall", "--system"]).await;
    assert!(
        removed.ok().contains("Removed") && removed.stderr.contains("systemctl disable --now"),
        "{removed:?}"
    );
    assert!(!target.unit().exists());
    assert!(target.node(&["uninstall", "--system"]).await.stderr.contains("does not exist"));
    assert_eq!(std::fs::read_dir(&target.units).unwrap().count(), 0, "no partial file is left");
    assert_eq!(target.node(&["install", "--user", "--system"]).await.code, Some(2));
    assert_eq!(target.node(&["install", "--print", "--now"]).await.code, Some(2));
}

#[tokio::test]
async fn machine_without_systemd_is_refused_with_a_hint() {
    if Path::new("/run/systemd/system").exists() {
        eprintln!("skipped: systemd runs this machine");
        return;
    }
    let target = Installation::new();
    for args in [
        &["node", "install", "--user"][..],
        &["node", "install", "--system", "--now"],
        &["node", "uninstall"],
        &["service", "install", "--user"],
        &["service", "install", "--system", "--now"],
        &["service", "uninstall"],
    ] {
        let refused = target.plexus.run(args).await;
        let run = if args[0] == "node" { "run `plexus node run`" } else { "run `plexus up`" };
        assert!(
            refused.failed(1).contains(run) && refused.stderr.contains("--print"),
            "{args:?}: {refused:?}"
        );
    }
    assert!(!target.plexus.home().join(".config").exists());
}

#[tokio::test]
async fn systemd_accepts_the_units() {
    if !Path::new("/usr/bin/systemd-analyze").exists() {
        eprintln!("skipped: there is no systemd-analyze");
        return;
    }
    let target = Installation::new();
    let units = target.units.display().to_string();
    std::fs::create_dir(target.plexus.home().join("runtime")).unwrap();
    for (command, name) in [("node", "plexus-node.service"), ("service", "plexus.service")] {
        let unit = target.units.join(name);
        for scope in ["--system", "--user"] {
            let install = [command, "install", scope, "--force", "--unit-dir", &units];
            target.plexus.run(&install).await.ok();
            let (accepted, messages) = target.verify(&unit, scope).await;
            // Other units on the machine may be invalid.
            let warnings: Vec<_> = messages.lines().filter(|line| line.contains("plexus")).collect();
            assert!(warnings.is_empty() && accepted, "{command} {scope}: {messages}");
        }
        let wrong = text(&unit).replace("Restart=", "Restart=perhaps-");
        assert_ne!(wrong, text(&unit));
        std::fs::write(&unit, wrong).unwrap();
        let (_, messages) = target.verify(&unit, "--user").await;
        assert!(messages.contains(name) && messages.contains("restart"), "mistakes are reported: {messages}");
    }
}

#[tokio::test]
async fn script_is_plain_sh() {
    let target = Installation::new();
    let script = deploy("install.sh").display().to_string();
    target.run("/bin/sh", &["-n", &script]).await.ok();
    assert!(!text(&deploy("install.sh")).contains("curl"), "nothing is downloaded");
    if !Path::new("/usr/bin/shellcheck").exists() {
        eprintln!("skipped: there is no shellcheck");
        return;
    }
    let checked = target.run("/usr/bin/shellcheck", &["-s", "sh", &script]).await;
    assert_eq!(checked.ok(), "");
}

/// Checks the text of the file, since a test cannot build the image.
#[test]
fn container_uses_the_pinned_toolchain_and_has_no_root_and_secrets() {
    let file = text(&deploy("Dockerfile"));
    let lines: Vec<&str> = file.lines().filter(|line| !line.starts_with('#')).collect();
    let toolchain = text(&deploy("../rust-toolchain.toml"));
    let version = lines.iter().find_map(|line| line.strip_prefix("ARG RUST_VERSION=")).unwrap();
    assert!(toolchain.contains(&format!("channel = \"{version}\"")), "{version}");
    let from: Vec<_> = lines.iter().filter(|line| line.starts_with("FROM ")).collect();
    assert!(
        from.len() == 2 && !from.iter().any(|line| line.ends_with(":latest") || !line.contains(':')),
        "{from:?}"
    );
    let last = |word: &str| lines.iter().rposition(|line| line.starts_with(word));
    assert_eq!(lines[last("USER ").unwrap()], "USER plexus");
    assert!(last("USER ") < last("ENTRYPOINT ") && last("USER ") > last("RUN "));
    for word in ["KEY", "TOKEN", "PASSWORD", "SECRET"] {
        assert!(!lines.iter().any(|line| line.contains(word)), "{word}");
    }
    assert!(text(&deploy("node.env")).lines().all(|line| line.is_empty() || line.starts_with('#')));
}
