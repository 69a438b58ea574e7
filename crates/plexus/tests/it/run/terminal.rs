//! Agents under `plexus run` on a real terminal, started from a shell with job control.

use plexus_testkit::until;

use super::RunnerHome;
use crate::pty::{SMALL, Terminal};

/// An agent that reports its input, window size and interrupts.
const REPORTING_AGENT: &str = r#"
trap 'echo size-$(stty size | tr " " x)' WINCH
trap 'echo inter"rupted"' INT
echo up-$(stty size | tr " " x)
until [[ $line == end ]]; do
  read -r line && echo "got-$line"
done
exit 6"#;

/// Runs bash on a terminal, with the agents on its path.
fn bash(home: &RunnerHome, args: &[&str]) -> Terminal {
    let mut command = home.plexus.command("/bin/bash", args);
    let path = format!("{}:{}:/usr/bin:/bin", crate::program_folder(), home.path("bin").display());
    command.env("PATH", path).env("TERM", "dumb").env("PS1", "$ ");
    Terminal::start(&command, SMALL)
}

#[tokio::test]
async fn agent_has_the_terminal_with_window_size_keys_and_job_control() {
    let home = RunnerHome::new().await;
    home.add_agent("reporter", REPORTING_AGENT);
    let mut terminal = bash(&home, &["--norc", "--noprofile", "-i"]);
    terminal.send("plexus run --generic reporter\r").await;
    terminal.expect("up-30x100").await;
    terminal.send("one\r").await;
    terminal.expect("got-one").await;
    terminal.resize((25, 77));
    // bash runs a trap only after it has read a line.
    terminal.send("sized\r").await;
    terminal.expect("size-25x77").await;
    terminal.send("\x03").await;
    terminal.send("after\r").await;
    terminal.expect("interrupted").await;

    // The suspended runner is one job of the shell.
    terminal.send("\x1a").await;
    terminal.expect("Stopped").await;
    terminal.send("jobs; echo shell-$((40 + 2))\r").await;
    terminal.expect("Stopped").await;
    terminal.expect("plexus run").await;
    terminal.expect("shell-42").await;
    assert_eq!(home.ps().await[0]["state"], "suspended");
    terminal.send("fg\r").await;
    // Keys typed before this would go to the shell.
    terminal.expect("reporter\r\n").await;
    terminal.send("back\r").await;
    terminal.expect("got-back").await;
    // In the background it is stopped when it reads, and can be brought back.
    terminal.send("\x1a").await;
    terminal.expect("Stopped").await;
    terminal.send("bg; echo shell-$((41 + 2))\r").await;
    terminal.expect("shell-43").await;
    let is_stopped = async || home.ps().await[0]["state"] == "suspended";
    until("the run is stopped", is_stopped).await;
    terminal.send("fg\r").await;
    terminal.expect("reporter\r\n").await;
    terminal.send("again\r").await;
    terminal.expect("got-again").await;
    terminal.send("end\r").await;
    terminal.expect("got-end").await;
    terminal.send("echo code-$?\r").await;
    terminal.expect("code-6").await;
    terminal.send("exit\r").await;
    assert_eq!(terminal.finish().await.0, Some(0));
    home.assert_cleaned_up().await;
}

#[tokio::test]
async fn terminal_is_restored_after_a_crash() {
    let home = RunnerHome::new().await;
    home.add_agent("falls", "stty raw -echo; kill -KILL $$");
    let line = "plexus run --generic falls; echo code-$?; stty -a; echo do''ne";
    let mut terminal = bash(&home, &["-c", line]);
    terminal.expect("code-137").await;
    let settings = terminal.expect("done").await;
    for mode in ["icanon", "isig", "echo"] {
        assert!(settings.split_whitespace().any(|word| word == mode), "{mode} is off: {settings:?}");
    }
}

#[tokio::test]
async fn agent_in_a_pipeline_stays_in_its_process_group() {
    let home = RunnerHome::new().await;
    home.add_agent("reads", "echo as''king >&2; read -r line; echo \"got-$line\"");
    let mut terminal = bash(&home, &["--norc", "--noprofile", "-i"]);
    terminal.send("plexus run -q --generic reads | sed s/got/had/; echo code-$?\r").await;
    terminal.expect("asking").await;
    terminal.send("this\r").await;
    terminal.expect("had-this").await;
    terminal.expect("code-0").await;
    home.add_agent(
        "waits",
        "trap 'echo inter\"rupted\" >&2; exit 4' INT; echo wait''ing >&2; while :; do sleep 0.05; done",
    );
    terminal.send("plexus run -q --generic waits | cat; echo codes-${PIPESTATUS[0]}\r").await;
    terminal.expect("waiting").await;
    terminal.send("\x03").await;
    terminal.expect("interrupted").await;
    home.wait_until_cleaned_up().await;
}
