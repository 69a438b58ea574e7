//! An agent on a real terminal, started from a shell that controls its jobs.

use pty_process::{Pty, Size};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Child;

use super::{Bench, PATIENCE};

/// Says what reaches it.
const TELLS: &str = r#"
trap 'echo size-$(stty size | tr " " x)' WINCH
trap 'echo inter"rupted"' INT
echo up-$(stty size | tr " " x)
until [[ $line == end ]]; do
  read -r line && echo "got-$line"
done
exit 6"#;

/// Somebody who sits at a shell on a terminal.
struct Typist {
    pty: Pty,
    shell: Child,
    seen: String,
}

impl Typist {
    fn at(bench: &Bench, shell: &[&str]) -> Self {
        let (pty, inside) = pty_process::open().expect("a terminal");
        pty.resize(Size::new(30, 100)).expect("a size");
        let path = std::path::Path::new(env!("CARGO_BIN_EXE_plexus")).parent().unwrap();
        let shell = pty_process::Command::new("/bin/bash")
            .args(shell)
            .env_clear()
            .env("HOME", bench.plexus.home())
            .env("PATH", format!("{}:{}:/usr/bin:/bin", path.display(), bench.at("bin").display()))
            .env("TERM", "dumb")
            .env("PS1", "$ ")
            .kill_on_drop(true)
            .spawn(inside)
            .expect("a shell");
        Self { pty, shell, seen: String::new() }
    }

    async fn types(&mut self, keys: &str) {
        self.pty.write_all(keys.as_bytes()).await.expect("keys");
    }

    /// Waits until this is on the screen, and forgets everything up to it.
    async fn sees(&mut self, text: &str) {
        let looked = async {
            let mut block = vec![0; 4096];
            while !self.seen.contains(text) {
                match self.pty.read(&mut block).await {
                    Ok(read @ 1..) => self.seen.push_str(&String::from_utf8_lossy(&block[..read])),
                    _ => return false,
                }
            }
            true
        };
        let found = tokio::time::timeout(PATIENCE, looked).await;
        assert!(matches!(found, Ok(true)), "{text:?} is not to be seen in {:?}", self.seen);
        let end = self.seen.find(text).expect("it is there") + text.len();
        self.seen.drain(..end);
    }
}

#[tokio::test]
async fn an_agent_has_the_terminal_with_its_window_keys_and_jobs() {
    let bench = Bench::new().await;
    bench.agent("tells", TELLS);
    let mut typist = Typist::at(&bench, &["--norc", "--noprofile", "-i"]);
    typist.types("plexus run --generic tells\r").await;
    typist.sees("up-30x100").await;
    typist.types("one\r").await;
    typist.sees("got-one").await;
    typist.pty.resize(Size::new(25, 77)).unwrap();
    // bash runs a trap when it has read the line.
    typist.types("sized\r").await;
    typist.sees("size-25x77").await;
    typist.types("\x03").await;
    typist.types("after\r").await;
    typist.sees("interrupted").await;

    // Suspended, it is one job of the shell.
    typist.types("\x1a").await;
    typist.sees("Stopped").await;
    typist.types("jobs; echo shell-$((40 + 2))\r").await;
    typist.sees("Stopped").await;
    typist.sees("plexus run").await;
    typist.sees("shell-42").await;
    assert_eq!(bench.ps().await[0]["state"], "suspended");
    typist.types("fg\r").await;
    // What is typed sooner is for the shell.
    typist.sees("tells\r\n").await;
    typist.types("back\r").await;
    typist.sees("got-back").await;
    // Sent to the background, it is stopped when it reads, and comes back.
    typist.types("\x1a").await;
    typist.sees("Stopped").await;
    typist.types("bg; echo shell-$((41 + 2))\r").await;
    typist.sees("shell-43").await;
    let is_stopped = async || bench.ps().await[0]["state"] == "suspended";
    super::until("it is stopped because it reads", is_stopped).await;
    typist.types("fg\r").await;
    typist.sees("tells\r\n").await;
    typist.types("again\r").await;
    typist.sees("got-again").await;
    typist.types("end\r").await;
    typist.sees("got-end").await;
    typist.types("echo code-$?\r").await;
    typist.sees("code-6").await;
    typist.types("exit\r").await;
    let ended = tokio::time::timeout(PATIENCE, typist.shell.wait()).await.expect("in time");
    assert!(ended.unwrap().success());
    bench.is_cleared().await;
}

#[tokio::test]
async fn a_terminal_is_put_in_order_after_a_crash() {
    let bench = Bench::new().await;
    bench.agent("falls", "stty raw -echo; kill -KILL $$");
    let line = "plexus run --generic falls; echo code-$?; stty -a; echo do''ne";
    let mut typist = Typist::at(&bench, &["-c", line]);
    typist.sees("code-137").await;
    let mut block = vec![0; 4096];
    while !typist.seen.contains("done") {
        let read =
            tokio::time::timeout(PATIENCE, typist.pty.read(&mut block)).await.expect("in time").unwrap();
        typist.seen.push_str(&String::from_utf8_lossy(&block[..read]));
    }
    for mode in ["icanon", "isig", "echo"] {
        let words = typist.seen.split_whitespace().any(|word| word == mode);
        assert!(words, "{mode} is off: {:?}", typist.seen);
    }
}

#[tokio::test]
async fn in_a_pipeline_an_agent_stays_in_the_group_of_the_pipeline() {
    let bench = Bench::new().await;
    bench.agent("reads", "echo as''king >&2; read -r line; echo \"got-$line\"");
    let mut typist = Typist::at(&bench, &["--norc", "--noprofile", "-i"]);
    typist.types("plexus run -q --generic reads | sed s/got/had/; echo code-$?\r").await;
    typist.sees("asking").await;
    typist.types("this\r").await;
    typist.sees("had-this").await;
    typist.sees("code-0").await;
    bench.agent(
        "waits",
        "trap 'echo inter\"rupted\" >&2; exit 4' INT; echo wait''ing >&2; while :; do sleep 0.05; done",
    );
    typist.types("plexus run -q --generic waits | cat; echo codes-${PIPESTATUS[0]}\r").await;
    typist.sees("waiting").await;
    typist.types("\x03").await;
    typist.sees("interrupted").await;
    bench.is_cleared_soon().await;
}
