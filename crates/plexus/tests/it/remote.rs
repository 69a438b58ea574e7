//! Files, commands and shells on another machine: a hub, a node behind a wire that can be cut, and the program itself, all of
//! them real processes.

mod cp;
mod cp_faults;
mod exec;
mod shell;

use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use plexus_testkit::{HubProcess, Link, Plexus};
use tokio::process::Child;

use crate::machines;

/// Far beyond what anything here should take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A hub, and a node called `nas` that reaches it over a wire.
struct Site {
    plexus: Plexus,
    nas: Plexus,
    hub: Option<HubProcess>,
    wire: Link,
    node: Option<Child>,
}

impl Site {
    async fn new() -> Self {
        let (plexus, nas) = (crate::plexus(), crate::plexus());
        let hub = plexus.up().await;
        let wire = Link::to(hub.address()).await;
        machines::join(&plexus, &nas, &wire.url(""), "nas", &[]).await;
        let mut site = Self { plexus, nas, hub: Some(hub), wire, node: None };
        site.start_node().await;
        site
    }

    async fn start_node(&mut self) {
        self.node = Some(machines::run_node(&self.nas, "ws"));
        self.online().await;
    }

    async fn kill_node(&mut self) {
        self.node.take().expect("a node").kill().await.expect("it can be killed");
    }

    fn hub(&self) -> &HubProcess {
        self.hub.as_ref().expect("a hub")
    }

    /// Kills the hub and starts it again at the same address.
    async fn restart_hub(&mut self) {
        let hub = self.hub.take().expect("a hub");
        let address = hub.address().to_string();
        hub.kill().await;
        self.hub = Some(self.plexus.up_with(&["--listen", &address]).await);
    }

    async fn online(&self) {
        let begun = Instant::now();
        while self.hub().api("/api/v1/nodes/nas").await["state"] != "online" {
            assert!(begun.elapsed() < PATIENCE, "the node is not linked");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// A path in the working folder of the node, where relative paths begin.
    fn there(&self, path: &str) -> PathBuf {
        self.nas.home().join("plexus-work").join(path)
    }

    /// A path in the home folder of the node's user.
    fn at_home(&self, path: &str) -> PathBuf {
        self.nas.home().join(path)
    }

    /// A path here.
    fn here(&self, path: &str) -> PathBuf {
        self.plexus.home().join(path)
    }

    /// The program, to be started by the test.
    fn command(&self, args: &[&str]) -> tokio::process::Command {
        let mut command = self.plexus.command(env!("CARGO_BIN_EXE_plexus"), args);
        command.current_dir(self.plexus.home()).stdin(Stdio::null());
        command
    }

    /// The program, run to its end: code, output and errors as bytes.
    async fn run(&self, args: &[&str]) -> (i32, Vec<u8>, String) {
        self.run_with(args, b"").await
    }

    /// The same with something on its standard input.
    async fn run_with(&self, args: &[&str], input: &[u8]) -> (i32, Vec<u8>, String) {
        use tokio::io::AsyncWriteExt as _;
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let mut stdin = child.stdin.take().expect("its input");
        let fed = async {
            // It need not read all of it.
            let _ = stdin.write_all(input).await;
            drop(stdin);
        };
        let ended = tokio::time::timeout(PATIENCE, async { tokio::join!(fed, child.wait_with_output()).1 });
        let output = ended.await.expect("it ends in time").expect("its output");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code().unwrap_or(-1), output.stdout, errors)
    }

    /// The program, which must succeed.
    async fn ok(&self, args: &[&str]) -> String {
        let (code, output, errors) = self.run(args).await;
        assert_eq!(code, 0, "{args:?}: {errors}");
        String::from_utf8(output).expect("UTF-8")
    }

    /// The program, which must fail with this code; what it says.
    async fn fails(&self, code: i32, args: &[&str]) -> String {
        let (ended, output, errors) = self.run(args).await;
        assert_eq!((ended, output.len()), (code, 0), "{args:?}: {errors}");
        errors
    }

    /// Nothing that was on its way is left in a folder.
    fn nothing_left_in(folder: &std::path::Path) {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let name = entry.expect("an entry").file_name();
            assert!(!name.to_string_lossy().ends_with(".part"), "{name:?} is left in {}", folder.display());
        }
    }
}

/// Bytes that look like nothing, the same for the same seed.
fn noise(length: usize, seed: u64) -> Vec<u8> {
    use rand::{Rng as _, SeedableRng as _};
    let mut bytes = vec![0; length];
    rand::rngs::SmallRng::seed_from_u64(seed).fill_bytes(&mut bytes);
    bytes
}
