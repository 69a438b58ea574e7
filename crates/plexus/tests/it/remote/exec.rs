//! `plexus exec`: input, output, signals and exit code of a command on a node.

use std::process::Stdio;

use plexus_testkit::{Signal, send, until};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};

use super::{Site, TIMEOUT, random_bytes};

#[tokio::test]
async fn input_output_and_exit_code_are_passed_through() {
    let site = Site::new().await;
    let (code, output, errors) =
        site.run(&["exec", "nas", "--", "sh", "-c", "printf 'a\\0\\377b'; echo wrong >&2; exit 7"]).await;
    assert_eq!((code, &output[..], &*errors), (7, &b"a\0\xffb"[..], "wrong\n"));
    // More bytes than fit into a message, in both directions.
    let content = random_bytes(1_500_000, 11);
    let (code, output, _) = site.run_with(&["exec", "nas", "--", "cat"], &content).await;
    assert!(code == 0 && output == content, "{} bytes", output.len());
    // A command that does not read its input ends without it.
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
    // Arguments are not interpreted by a shell.
    assert_eq!(site.ok(&["exec", "nas", "--", "echo", "$HOME; *", "-n"]).await, "$HOME; * -n\n");
    assert_eq!(site.run(&["exec", "nas", "--", "sh", "-c", "kill -9 $$"]).await.0, 137);
    let (code, _, stderr) = site.run(&["exec", "nas", "--timeout", "1s", "--", "sleep", "30"]).await;
    assert!(code == 124 && stderr.contains("the command timed out"), "{stderr}");
    assert!(site.fails_with(1, &["exec", "elsewhere", "--", "true"]).await.contains("there is no node"));
    assert_eq!(site.run(&["exec", "nas", "--", "no-such-program"]).await.0, 127);
}

#[tokio::test]
async fn signals_and_the_exit_code_are_passed_through() {
    let site = Site::new().await;
    let script = "trap 'echo interrupted; exit 5' INT; trap 'echo termed; exit 6' TERM; echo ready; while :; do sleep 0.05; done";
    for (signal, word, code) in [(Signal::INT, "interrupted", 5), (Signal::TERM, "termed", 6)] {
        let mut command = site.command(&["exec", "nas", "--", "sh", "-c", script]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let next = async |lines: &mut tokio::io::Lines<_>| {
            tokio::time::timeout(TIMEOUT, lines.next_line()).await.expect("in time").unwrap()
        };
        assert_eq!(next(&mut lines).await.as_deref(), Some("ready"), "output arrives while the command runs");
        send(&child, signal);
        assert_eq!(next(&mut lines).await.as_deref(), Some(word));
        let ended = tokio::time::timeout(TIMEOUT, child.wait()).await.expect("in time").unwrap();
        assert_eq!(ended.code(), Some(code));
    }
}

#[tokio::test]
async fn output_survives_cut_connections_and_a_hub_restart_without_loss_or_duplicates() {
    let mut site = Site::new().await;
    let script = "i=0; while [ $i -lt 400 ]; do i=$((i+1)); echo line $i; sleep 0.01; done; cat; exit 3";
    let mut command = site.command(&["exec", "nas", "--", "sh", "-c", script]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let (mut output, mut cuts) = (String::new(), 0);
    while !output.ends_with("line 200\n") {
        let read =
            tokio::time::timeout(TIMEOUT, stdout.read_line(&mut output)).await.expect("in time").unwrap();
        assert!(read > 0, "the command ended early: {output}");
        if output.lines().count() / 30 > cuts {
            cuts += 1;
            site.link.cut();
            site.link.heal();
            tokio::io::AsyncWriteExt::write_all(&mut stdin, format!("input {cuts}\n").as_bytes())
                .await
                .unwrap();
        }
    }
    site.restart_hub().await;
    drop(stdin);
    let rest = tokio::time::timeout(TIMEOUT, stdout.read_to_string(&mut output));
    rest.await.expect("in time").unwrap();
    assert_eq!(child.wait().await.unwrap().code(), Some(3));
    let lines = (1..=400).map(|line| format!("line {line}\n"));
    let expected: String = lines.chain((1..=cuts).map(|cut| format!("input {cut}\n"))).collect();
    assert!(cuts >= 5 && output == expected, "{cuts} cuts: {output}");
}

#[tokio::test]
async fn detached_command_keeps_running_and_input_is_not_recorded() {
    let site = Site::new().await;
    let file = site.on_node("done");
    let script = "sleep 0.2; echo finished > done";
    let job = site.ok(&["exec", "nas", "--detach", "--", "sh", "-c", script]).await;
    assert_eq!(job.trim().len(), 8, "{job}");
    until("the detached command has ended", async || file.exists()).await;
    let (_, output, _) = site.run_with(&["exec", "nas", "--", "cat"], b"a-secret-that-was-typed").await;
    assert_eq!(output, b"a-secret-that-was-typed");
    let audit = site.ok(&["audit", "list", "--limit", "200", "--json"]).await;
    assert!(audit.contains("console") && audit.contains("not_recorded"), "{audit}");
    use base64::Engine as _;
    let encoded = base64::engine::general_purpose::STANDARD.encode("a-secret-that-was-typed");
    assert!(!audit.contains("a-secret") && !audit.contains(&encoded), "{audit}");
    // Disabling the terminal tool disables this too.
    std::fs::write(site.in_node_home(".local/share/plexus-node/node.toml"), "[tools]\noff = ['terminal']\n")
        .unwrap();
    until("the terminal tool is disabled", async || site.run(&["exec", "nas", "--", "true"]).await.0 != 0)
        .await;
    let follow = serde_json::json!({ "action": "follow", "job": job.trim() }).to_string();
    let (code, _, stderr) =
        site.run(&["tools", "call", "console", "--node", "nas", "--json-args", &follow]).await;
    assert!(code != 0 && (stderr.contains("disables it") || stderr.contains("has no tool")), "{stderr}");
}

#[tokio::test]
async fn refusal_by_the_sandbox_is_explained() {
    let site = Site::new().await;
    let (code, _, stderr) = site.run(&["exec", "nas", "--", "mkdir", "inbox"]).await;
    assert_eq!((code, &*stderr), (0, ""), "in the working folder nothing is refused");
    let new = site.in_node_home("new").display().to_string();
    let (code, _, stderr) = site.run(&["exec", "nas", "--", "mkdir", &new]).await;
    match site.is_sandboxed().await {
        true => {
            assert_eq!(code, 1, "{stderr}");
            let work = site.on_node("").display().to_string();
            assert!(
                stderr.contains("restricted to its policy by") && stderr.contains(work.trim_end_matches('/')),
                "{stderr}"
            );
        }
        false => assert_eq!((code, &*stderr), (0, "")),
    }
    // Other failures are not attributed to the sandbox.
    let (code, _, stderr) = site.run(&["exec", "nas", "--", "sh", "-c", "echo wrong >&2; exit 3"]).await;
    assert_eq!((code, &*stderr), (3, "wrong\n"));
}
