//! `plexus cp`, `exec` and `shell` with a hub, and a node behind a connection that can be cut. All are real processes.

mod cp;
mod cp_faults;
mod documented;
mod exec;
mod sandbox;
mod shell;

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use plexus_testkit::{FaultyLink, HubProcess, Plexus};
use tokio::process::Child;

use crate::nodes;

/// Far longer than anything here should take.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A hub, and a node called `nas` that is linked to it through [`Link`].
struct Site {
    plexus: Plexus,
    nas: Plexus,
    hub: Option<HubProcess>,
    link: FaultyLink,
    node: Option<Child>,
}

impl Site {
    async fn new() -> Self {
        let mut site = Self::before_joining().await;
        nodes::join(&site.plexus, &site.nas, &site.link.url(""), "nas", &[]).await;
        site.start_node().await;
        site
    }

    /// Before the machine has joined the hub.
    async fn before_joining() -> Self {
        let (plexus, nas) = (crate::plexus(), crate::plexus());
        let hub = plexus.up().await;
        let link = FaultyLink::to(hub.address()).await;
        Self { plexus, nas, hub: Some(hub), link, node: None }
    }

    async fn start_node(&mut self) {
        self.node = Some(nodes::start_node(&self.nas, "ws"));
        self.wait_until_online().await;
    }

    async fn kill_node(&mut self) {
        self.node.take().expect("a node").kill().await.expect("it can be killed");
    }

    fn hub(&self) -> &HubProcess {
        self.hub.as_ref().expect("a hub")
    }

    /// Kills the hub and restarts it with the same address.
    async fn restart_hub(&mut self) {
        let hub = self.hub.take().expect("a hub");
        let address = hub.address().to_string();
        hub.kill().await;
        self.hub = Some(self.plexus.up_with(&["--listen", &address]).await);
    }

    async fn wait_until_online(&self) {
        self.hub().api_until("/api/v1/nodes/nas", |node| node["state"] == "online").await;
    }

    /// Whether commands of the node run in a sandbox; without one, nothing is refused. With `CI=true` there must be one.
    async fn is_sandboxed(&self) -> bool {
        let shown = self.nas.run(&["node", "policy", "--json"]).await.json(0);
        let is_sandboxed = shown["sandbox"]["held"] != "none";
        assert!(is_sandboxed || std::env::var_os("CI").is_none_or(|ci| ci != "true"), "no sandbox: {shown}");
        is_sandboxed
    }

    /// A path in the working folder of the node, where relative paths begin.
    fn on_node(&self, path: &str) -> PathBuf {
        self.nas.home().join("plexus-work").join(path)
    }

    /// A path in the home folder of the node's user.
    fn in_node_home(&self, path: &str) -> PathBuf {
        self.nas.home().join(path)
    }

    /// A path in the home folder of the hub and the program.
    fn local_path(&self, path: &str) -> PathBuf {
        self.plexus.home().join(path)
    }

    /// A command for the program.
    fn command(&self, args: &[&str]) -> tokio::process::Command {
        let mut command = self.plexus.command(env!("CARGO_BIN_EXE_plexus"), args);
        command.current_dir(self.plexus.home()).stdin(Stdio::null());
        command
    }

    /// Runs the program to its end; returns exit code, output and errors.
    async fn run(&self, args: &[&str]) -> (i32, Vec<u8>, String) {
        self.run_with(args, b"").await
    }

    /// The same with standard input.
    async fn run_with(&self, args: &[&str], input: &[u8]) -> (i32, Vec<u8>, String) {
        use tokio::io::AsyncWriteExt as _;
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let mut stdin = child.stdin.take().expect("its input");
        let input_written = async {
            // The program may end without reading all of it.
            let _ = stdin.write_all(input).await;
            drop(stdin);
        };
        let ended =
            tokio::time::timeout(TIMEOUT, async { tokio::join!(input_written, child.wait_with_output()).1 });
        let output = ended.await.expect("it ends in time").expect("its output");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code().unwrap_or(-1), output.stdout, errors)
    }

    /// Runs the program, which must succeed; returns its output.
    async fn ok(&self, args: &[&str]) -> String {
        let (code, output, errors) = self.run(args).await;
        assert_eq!(code, 0, "{args:?}: {errors}");
        String::from_utf8(output).expect("UTF-8")
    }

    /// Runs the program, which must fail with this code; returns its errors.
    async fn fails_with(&self, code: i32, args: &[&str]) -> String {
        let (ended, output, errors) = self.run(args).await;
        assert_eq!((ended, output.len()), (code, 0), "{args:?}: {errors}");
        errors
    }

    /// Checks that a folder has no partial files.
    fn assert_no_partial_files(folder: &std::path::Path) {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let name = entry.expect("an entry").file_name();
            assert!(!name.to_string_lossy().ends_with(".part"), "{name:?} is left in {}", folder.display());
        }
    }
}

/// Random bytes, determined by the seed.
fn random_bytes(length: usize, seed: u64) -> Vec<u8> {
    use rand::{Rng as _, SeedableRng as _};
    let mut bytes = vec![0; length];
    rand::rngs::SmallRng::seed_from_u64(seed).fill_bytes(&mut bytes);
    bytes
}
