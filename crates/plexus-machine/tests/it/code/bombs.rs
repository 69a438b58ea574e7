//! Fork bombs, and processes that try to outlive their snippet.

use serde_json::json;

use super::{nothing_is_left, python, small};
use crate::terminal::ends::{is_process_alive, read_pid};
use crate::workbench::Workbench;

/// Every process forks, and so do its children. The bomb is bounded by construction, whether or not a limit applies:
/// each process forks at most `LEFT` times and its children one time less, so there are never more than 2 to the
/// power of `LEFT`; and each ends after 20 seconds through an alarm, which is only reset where a fork has cleared it.
const BOMB: &str = r#"
import os, signal, sys
signal.alarm(20)
born = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
HOW
left = LEFT
while left:
    left -= 1
    try:
        child = os.fork() == 0
    except OSError:
        continue
    if child:
        signal.alarm(20)
        IN_CHILD
        os.write(born, b'x')
signal.pause()
"#;
/// At most 512 processes.
const LEFT: &str = "9";

#[tokio::test]
async fn fork_bomb_is_killed_completely() {
    let bench = small().await;
    let ignore = "signal.signal(signal.SIGTERM, signal.SIG_IGN)";
    for (how, in_child) in [("pass", "pass"), (ignore, "pass"), ("pass", "os.setsid()")] {
        let file = bench.home().join("born");
        let _ = std::fs::remove_file(&file);
        let code = BOMB.replace("LEFT", LEFT).replace("HOW", how).replace("IN_CHILD", in_child);
        let arguments = json!({ "language": "python", "code": code, "args": [file] });
        let answer = bench.code(arguments).await.unwrap();
        let born = std::fs::metadata(&file).map_or(0, |about| about.len());
        // Its own bound is 511: near that number, the bound and not the limit would have ended it.
        assert!(born < 200, "{how}, {in_child}: {born} were born");
        assert_eq!((&answer["limit"], &answer["signal"]), (&json!("processes"), &json!("KILL")), "{answer}");
        nothing_is_left(&bench);
    }
    // The machine still works normally.
    assert_eq!(python(&bench, "print(6 * 7)").await["stdout"]["text"], "42\n");
}

#[tokio::test]
async fn shell_fork_bomb_is_killed() {
    let bench = small().await;
    // Each branch is seven levels deep and ends in a sleep of ten seconds: at most about 500 processes.
    let code = "b() { [ $1 -gt 6 ] && sleep 10 || { b $(($1+1)) & b $(($1+1)) & wait; }; }; b 0";
    let answer = bench.code(json!({ "language": "shell", "code": code })).await.unwrap();
    assert_eq!(answer["limit"], "processes", "{answer}");
    nothing_is_left(&bench);
}

#[tokio::test]
async fn thread_bomb_is_killed() {
    let bench = small().await;
    let code = "
import threading, time
def rest(): time.sleep(20)
for _ in range(600):
    threading.Thread(target=rest, daemon=True).start()
time.sleep(20)
";
    let answer = python(&bench, code).await;
    // Either there are too many threads, or no memory is left for their stacks.
    let stopped = answer["limit"] == "processes" || answer["exit_code"] == 1;
    assert!(stopped && answer["duration_ms"].as_u64().unwrap() < 9_000, "{answer}");
    nothing_is_left(&bench);
}

/// It leaves its parent, group and session, has its own environment, and closes its outputs.
#[tokio::test]
async fn daemon_does_not_outlive_its_snippet() {
    let bench = small().await;
    let file = bench.home().join("daemon");
    let code = "
import os, sys, time
if os.fork():
    while not os.path.exists(sys.argv[1]): time.sleep(0.01)
    print('left'); sys.exit(0)
os.setsid()
if os.fork(): os._exit(0)
os.chdir('/')
for fd in (0, 1, 2): os.close(fd)
with open(sys.argv[1] + '.new', 'w') as out: out.write(str(os.getpid()))
os.rename(sys.argv[1] + '.new', sys.argv[1])
os.execve('/bin/sleep', ['sleep', '20'], {})
";
    let arguments = json!({ "language": "python", "code": code, "args": [file] });
    let answer = bench.code(arguments).await.unwrap();
    assert_eq!((&answer["exit_code"], &answer["stdout"]["text"]), (&json!(0), &json!("left\n")), "{answer}");
    assert_eq!(answer["left_running"], 1);
    assert!(!is_process_alive(read_pid(&file).await), "the daemon");
    nothing_is_left(&bench);
}

/// One process at a time, each with a new pid: each starts the next in a new session and ends. 400 in total.
#[tokio::test]
async fn process_that_keeps_changing_its_pid_is_killed() {
    let bench = small().await;
    let file = bench.home().join("hops");
    let code = "
import os, signal, sys
signal.alarm(20)
if os.fork(): os._exit(0)
for hop in range(400):
    if os.fork(): os._exit(0)
    os.setsid()
    signal.alarm(20)
with open(sys.argv[1], 'w') as out: out.write('got away')
";
    let answer = bench.code(json!({ "language": "python", "code": code, "args": [file] })).await.unwrap();
    assert_eq!(answer["exit_code"], 0, "{answer}");
    nothing_is_left(&bench);
    assert!(!file.exists(), "the chain was not interrupted");
}

#[tokio::test]
async fn allowed_number_of_processes_is_not_exceeded() {
    let bench = small().await;
    let code = "
import os, time
for _ in range(8):
    if not os.fork():
        time.sleep(0.3); os._exit(0)
for _ in range(8): os.wait()
print('all back')
";
    let answer = python(&bench, code).await;
    assert_eq!(
        (&answer["exit_code"], &answer["stdout"]["text"]),
        (&json!(0), &json!("all back\n")),
        "{answer}"
    );
}

/// Without a sandbox, code can kill any process of its user. It gains nothing from killing the warden.
#[tokio::test]
async fn code_that_kills_its_warden_is_still_killed() {
    let bench = Workbench::with_launcher(super::SMALL).await;
    let file = bench.home().join("pid");
    let code = "
import os, signal, sys, time
signal.alarm(20)
with open(sys.argv[1] + '.new', 'w') as out: out.write(str(os.getpid()))
os.rename(sys.argv[1] + '.new', sys.argv[1])
os.kill(os.getppid(), signal.SIGKILL)
time.sleep(20)
";
    let refused =
        bench.code(json!({ "language": "python", "code": code, "args": [file] })).await.unwrap_err();
    assert!(refused.text().contains("was killed"), "{}", refused.text());
    assert!(!is_process_alive(read_pid(&file).await), "the code");
    nothing_is_left(&bench);
}
