//! `plexus shell` on a real terminal.

use plexus_testkit::{eventually, until};

use super::Site;
use crate::pty::{SMALL, Terminal};

/// Runs the program on a terminal.
fn start(site: &Site, args: &[&str]) -> Terminal {
    let mut command = site.command(args);
    command.env("TERM", "xterm");
    Terminal::start(&command, SMALL)
}

#[tokio::test]
async fn shell_passes_keys_window_size_and_exit_code() {
    let site = Site::new().await;
    let mut terminal = start(&site, &["shell", "nas"]);
    // The expected texts differ from the echo of the typed ones.
    terminal.send("echo on-$((40 + 2)) at $HOME\r").await;
    terminal.expect("on-42 at ").await;
    terminal.expect(&site.nas.home().display().to_string()).await;
    terminal.send("stty size\r").await;
    terminal.expect("30 100").await;
    terminal.resize((25, 77));
    // The new size takes a moment to arrive at the node.
    until("the shell has the new size", async || {
        terminal.send("stty size; echo si\"ze\"d\r").await;
        terminal.expect("sized").await.contains("25 77")
    })
    .await;
    // Ctrl-C interrupts the command on the node, not the program.
    terminal.send("sleep 60; echo co\"de\"-$?\r").await;
    wait_for_process(&site, "sleep 60").await;
    terminal.send("\x03").await;
    terminal.send("echo still-$((1 + 1))\r").await;
    terminal.expect("still-2").await;
    terminal.send("exit 9\r").await;
    assert_eq!(terminal.finish().await.0, Some(9));
}

#[tokio::test]
async fn shell_starts_in_the_working_folder_and_explains_the_sandbox() {
    let site = Site::new().await;
    let is_sandboxed = site.is_sandboxed().await;
    let mut terminal = start(&site, &["shell", "nas"]);
    if is_sandboxed {
        // What can be written is said before anything is refused.
        let work = site.on_node("").display().to_string();
        terminal.expect(&format!("can write below {}", site.nas.home().display())).await;
        terminal.expect(&format!("the working folder is {}]", work.trim_end_matches('/'))).await;
    }
    terminal.send("mkdir inbox && echo made-in-$PWD.\r").await;
    terminal
        .expect(&format!("made-in-{}.", site.on_node("").display().to_string().trim_end_matches('/')))
        .await;
    assert!(site.on_node("inbox").is_dir());
    terminal.send("mkdir ~/new; echo tried-$((1 + 1))\r").await;
    terminal.expect("tried-2").await;
    terminal.send("exit 0\r").await;
    if is_sandboxed {
        terminal.expect("restricted to its policy by").await;
        assert!(!site.in_node_home("new").exists());
    }
    assert_eq!(terminal.finish().await.0, Some(0));
}

/// Waits until a process of the node with this command line runs.
async fn wait_for_process(site: &Site, line: &str) {
    let wanted = line.replace(' ', "\0");
    let home = format!("HOME={}", site.nas.home().display());
    until(&format!("{line} runs"), async || {
        std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
            let read = |name: &str| std::fs::read(entry.path().join(name)).unwrap_or_default();
            String::from_utf8_lossy(&read("cmdline")).starts_with(&wanted)
                && String::from_utf8_lossy(&read("environ")).contains(&home)
        })
    })
    .await;
}

#[tokio::test]
async fn shell_survives_a_hub_restart_and_ends_with_tilde_dot() {
    let mut site = Site::new().await;
    let mut terminal = start(&site, &["shell", "nas"]);
    terminal.send("echo before-$((1 + 1))\r").await;
    terminal.expect("before-2").await;
    site.restart_hub().await;
    terminal.send("echo after-$((2 + 2))\r").await;
    terminal.expect("after-4").await;
    site.link.cut();
    site.link.heal();
    terminal.send("echo cut-$((3 + 3))\r").await;
    terminal.expect("cut-6").await;
    terminal.send("echo a~.b\r").await;
    terminal.expect("a~.b").await;
    terminal.send("\r~.").await;
    assert_eq!(terminal.finish().await.0, Some(0));
    // The shell on the node has ended too.
    eventually("no job runs on the node", async || {
        let jobs = site.ok(&["tools", "call", "terminal", "--node", "nas", "--arg", "action=list"]).await;
        if jobs.contains("running for") { Err(jobs) } else { Ok(()) }
    })
    .await;
    // Without a terminal the command is refused.
    assert!(site.fails_with(2, &["shell", "nas"]).await.contains("plexus exec"));
}

#[tokio::test]
async fn terminal_settings_are_restored_also_after_sigterm() {
    let site = Site::new().await;
    // A local shell, which prints the terminal settings before and after.
    let script = "stty -a > before; plexus shell nas; echo ended-$?; stty -a > after";
    let mut command = site.plexus.command("/bin/sh", &["-c", script]);
    command.env("TERM", "xterm");
    let mut terminal = Terminal::start(&command, SMALL);
    let shell = terminal.pid();
    terminal.send("echo in-$((5 + 5))\r").await;
    terminal.expect("in-10").await;
    let children =
        std::fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).expect("its children");
    let pid: i32 = children.split_whitespace().next().expect("the program").parse().expect("a number");
    let pid = rustix::process::Pid::from_raw(pid).expect("a process");
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("a process of ours");
    terminal.expect("ended-143").await;
    terminal.finish().await;
    let read = |name| std::fs::read_to_string(site.local_path(name)).expect("the settings");
    assert_eq!(read("before"), read("after"));
}
