//! A node as a service: what `install.sh` and `plexus node install` put where, and that what they put there works.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use plexus_testkit::{Plexus, Ran, Signal, send};

const BINARY: &str = env!("CARGO_BIN_EXE_plexus");
const PATIENCE: Duration = Duration::from_secs(30);

fn deploy(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(file)
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A place to install into.
struct Place {
    plexus: Plexus,
    prefix: PathBuf,
    units: PathBuf,
}

impl Place {
    fn new() -> Self {
        let plexus = crate::plexus();
        let (prefix, units) = (plexus.home().join("a prefix"), plexus.home().join("units"));
        Self { plexus, prefix, units }
    }

    async fn install(&self, args: &[&str]) -> Ran {
        let script = deploy("install.sh").display().to_string();
        let mut all = vec![script.as_str(), "--prefix", self.prefix.to_str().unwrap()];
        all.extend(["--unit-dir", self.units.to_str().unwrap()]);
        all.extend(args);
        self.run("/bin/sh", &all).await
    }

    async fn run(&self, program: &str, args: &[&str]) -> Ran {
        let ran = self.plexus.command(program, args).output();
        let ran = tokio::time::timeout(PATIENCE, ran).await.expect("it ends in time").unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ran { code: ran.status.code(), stdout: text(&ran.stdout), stderr: text(&ran.stderr) }
    }

    async fn node(&self, args: &[&str]) -> Ran {
        let units = self.units.display().to_string();
        self.plexus.run(&[&["node"], args, &["--unit-dir", &units]].concat()).await
    }

    fn unit(&self) -> PathBuf {
        self.units.join("plexus-node.service")
    }

    fn program(&self) -> PathBuf {
        self.prefix.join("bin/plexus")
    }
}

#[tokio::test]
async fn the_script_installs_what_then_runs_as_a_node_and_takes_it_away_again() {
    let place = Place::new();
    let given = ["--user", "--binary", BINARY];
    let dry = place.install(&[&given[..], &["--dry-run"]].concat()).await;
    assert!(dry.ok().contains("would run: cp") && dry.ok().contains("node install --user"), "{dry:?}");
    assert!(!place.prefix.exists() && !place.units.exists() && !place.plexus.home().join(".config").exists());

    let ran = place.install(&given).await;
    assert!(ran.ok().contains("Program:") && ran.ok().contains("Unit:"), "{ran:?}");
    assert!(ran.stderr.contains("systemctl --user enable --now plexus-node"), "{ran:?}");
    assert!(ran.stderr.contains("has not joined"), "{ran:?}");
    let env_file = place.plexus.home().join(".config/plexus/node.env");
    assert_eq!(std::fs::metadata(&env_file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::metadata(place.unit()).unwrap().permissions().mode() & 0o777, 0o644);
    let start = format!("ExecStart=\"{}\" node run", place.program().display());
    assert!(text(&place.unit()).contains(&start), "{}", text(&place.unit()));

    // Again: nothing is done that is done, and nothing of the user's is touched.
    std::fs::write(&env_file, "PLEXUS_LOG=debug\n").unwrap();
    let inode = |path: &Path| std::fs::metadata(path).unwrap().ino();
    let before = (inode(&place.program()), inode(&place.unit()));
    let again = place.install(&given).await;
    assert!(again.ok().contains("up to date") && again.stderr.contains("there already"), "{again:?}");
    assert_eq!(before, (inode(&place.program()), inode(&place.unit())));
    assert_eq!(text(&env_file), "PLEXUS_LOG=debug\n");

    runs_as_a_node(&place).await;

    let gone = place.install(&["--user", "--uninstall"]).await;
    assert!(gone.ok().contains("Removed"), "{gone:?}");
    assert!(!place.program().exists() && !place.unit().exists() && env_file.exists());
    assert!(place.plexus.home().join(".local/share/plexus-node").exists(), "what it joined as stays");
    assert!(place.install(&["--user", "--uninstall"]).await.ok().contains("is not installed"));
}

/// With the program and the folder of the unit, as systemd would start it.
async fn runs_as_a_node(place: &Place) {
    let hub = place.plexus.up().await;
    let invite = place.plexus.run(&["node", "invite", "nas", "--json"]).await.json(0);
    let unit = text(&place.unit());
    let folder =
        unit.lines().find_map(|line| line.strip_prefix("Environment=PLEXUS_NODE_DATA_DIR=")).unwrap();
    let program = place.program().display().to_string();
    let code = invite["code"].as_str().unwrap();
    place.run(&program, &["--data-dir", folder, "node", "join", &hub.url(""), code]).await.ok();
    let mut command = place.plexus.command(&program, &["node", "run"]);
    let mut node = command.env("PLEXUS_NODE_DATA_DIR", folder).spawn().unwrap();
    let online = async {
        let args = [
            "tools",
            "call",
            "terminal",
            "--node",
            "nas",
            "--arg",
            "action=run",
            "--arg",
            "command=echo a word",
        ];
        while !place.plexus.run(&args).await.stdout.contains("a word") {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, online).await.expect("it is linked in time");
    send(&node, Signal::TERM);
    let ended = tokio::time::timeout(PATIENCE, node.wait()).await.expect("it ends in time");
    assert!(ended.unwrap().success());
    assert!(hub.terminate().await.success());
}

#[tokio::test]
async fn the_script_says_what_is_wrong_before_it_does_anything() {
    let place = Place::new();
    for (args, says) in [
        (&["--binary"][..], "needs a value"),
        (&["--binary", "/nowhere/plexus"], "is not an executable file"),
        (&["--binary", "/etc/passwd"], "is not an executable file"),
        (&["--user", "--system"], "cannot be combined"),
        (&["--frob"], "unknown option"),
        // There is none on the path of the test.
        (&["--user"], "cargo is not installed"),
    ] {
        let ran = place.install(args).await;
        assert!(ran.failed(1).contains(says), "{args:?}: {ran:?}");
    }
    let system = place.install(&["--system", "--binary", BINARY, "--dry-run"]).await;
    assert!(system.ok().contains("would run: install -d -o plexus"), "{system:?}");
    assert!(!place.prefix.exists() && !place.units.exists());
    // Only the program, into a place of its own.
    place.install(&["--user", "--binary", "/bin/true", "--no-service"]).await.ok();
    assert!(place.program().exists() && !place.units.exists());
}

#[tokio::test]
async fn a_unit_is_printed_written_once_and_not_taken_from_who_changed_it() {
    let place = Place::new();
    let printed = place.node(&["install", "--user", "--print"]).await;
    let folder = place.plexus.home().join(".local/share/plexus-node");
    assert!(
        printed.ok().contains(&format!("Environment=PLEXUS_NODE_DATA_DIR={}\n", folder.display())),
        "{printed:?}"
    );
    assert!(!place.units.exists());
    let system =
        place.plexus.run(&["node", "install", "--system", "--print", "--data-dir", "/srv/node"]).await;
    assert!(system.ok().contains("ReadWritePaths=/tmp /var/tmp /srv/node"), "{system:?}");

    let installed = place.node(&["install", "--user"]).await;
    assert_eq!(installed.ok(), format!("Unit: {}\n", place.unit().display()));
    let written = text(&place.unit());
    assert!(written.ends_with(printed.ok()), "{written}");
    let system = place.node(&["install", "--system", "--json"]).await.json(0);
    assert_eq!(system["data_dir"], "/var/lib/plexus-node/data");
    assert_ne!(text(&place.unit()), written, "what it wrote itself it replaces");

    let mine = text(&place.unit()) + "# mine\n";
    std::fs::write(place.unit(), &mine).unwrap();
    for args in [&["install", "--system"][..], &["uninstall", "--system"]] {
        let refused = place.node(args).await;
        assert!(refused.failed(1).contains("--force"), "{refused:?}");
        assert_eq!(text(&place.unit()), mine);
    }
    place.node(&["install", "--system", "--force"]).await.ok();
    assert_ne!(text(&place.unit()), mine);
    let removed = place.node(&["uninstall", "--system"]).await;
    assert!(
        removed.ok().contains("Removed") && removed.stderr.contains("systemctl disable --now"),
        "{removed:?}"
    );
    assert!(!place.unit().exists());
    assert!(place.node(&["uninstall", "--system"]).await.stderr.contains("There is no"));
    assert_eq!(std::fs::read_dir(&place.units).unwrap().count(), 0, "nothing half-written is left");
    assert_eq!(place.node(&["install", "--user", "--system"]).await.code, Some(2));
    assert_eq!(place.node(&["install", "--print", "--now"]).await.code, Some(2));
}

#[tokio::test]
async fn a_machine_without_systemd_is_told_so() {
    if Path::new("/run/systemd/system").exists() {
        eprintln!("left out: systemd runs this machine");
        return;
    }
    let place = Place::new();
    for args in [
        &["node", "install", "--user"][..],
        &["node", "install", "--system", "--now"],
        &["node", "uninstall"],
    ] {
        let refused = place.plexus.run(args).await;
        assert!(refused.failed(1).contains("--print"), "{refused:?}");
    }
    assert!(!place.plexus.home().join(".config").exists());
}

/// What systemd itself says of them.
#[tokio::test]
async fn systemd_understands_the_units() {
    if !Path::new("/usr/bin/systemd-analyze").exists() {
        eprintln!("left out: there is no systemd-analyze");
        return;
    }
    let place = Place::new();
    let runtime = place.plexus.home().join("runtime");
    std::fs::create_dir(&runtime).unwrap();
    for scope in ["--system", "--user"] {
        place.node(&["install", scope, "--force"]).await.ok();
        let unit = place.unit().display().to_string();
        let mut command =
            place.plexus.command("/usr/bin/systemd-analyze", &["verify", "--man=no", scope, &unit]);
        let ran = command.env("XDG_RUNTIME_DIR", &runtime).output();
        let ran = tokio::time::timeout(PATIENCE, ran).await.expect("it ends in time").unwrap();
        let said = String::from_utf8_lossy(&ran.stderr);
        // Others on the machine may have units that are wrong.
        let about: Vec<_> = said.lines().filter(|line| line.contains("plexus")).collect();
        assert!(about.is_empty() && ran.status.success(), "{scope}: {said}");
    }
    let wrong = text(&place.unit()).replace("KillMode=process", "KillMode=proces");
    std::fs::write(place.unit(), wrong).unwrap();
    let unit = place.unit().display().to_string();
    let mut command =
        place.plexus.command("/usr/bin/systemd-analyze", &["verify", "--man=no", "--user", &unit]);
    let said = command.env("XDG_RUNTIME_DIR", &runtime).output().await.unwrap();
    assert!(String::from_utf8_lossy(&said.stderr).contains("kill mode"), "it would say so");
}

#[tokio::test]
async fn the_script_is_plain_sh() {
    let place = Place::new();
    let script = deploy("install.sh").display().to_string();
    place.run("/bin/sh", &["-n", &script]).await.ok();
    assert!(!text(&deploy("install.sh")).contains("curl"), "nothing is downloaded");
    if !Path::new("/usr/bin/shellcheck").exists() {
        eprintln!("left out: there is no shellcheck");
        return;
    }
    let checked = place.run("/usr/bin/shellcheck", &["-s", "sh", &script]).await;
    assert_eq!(checked.ok(), "");
}

/// It cannot be built in a test; what can be read off it is.
#[test]
fn the_container_is_built_with_our_toolchain_and_runs_without_root_and_secrets() {
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
