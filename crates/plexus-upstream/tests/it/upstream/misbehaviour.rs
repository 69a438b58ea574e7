//! Processes that are not proper servers, each in its own way: the hub reports the problem, and leaks
//! nothing.

use std::process::Stdio;
use std::time::{Duration, Instant};

use plexus_proto::api::UpstreamEra;
use plexus_testkit::until;
use plexus_upstream::client::ClientError;
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio_util::sync::CancellationToken;

use super::server::{PATIENCE, ServerStart, is_alive, outgoing, wait_until_dead};

/// Answers every call with a text.
const WELL_BEHAVED: &str = "next && initialize; while next; do text fine; done";

/// Ignores the end of its input and SIGTERM.
const STUBBORN: &str = "trap '' TERM HUP; next && initialize; while :; do sleep 1000 & wait; done";

/// The numbers in the lines that a script wrote to its standard error.
async fn pids(start: &ServerStart, count: usize) -> Vec<u32> {
    until("the script has printed its processes", async || start.stderr().len() >= count).await;
    start.stderr().iter().map(|line| line.parse().unwrap()).collect()
}

#[tokio::test]
async fn missing_program_is_reported_without_the_search_path() {
    let missing = ServerStart::program("no-such-program", &[]).try_connect().await.unwrap_err().to_string();
    assert!(missing.contains("install no-such-program") && !missing.contains("/usr/bin:/bin"), "{missing}");
    let missing = ServerStart::program("/no/such/program", &[]).try_connect().await.unwrap_err().to_string();
    assert!(missing.contains("`/no/such/program`"), "{missing}");
    let missing =
        ServerStart::script(WELL_BEHAVED).stdio(|command| command.cwd = Some("/no/such/folder".into()));
    let missing = missing.try_connect().await.unwrap_err().to_string();
    assert!(missing.contains("`cwd`") && missing.contains("/no/such/folder"), "{missing}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plain");
    std::fs::write(&file, "").unwrap();
    let denied =
        ServerStart::program(file.to_str().unwrap(), &[]).try_connect().await.unwrap_err().to_string();
    assert!(denied.contains("permissions"), "{denied}");
}

#[tokio::test]
async fn failing_program_is_reported_with_its_last_line() {
    let start = ServerStart::script("echo 'warming up' >&2; echo 'no module named x' >&2; exit 3");
    let failed = start.try_connect().await.unwrap_err().to_string();
    assert!(failed.contains("exit status: 3") && failed.ends_with("no module named x"), "{failed}");
    start.wait_for_no_tasks().await;
}

#[tokio::test]
async fn server_that_exits_on_the_probe_is_started_again() {
    let mut start = ServerStart::script(&format!(
        "echo $$ >&2; next; case $line in *initialize*) initialize;; *) exit 1;; esac; {}",
        "while next; do text fine; done"
    ));
    start.connect.known_era = None;
    let server = start.connect().await;
    assert_eq!(server.client.peer().era, UpstreamEra::Session);
    assert_eq!(server.text("any", json!({})).await, "fine");
    let pids = pids(&server.start, 2).await;
    assert!(!is_alive(pids[0]) && is_alive(pids[1]), "{pids:?}");
}

#[tokio::test]
async fn server_that_ignores_the_probe_is_of_the_session_era() {
    let mut start = ServerStart::script("next; next && initialize; while next; do text fine; done");
    start.connect.known_era = None;
    let server = start.connect().await;
    assert_eq!(server.client.peer().revision, "2025-06-18");
    assert_eq!(server.text("any", json!({})).await, "fine");
}

#[tokio::test]
async fn server_that_never_completes_the_handshake_times_out() {
    let mut start = ServerStart::script("echo $$ >&2; exec sleep 1000");
    start.connect.settings.connect_timeout = Duration::from_millis(300);
    let failed = start.try_connect().await.unwrap_err();
    assert!(
        matches!(&failed, ClientError::Unreachable(why) if why.contains("did not complete the handshake")),
        "{failed}"
    );
    wait_until_dead(pids(&start, 1).await[0]).await;
    start.wait_for_no_tasks().await;
}

#[tokio::test]
async fn banner_on_standard_output_is_tolerated() {
    let server = ServerStart::script(&format!("echo 'Welcome!'; echo '{{\"not\": 1}}'; {WELL_BEHAVED}"))
        .connect()
        .await;
    assert_eq!(server.text("any", json!({})).await, "fine");
}

#[tokio::test]
async fn timeout_reports_output_that_is_not_a_message() {
    let script = r"printf 'Press \033[1many key\007, ann-at-work\n'; exec sleep 1000";
    let mut start = ServerStart::script(script)
        .stdio(|command| drop(command.env.insert("PASSWORD".to_owned(), "ann-at-work".into())));
    start.connect.settings.connect_timeout = Duration::from_secs(1);
    let failed = start.try_connect().await.unwrap_err().to_string();
    assert_eq!(
        failed,
        "the server did not complete the handshake within 1 s; its last output is not an MCP message: Press any key, \
         [redacted]"
    );
    start.wait_for_no_tasks().await;
}

#[tokio::test]
async fn only_garbage_ends_the_connection() {
    let start = ServerStart::script("while :; do echo 'INFO still alive'; done");
    let failed = start.try_connect().await.unwrap_err().to_string();
    assert!(failed.contains("not MCP messages") && failed.contains("INFO still alive"), "{failed}");
    start.wait_for_no_tasks().await;
}

#[tokio::test]
async fn unknown_and_duplicate_answers_are_ignored() {
    let script = r#"next && initialize
        while next; do
            printf '{"jsonrpc":"2.0","id":99999,"result":{}}\n{"jsonrpc":"2.0","id":"x","result":{}}\n'
            text "$id"; text again
        done"#;
    let server = ServerStart::script(script).connect().await;
    let mut signals = Vec::new();
    for _ in 0..5 {
        signals.push(server.text("any", json!({})).await);
    }
    signals.dedup();
    assert_eq!(signals.len(), 5, "every call has its own: {signals:?}");
}

#[tokio::test]
async fn refused_question_does_not_stop_a_server() {
    let script = r#"next && initialize
        next; call=$id
        printf '{"jsonrpc":"2.0","id":"q1","method":"ping"}\n'; read -r pong
        printf '{"jsonrpc":"2.0","id":"q2","method":"roots/list"}\n'; read -r refused
        case "$pong" in *'"id":"q1","result":{}'*) pong=answered;; esac
        case "$refused" in *'"id":"q2","error":{"code":-32601'*) refused=refused;; esac
        id=$call; text "$pong $refused"; read -r line"#;
    let server = ServerStart::script(script).connect().await;
    assert_eq!(server.text("any", json!({})).await, "answered refused");
}

#[tokio::test]
async fn last_answer_of_an_exiting_server_is_read() {
    let server = ServerStart::script("next && initialize; next; text last; exit 5").connect().await;
    assert_eq!(server.text("any", json!({})).await, "last");
    assert!(server.closed().await.contains("exit status: 5"));
}

#[tokio::test]
async fn server_that_closes_its_output_is_killed() {
    let server = ServerStart::script("next && initialize; echo $$ >&2; exec >&-; sleep 1000").connect().await;
    assert_eq!(server.closed().await.split(';').next(), Some("the server closed its standard output"));
    wait_until_dead(pids(&server.start, 1).await[0]).await;
    server.start.wait_for_no_tasks().await;
}

#[tokio::test]
async fn server_that_does_not_read_blocks_only_its_callers() {
    let server = ServerStart::script("next && initialize; echo $$ >&2; exec sleep 1000").connect().await;
    // More than any pipe holds, so that it cannot even be written.
    let text = "x".repeat(1 << 20);
    let cancel = CancellationToken::new();
    let calls = (0..100).map(|_| {
        let mut call = outgoing("any", json!({ "text": text }));
        call.cancel = cancel.clone();
        server.call_with(call)
    });
    let calls = futures_util::future::join_all(calls);
    let healthy = async {
        let other = ServerStart::script(WELL_BEHAVED).connect().await;
        for _ in 0..20 {
            assert_eq!(other.text("any", json!({})).await, "fine");
        }
        cancel.cancel();
    };
    let (called, ()) = tokio::join!(calls, healthy);
    assert!(called.iter().all(|called| *called == Err(ClientError::Cancelled)));
    server.close().await;
    wait_until_dead(pids(&server.start, 1).await[0]).await;
}

#[tokio::test]
async fn children_of_a_server_die_with_it() {
    // A child that holds the standard streams open, and one that ignores signals.
    let script = "next && initialize
        sleep 1000 & echo $! >&2
        (trap '' TERM HUP INT; exec sleep 1000 </dev/null >/dev/null 2>&1) & echo $! >&2
        while next; do text fine; done";
    let server = ServerStart::script(script).connect().await;
    let children = pids(&server.start, 2).await;
    let leader = server.client.pid().unwrap();
    assert!(children.iter().all(|child| is_alive(*child)));
    server.close().await;
    for pid in children.into_iter().chain([leader]) {
        wait_until_dead(pid).await;
    }
    server.start.wait_for_no_tasks().await;
}

#[tokio::test]
async fn orphans_of_an_exited_server_are_killed() {
    let server =
        ServerStart::script("next && initialize; sleep 1000 & echo $! >&2; next; exit 0").connect().await;
    let child = pids(&server.start, 1).await[0];
    let lost = server.call("any", json!({})).await.unwrap_err();
    assert!(matches!(&lost, ClientError::Lost(why) if why.contains("exit status: 0")), "{lost:?}");
    wait_until_dead(child).await;
    server.start.wait_for_no_tasks().await;
}

#[tokio::test]
async fn server_that_ignores_sigterm_is_killed() {
    let server = ServerStart::script(STUBBORN).connect().await;
    let started_at = Instant::now();
    server.close().await;
    assert!(started_at.elapsed() < Duration::from_secs(15), "{:?}", started_at.elapsed());
    wait_until_dead(server.client.pid().unwrap()).await;
    server.start.wait_for_no_tasks().await;
}

#[tokio::test]
#[ignore = "only a part of another test, which kills it"]
async fn a_process_to_be_killed() {
    let server = ServerStart::script(STUBBORN).connect().await;
    println!("pid {}", server.client.pid().unwrap());
    let _ = tokio::time::timeout(PATIENCE, server.client.closed()).await;
}

#[tokio::test]
async fn servers_die_with_a_killed_hub_process() {
    let part = "upstream::misbehaviour::a_process_to_be_killed";
    let mut process = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", part, "--nocapture"])
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let pid = tokio::time::timeout(PATIENCE, async {
        loop {
            let line = lines.next_line().await.unwrap().expect("a pid before the end");
            if let Some((_, pid)) = line.rsplit_once("pid ") {
                return pid.parse().unwrap();
            }
        }
    });
    let pid = pid.await.expect("a pid in time");
    assert!(is_alive(pid));
    process.kill().await.unwrap();
    wait_until_dead(pid).await;
}

#[tokio::test]
async fn stopped_server_can_be_killed() {
    let server = ServerStart::script("next && initialize; kill -STOP $$").connect().await;
    server.close().await;
    wait_until_dead(server.client.pid().unwrap()).await;
}
