//! The same code at every sandbox level: its limits do not depend on its sandbox.

use std::net::TcpListener;

use serde_json::json;

use super::{SMALL, nothing_is_left, python};
use crate::workbench::Workbench;

/// The sandbox levels that are available on this machine.
fn available_levels() -> Vec<String> {
    let levels = crate::sandbox::LEVELS.into_iter().filter(|level| crate::sandbox::is_available(*level));
    levels.map(|level| level.to_string()).collect()
}

fn all_levels() -> Vec<String> {
    ["none".to_owned()].into_iter().chain(available_levels()).collect()
}

async fn bench_at_level(level: &str) -> Workbench {
    Workbench::with_launcher(&SMALL.replace("\"none\"", &format!("{level:?}"))).await
}

#[tokio::test]
async fn code_can_use_its_folder_at_every_level() {
    for level in all_levels() {
        let bench = bench_at_level(&level).await;
        let code = "
import os, subprocess, sys, tempfile
with tempfile.NamedTemporaryFile() as f: f.write(b'x')
open(os.path.expanduser('~/x'), 'w').write('x')
open('out', 'w').write(open('in').read() + sys.stdin.read())
print(subprocess.run(['sh', '-c', 'cat out'], capture_output=True, text=True).stdout)
sys.exit(5)
";
        let files = json!([{ "name": "in", "text": "given " }]);
        let arguments = json!({ "language": "python", "code": code, "files": files, "stdin": "read" });
        let answer = bench.code(arguments).await.unwrap();
        assert_eq!(
            (&answer["exit_code"], &answer["stdout"]["text"]),
            (&json!(5), &json!("given read\n")),
            "{level}: {answer}"
        );
        assert_eq!(answer["files"], json!([{ "name": "out", "bytes": 10, "text": "given read" }]), "{level}");
        assert_eq!(answer["left_running"], json!(null), "{level}: {answer}");
        nothing_is_left(&bench);
    }
}

#[tokio::test]
async fn background_processes_are_counted_at_every_level() {
    for level in all_levels() {
        let bench = bench_at_level(&level).await;
        let code = "sleep 30 & sleep 30 & exit 0";
        let answer = bench.code(json!({ "language": "shell", "code": code })).await.unwrap();
        assert_eq!(
            (&answer["exit_code"], &answer["left_running"]),
            (&json!(0), &json!(2)),
            "{level}: {answer}"
        );
        nothing_is_left(&bench);
    }
}

#[tokio::test]
async fn limits_hold_at_every_level() {
    // Each of these is bounded by itself: 64 processes, 200 MB, 20 MB, 20 seconds.
    let many = "
import os, signal
signal.alarm(20)
for _ in range(6):
    os.fork(); signal.alarm(20)
signal.pause()
";
    let memory = "import os, signal, time\nsignal.alarm(20)\nfor _ in range(5):\n    if not os.fork():\n        signal.alarm(20); x = b'x' * (40 << 20); time.sleep(20)\ntime.sleep(20)";
    let disk = "import time\nfor n in range(20): open(f'{n}', 'wb').write(b'x' * 1000000)\ntime.sleep(20)";
    let burn = "import os, signal\nsignal.alarm(20); os.fork(); signal.alarm(20)\nwhile True: pass";
    for level in all_levels() {
        let bench = bench_at_level(&level).await;
        for (code, limit) in [(many, "processes"), (memory, "memory"), (disk, "disk")] {
            let answer = python(&bench, code).await;
            assert_eq!(answer["limit"], limit, "{level}: {answer}");
            nothing_is_left(&bench);
        }
        let arguments = json!({ "language": "python", "code": burn, "timeout_seconds": 1 });
        assert_eq!(bench.code(arguments).await.unwrap()["limit"], "time", "{level}");
        nothing_is_left(&bench);
    }
}

#[tokio::test]
async fn daemon_does_not_outlive_its_snippet_at_any_level() {
    for level in all_levels() {
        let bench = bench_at_level(&level).await;
        let code = "
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork(): os._exit(0)
    os.close(1); os.close(2)
    time.sleep(20); os._exit(0)
time.sleep(0.2)
";
        let answer = python(&bench, code).await;
        assert_eq!(answer["exit_code"], 0, "{level}: {answer}");
        nothing_is_left(&bench);
    }
}

#[tokio::test]
async fn code_can_reach_its_own_folder_and_no_other_folder_of_the_node() {
    for level in available_levels() {
        let bench = bench_at_level(&level).await;
        std::fs::create_dir(bench.home().join(".ssh")).unwrap();
        std::fs::write(bench.home().join(".ssh/id_test"), "nobody is to read this").unwrap();
        std::fs::create_dir(bench.folder().join("code/other")).unwrap();
        std::fs::write(bench.folder().join("code/other/file"), "of another snippet").unwrap();
        let code = "
import sys
for path in sys.argv[1:]:
    for mode in ('r', 'a'):
        try: open(path, mode).read(); print('reached', path, mode)
        except OSError: pass
print('done')
";
        let paths = [
            bench.home().join(".ssh/id_test"),
            bench.folder().join("node.toml"),
            bench.folder().join("code/other/file"),
            bench.folder().join("code/other/new"),
            "/etc/plexus-test-new".into(),
        ];
        let arguments = json!({ "language": "python", "code": code, "args": paths });
        let answer = bench.code(arguments).await.unwrap();
        assert_eq!(answer["stdout"]["text"], "done\n", "{level}: {answer}");
        assert_eq!(
            std::fs::read_to_string(bench.folder().join("code/other/file")).unwrap(),
            "of another snippet"
        );
        assert!(!bench.folder().join("code/other/new").exists());
    }
}

#[tokio::test]
async fn code_without_network_reaches_no_host() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let code = "
import socket, sys
try: socket.create_connection(('127.0.0.1', int(sys.argv[1])), 2); print('connected')
except OSError: print('refused')
";
    for level in available_levels() {
        for (network, expected) in [("true", "connected\n"), ("false", "refused\n")] {
            let policy = format!("[sandbox]\nlevel = {level:?}\nnetwork = {network}");
            let bench = Workbench::with_launcher(&policy).await;
            let arguments = json!({ "language": "python", "code": code, "args": [port.to_string()] });
            let answer = bench.code(arguments).await.unwrap();
            assert_eq!(answer["stdout"]["text"], expected, "{level}, network {network}: {answer}");
        }
    }
}

/// A reachable parent process must be part of the sandbox, or must be protected from harm.
#[tokio::test]
async fn sandboxed_code_cannot_reach_its_warden() {
    for level in available_levels() {
        let bench = bench_at_level(&level).await;
        let code = "
import os, signal
try: os.kill(os.getppid(), signal.SIGKILL)
except OSError: pass
print('still here')
";
        let answer = python(&bench, code).await;
        assert_eq!(answer["stdout"]["text"], "still here\n", "{level}: {answer}");
        assert_eq!(answer["exit_code"], 0, "{level}: {answer}");
        nothing_is_left(&bench);
    }
}
