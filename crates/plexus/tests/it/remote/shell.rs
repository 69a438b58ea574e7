//! `plexus shell` in a real terminal, with keys that are typed one after the other.

use std::time::Duration;

use pty_process::{Pty, Size};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Child;

use super::{PATIENCE, Site};

const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Somebody who sits at a terminal.
struct Typist {
    pty: Pty,
    child: Child,
    seen: String,
}

impl Typist {
    fn at(site: &Site, args: &[&str]) -> Self {
        let (pty, inside) = pty_process::open().expect("a terminal");
        pty.resize(Size::new(30, 100)).expect("a size");
        let child = pty_process::Command::new(env!("CARGO_BIN_EXE_plexus"))
            .args(args)
            .env_clear()
            .env("HOME", site.plexus.home())
            .env("PATH", PATH)
            .env("TERM", "xterm")
            .kill_on_drop(true)
            .spawn(inside)
            .expect("the program starts");
        Self { pty, child, seen: String::new() }
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

    /// How the program ended.
    async fn ends(&mut self) -> Option<i32> {
        let mut block = vec![0; 4096];
        let drained = async {
            loop {
                tokio::select! {
                    ended = self.child.wait() => return ended.expect("a status").code(),
                    read = self.pty.read(&mut block) => {
                        // Nobody has it open inside any more, and the end is heard in a moment.
                        if !matches!(read, Ok(1..)) {
                            return self.child.wait().await.expect("a status").code();
                        }
                    }
                }
            }
        };
        tokio::time::timeout(PATIENCE, drained).await.expect("it ends in time")
    }
}

#[tokio::test]
async fn a_shell_takes_every_key_and_the_window_and_ends_with_its_code() {
    let site = Site::new().await;
    let mut typist = Typist::at(&site, &["shell", "nas"]);
    // What is seen is what the shell makes of it, and not the echo of what was typed.
    typist.types("echo on-$((40 + 2)) at $HOME\r").await;
    typist.sees("on-42 at ").await;
    typist.sees(&site.nas.home().display().to_string()).await;
    typist.types("stty size\r").await;
    typist.sees("30 100").await;
    typist.pty.resize(Size::new(25, 77)).unwrap();
    // The change is told to it in a moment.
    let begun = std::time::Instant::now();
    while !typist.seen.contains("25 77") {
        assert!(begun.elapsed() < PATIENCE, "{:?}", typist.seen);
        typist.types("stty size; echo si\"ze\"d\r").await;
        let before = typist.seen.len();
        let mut block = vec![0; 4096];
        while !typist.seen[before..].contains("sized") {
            let read =
                tokio::time::timeout(PATIENCE, typist.pty.read(&mut block)).await.expect("in time").unwrap();
            typist.seen.push_str(&String::from_utf8_lossy(&block[..read]));
        }
    }
    typist.seen.clear();
    // Ctrl-C ends what runs there, and nothing here.
    typist.types("sleep 60; echo co\"de\"-$?\r").await;
    wait_for_job(&site, "sleep 60").await;
    typist.types("\x03").await;
    typist.types("echo still-$((1 + 1))\r").await;
    typist.sees("still-2").await;
    typist.types("exit 9\r").await;
    assert_eq!(typist.ends().await, Some(9));
}

#[tokio::test]
async fn shell_begins_in_the_working_folder_and_a_refusal_is_explained_at_its_end() {
    let site = Site::new().await;
    let mut typist = Typist::at(&site, &["shell", "nas"]);
    typist.types("mkdir inbox && echo made-in-$PWD.\r").await;
    typist.sees(&format!("made-in-{}.", site.there("").display().to_string().trim_end_matches('/'))).await;
    assert!(site.there("inbox").is_dir());
    typist.types("mkdir ~/new; echo tried-$((1 + 1))\r").await;
    typist.sees("tried-2").await;
    typist.types("exit 0\r").await;
    if super::exec::is_held(&site).await {
        typist.sees("held to its policy by").await;
        assert!(!site.at_home("new").exists());
    }
    assert_eq!(typist.ends().await, Some(0));
}

/// Waits until a process with this command line runs.
async fn wait_for_job(site: &Site, line: &str) {
    let begun = std::time::Instant::now();
    let wanted = line.replace(' ', "\0");
    let home = format!("HOME={}", site.nas.home().display());
    loop {
        let found = std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
            let read = |name: &str| std::fs::read(entry.path().join(name)).unwrap_or_default();
            String::from_utf8_lossy(&read("cmdline")).starts_with(&wanted)
                && String::from_utf8_lossy(&read("environ")).contains(&home)
        });
        if found {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{line} does not run");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_shell_outlives_a_hub_that_restarts_and_is_left_with_a_tilde_and_a_dot() {
    let mut site = Site::new().await;
    let mut typist = Typist::at(&site, &["shell", "nas"]);
    typist.types("echo before-$((1 + 1))\r").await;
    typist.sees("before-2").await;
    site.restart_hub().await;
    typist.types("echo after-$((2 + 2))\r").await;
    typist.sees("after-4").await;
    site.wire.cut();
    site.wire.heal();
    typist.types("echo cut-$((3 + 3))\r").await;
    typist.sees("cut-6").await;
    typist.types("echo a~.b\r").await;
    typist.sees("a~.b").await;
    typist.types("\r~.").await;
    assert_eq!(typist.ends().await, Some(0));
    // The shell there is gone with it.
    let begun = std::time::Instant::now();
    loop {
        let jobs = site.ok(&["tools", "call", "terminal", "--node", "nas", "--arg", "action=list"]).await;
        if !jobs.contains("running for") {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{jobs}");
    }
    // In a pipe there is nobody to type.
    assert!(site.fails(2, &["shell", "nas"]).await.contains("plexus exec"));
}

#[tokio::test]
async fn the_terminal_is_what_it_was_before_also_when_the_program_is_ended() {
    let site = Site::new().await;
    // A shell here, whose terminal is asked about before and after.
    let (pty, inside) = pty_process::open().expect("a terminal");
    let program = env!("CARGO_BIN_EXE_plexus");
    let script = format!("stty -a > before; {program} shell nas; echo ended-$?; stty -a > after");
    let child = pty_process::Command::new("/bin/sh")
        .args(["-c", &script])
        .current_dir(site.plexus.home())
        .env_clear()
        .env("HOME", site.plexus.home())
        .env("PATH", PATH)
        .env("TERM", "xterm")
        .kill_on_drop(true)
        .spawn(inside)
        .expect("a shell");
    let shell = child.id().expect("a process");
    let mut typist = Typist { pty, child, seen: String::new() };
    typist.types("echo in-$((5 + 5))\r").await;
    typist.sees("in-10").await;
    let children =
        std::fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).expect("its children");
    let pid: i32 = children.split_whitespace().next().expect("the program").parse().expect("a number");
    let pid = rustix::process::Pid::from_raw(pid).expect("a process");
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("a process of ours");
    typist.sees("ended-143").await;
    typist.ends().await;
    let read = |name| std::fs::read_to_string(site.here(name)).expect("what stty said");
    assert_eq!(read("before"), read("after"));
}
