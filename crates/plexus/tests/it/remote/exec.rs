//! `plexus exec`: what a command writes, reads and ends with, as if it ran here.

use std::process::Stdio;
use std::time::{Duration, Instant};

use plexus_testkit::{Signal, send};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};

use super::{PATIENCE, Site, noise};

#[tokio::test]
async fn output_input_and_exit_code_are_those_of_the_command() {
    let site = Site::new().await;
    let (code, output, errors) =
        site.run(&["exec", "nas", "--", "sh", "-c", "printf 'a\\0\\377b'; echo wrong >&2; exit 7"]).await;
    assert_eq!((code, &output[..], &*errors), (7, &b"a\0\xffb"[..], "wrong\n"));
    // Every byte, also of what is larger than a part, in both directions.
    let content = noise(1_500_000, 11);
    let (code, output, _) = site.run_with(&["exec", "nas", "--", "cat"], &content).await;
    assert!(code == 0 && output == content, "{} bytes", output.len());
    // One that reads nothing does not wait for us, nor we for it.
    let (code, output, _) = site.run_with(&["exec", "nas", "--", "head", "-c", "3"], &content).await;
    assert_eq!((code, &output[..]), (0, &content[..3]));
    let args = [
        "exec",
        "nas",
        "--cwd",
        "/tmp",
        "-e",
        "WORD=a b",
        "--",
        "sh",
        "-c",
        "echo \"$WORD in $PWD at $HOME\"",
    ];
    assert_eq!(site.ok(&args).await, format!("a b in /tmp at {}\n", site.nas.home().display()));
    // Without a shell, words are words.
    assert_eq!(site.ok(&["exec", "nas", "--", "echo", "$HOME; *", "-n"]).await, "$HOME; * -n\n");
    assert_eq!(site.run(&["exec", "nas", "--", "sh", "-c", "kill -9 $$"]).await.0, 137);
    let (code, _, said) = site.run(&["exec", "nas", "--timeout", "1s", "--", "sleep", "30"]).await;
    assert!(code == 124 && said.contains("its time was up"), "{said}");
    assert!(site.fails(1, &["exec", "elsewhere", "--", "true"]).await.contains("there is no node"));
    assert_eq!(site.run(&["exec", "nas", "--", "no-such-program"]).await.0, 127);
}

#[tokio::test]
async fn signals_go_to_the_command_and_its_end_comes_back() {
    let site = Site::new().await;
    let script = "trap 'echo interrupted; exit 5' INT; trap 'echo termed; exit 6' TERM; echo ready; while :; do sleep 0.05; done";
    for (signal, word, code) in [(Signal::INT, "interrupted", 5), (Signal::TERM, "termed", 6)] {
        let mut command = site.command(&["exec", "nas", "--", "sh", "-c", script]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let next = async |lines: &mut tokio::io::Lines<_>| {
            tokio::time::timeout(PATIENCE, lines.next_line()).await.expect("in time").unwrap()
        };
        assert_eq!(next(&mut lines).await.as_deref(), Some("ready"), "it comes while the command runs");
        send(&child, signal);
        assert_eq!(next(&mut lines).await.as_deref(), Some(word));
        let ended = tokio::time::timeout(PATIENCE, child.wait()).await.expect("in time").unwrap();
        assert_eq!(ended.code(), Some(code));
    }
}

#[tokio::test]
async fn nothing_is_lost_or_doubled_over_cut_wires_and_a_hub_that_restarts() {
    let mut site = Site::new().await;
    let script = "i=0; while [ $i -lt 400 ]; do i=$((i+1)); echo line $i; sleep 0.01; done; cat; exit 3";
    let mut command = site.command(&["exec", "nas", "--", "sh", "-c", script]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let (mut output, mut cuts) = (String::new(), 0);
    while !output.ends_with("line 200\n") {
        let read =
            tokio::time::timeout(PATIENCE, stdout.read_line(&mut output)).await.expect("in time").unwrap();
        assert!(read > 0, "it ended early: {output}");
        if output.lines().count() / 30 > cuts {
            cuts += 1;
            site.wire.cut();
            site.wire.heal();
            tokio::io::AsyncWriteExt::write_all(&mut stdin, format!("input {cuts}\n").as_bytes())
                .await
                .unwrap();
        }
    }
    site.restart_hub().await;
    drop(stdin);
    let rest = tokio::time::timeout(PATIENCE, stdout.read_to_string(&mut output));
    rest.await.expect("in time").unwrap();
    assert_eq!(child.wait().await.unwrap().code(), Some(3));
    let lines = (1..=400).map(|line| format!("line {line}\n"));
    let expected: String = lines.chain((1..=cuts).map(|cut| format!("input {cut}\n"))).collect();
    assert!(cuts >= 5 && output == expected, "{cuts} cuts: {output}");
}

#[tokio::test]
async fn a_command_can_be_left_running_and_what_it_shows_is_in_no_record() {
    let site = Site::new().await;
    let file = site.there("done");
    let script = "sleep 0.2; echo finished > done";
    let job = site.ok(&["exec", "nas", "--detach", "--", "sh", "-c", script]).await;
    assert_eq!(job.trim().len(), 8, "{job}");
    let begun = Instant::now();
    while !file.exists() {
        assert!(begun.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let (_, output, _) = site.run_with(&["exec", "nas", "--", "cat"], b"a-secret-that-was-typed").await;
    assert_eq!(output, b"a-secret-that-was-typed");
    let audit = site.ok(&["audit", "list", "--limit", "200", "--json"]).await;
    assert!(audit.contains("console") && audit.contains("not_recorded"), "{audit}");
    use base64::Engine as _;
    let encoded = base64::engine::general_purpose::STANDARD.encode("a-secret-that-was-typed");
    assert!(!audit.contains("a-secret") && !audit.contains(&encoded), "{audit}");
    // Where the terminal is off, so is this.
    std::fs::write(site.at_home(".local/share/plexus-node/node.toml"), "[tools]\noff = ['terminal']\n")
        .unwrap();
    let begun = Instant::now();
    while site.run(&["exec", "nas", "--", "true"]).await.0 == 0 {
        assert!(begun.elapsed() < PATIENCE);
    }
    let told = serde_json::json!({ "action": "follow", "job": job.trim() }).to_string();
    let (code, _, said) =
        site.run(&["tools", "call", "console", "--node", "nas", "--json-args", &told]).await;
    assert!(code != 0 && (said.contains("has it off") || said.contains("has no tool")), "{said}");
}

/// Whether commands are held on this machine: where they are not, nothing is refused.
pub(super) async fn is_held(site: &Site) -> bool {
    let shown = site.nas.run(&["node", "policy", "--json"]).await.json(0);
    shown["sandbox"]["held"] != "none"
}

#[tokio::test]
async fn refusal_by_the_sandbox_is_explained() {
    let site = Site::new().await;
    let (code, _, said) = site.run(&["exec", "nas", "--", "mkdir", "inbox"]).await;
    assert_eq!((code, &*said), (0, ""), "in the working folder nothing is refused");
    let new = site.at_home("new").display().to_string();
    let (code, _, said) = site.run(&["exec", "nas", "--", "mkdir", &new]).await;
    match is_held(&site).await {
        true => {
            assert_eq!(code, 1, "{said}");
            let work = site.there("").display().to_string();
            assert!(
                said.contains("held to its policy by") && said.contains(work.trim_end_matches('/')),
                "{said}"
            );
        }
        false => assert_eq!((code, &*said), (0, "")),
    }
    // A failure that has nothing to do with it is not explained by it.
    let (code, _, said) = site.run(&["exec", "nas", "--", "sh", "-c", "echo wrong >&2; exit 3"]).await;
    assert_eq!((code, &*said), (3, "wrong\n"));
}
