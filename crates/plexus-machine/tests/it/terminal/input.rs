//! Input of commands: standard input, variables, folders and terminals.

use plexus_proto::ErrorCode;
use serde_json::{Value, json};

use crate::workbench::{Workbench, poll_until};

/// Reads until a text appears in an output.
async fn wait_for_text(bench: &Workbench, job: &Value, text: &str) -> String {
    poll_until(async || {
        let page = bench.terminal(json!({ "action": "read", "job": job })).await.unwrap();
        let output = page["text"].as_str().unwrap().to_owned();
        output.contains(text).then_some(output)
    })
    .await
}

#[tokio::test]
async fn stdin_is_complete_and_then_ends() {
    let bench = Workbench::new().await;
    let run =
        |stdin: &str| bench.terminal(json!({ "action": "run", "command": "cat | wc -c", "stdin": stdin }));
    let long = "line\n".repeat(100_000);
    assert_eq!(run(&long).await.unwrap()["stdout"]["text"], "500000\n");
    let answer = bench.sh("cat; echo end").await;
    assert_eq!(answer["stdout"]["text"], "end\n", "without input, the command reads the end of file");
}

#[tokio::test]
async fn job_accepts_input_until_eof() {
    let bench = Workbench::new().await;
    let start =
        json!({ "action": "start", "command": "while read -r line; do echo \"got $line\"; done; echo over" });
    let job = bench.terminal(start).await.unwrap()["job"].clone();
    let write = |text: &str, eof: bool| {
        bench.terminal(json!({ "action": "write", "job": job, "text": text, "eof": eof }))
    };
    assert_eq!(write("one\n", false).await.unwrap()["written"], 4);
    wait_for_text(&bench, &job, "got one").await;
    write("two\n", false).await.unwrap();
    wait_for_text(&bench, &job, "got two").await;
    let running = bench.terminal(json!({ "action": "read", "job": job })).await.unwrap();
    assert_eq!(running["running"], true, "it waits for more input");
    write("three\n", true).await.unwrap();
    let ended = bench.terminal(json!({ "action": "wait", "job": job })).await.unwrap();
    assert_eq!(ended["stdout"]["text"], "got one\ngot two\ngot three\nover\n");
    let refused = write("four\n", false).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::Conflict);
    assert!(refused.text().contains("has ended"), "{}", refused.text());
}

#[tokio::test]
async fn write_to_a_job_that_does_not_read_is_partial() {
    let bench = Workbench::new().await;
    let job =
        bench.terminal(json!({ "action": "start", "argv": ["sleep", "1000"] })).await.unwrap()["job"].clone();
    let long = "x".repeat(200_000);
    let answer = bench.terminal(json!({ "action": "write", "job": job, "text": long })).await.unwrap();
    let written = answer["written"].as_u64().unwrap();
    assert!(written > 0 && written < 200_000, "{written}");
}

#[tokio::test]
async fn command_gets_minimal_environment_and_requested_variables() {
    let bench = Workbench::new().await;
    let run = json!({ "action": "run", "command": "env", "env": { "WANTED": "a b", "LANG": "C" } });
    let variables = bench.terminal(run).await.unwrap()["stdout"]["text"].as_str().unwrap().to_owned();
    assert!(variables.contains("WANTED=a b\n") && variables.contains("LANG=C\n"), "{variables}");
    assert!(variables.contains("PLEXUS_JOB="), "{variables}");
    assert!(!variables.contains("PLEXUS_NODE_KEY") && !variables.contains("nobody else"), "{variables}");
}

#[tokio::test]
async fn command_runs_in_the_working_folder_or_in_cwd() {
    let bench = Workbench::new().await;
    let home = bench.home().canonicalize().unwrap();
    std::fs::create_dir(home.join("below")).unwrap();
    let run = |cwd: Option<&str>| bench.terminal(json!({ "action": "run", "command": "pwd -P", "cwd": cwd }));
    let pwd = async |cwd| run(cwd).await.unwrap()["stdout"]["text"].as_str().unwrap().trim().to_owned();
    let work = home.join("plexus-work");
    assert_eq!(pwd(None).await, work.display().to_string());
    std::fs::create_dir(work.join("inner")).unwrap();
    assert_eq!(pwd(Some("inner")).await, work.join("inner").display().to_string());
    assert_eq!(pwd(Some("~")).await, home.display().to_string());
    assert_eq!(pwd(Some("~/below")).await, home.join("below").display().to_string());
    assert_eq!(pwd(Some("/usr")).await, "/usr");
    for wrong in ["below", "/no/such/folder", "~/none"] {
        assert_eq!(run(Some(wrong)).await.unwrap_err().code, ErrorCode::InvalidArguments, "{wrong}");
    }
}

#[tokio::test]
async fn pty_provides_a_terminal() {
    let bench = Workbench::new().await;
    let command =
        "test -t 0 && test -t 1 && test -t 2 && echo terminal; stty size; echo err >&2; tty; exit 5";
    let answer = bench
        .terminal(json!({ "action": "run", "command": command, "pty": true, "cols": 91, "rows": 17 }))
        .await
        .unwrap();
    let text = answer["stdout"]["text"].as_str().unwrap();
    assert!(text.starts_with("terminal\r\n17 91\r\nerr\r\n/dev/pts/"), "{text:?}");
    assert_eq!(answer["exit_code"], 5);
    assert!(answer.get("stderr").is_none());
    let answer = bench.sh("test -t 0 || echo none").await;
    assert_eq!(answer["stdout"]["text"], "none\n");
}

#[tokio::test]
async fn input_can_be_typed_into_a_terminal() {
    let bench = Workbench::new().await;
    let start = json!({ "action": "start", "argv": ["cat"], "pty": true });
    let job = bench.terminal(start).await.unwrap()["job"].clone();
    bench.terminal(json!({ "action": "write", "job": job, "text": "hello\n" })).await.unwrap();
    poll_until(async || {
        let page = bench.terminal(json!({ "action": "read", "job": job })).await.unwrap();
        // The typed text is echoed, followed by the output of cat.
        (page["text"] == "hello\r\nhello\r\n").then_some(())
    })
    .await;
    bench.terminal(json!({ "action": "write", "job": job, "eof": true })).await.unwrap();
    let ended = bench.terminal(json!({ "action": "wait", "job": job })).await.unwrap();
    assert_eq!(ended["exit_code"], 0);
}

#[tokio::test]
async fn kill_ends_all_processes_of_a_terminal() {
    let bench = Workbench::new().await;
    let file = bench.folder().join("child");
    let command = format!(
        "trap '' HUP TERM; sh -c 'trap \"\" HUP TERM; echo $$ >{}; while :; do sleep 1; done'",
        file.display()
    );
    let run = json!({ "action": "run", "command": command, "pty": true, "timeout_seconds": 3 });
    let answer = bench.terminal(run).await.unwrap();
    assert_eq!((&answer["timed_out"], &answer["signal"]), (&json!(true), &json!("KILL")));
    let child = super::ends::read_pid(&file).await;
    poll_until(async || (!super::ends::is_process_alive(child)).then_some(())).await;
}
