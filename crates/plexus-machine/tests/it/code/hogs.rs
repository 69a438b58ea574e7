//! Code that exceeds its CPU time, memory and disk limits.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{nothing_is_left, python, small};

#[tokio::test]
async fn memory_of_one_process_is_limited() {
    let bench = small().await;
    let answer = python(&bench, "x = bytearray(200 << 20)").await;
    assert_eq!(answer["exit_code"], 1, "{answer}");
    assert!(answer["stderr"]["text"].as_str().unwrap().contains("MemoryError"), "{answer}");
    let answer = python(&bench, "x = []\nwhile True: x.append(b'x' * 1000000)").await;
    assert!(answer["limit"] == "memory" || answer["exit_code"] == 1, "{answer}");
    assert!(answer["peak_memory"].as_u64().unwrap() < 160 << 20, "{answer}");
    nothing_is_left(&bench);
}

/// Each process is within the limit, but their total is not.
#[tokio::test]
async fn total_memory_of_processes_is_limited() {
    let bench = small().await;
    let code = "
import os, time
for _ in range(6):
    if not os.fork():
        x = bytearray(os.urandom(1)) * (40 << 20)
        time.sleep(20); os._exit(0)
time.sleep(20)
";
    let answer = python(&bench, code).await;
    assert_eq!(answer["limit"], "memory", "{answer}");
    assert!(answer["peak_memory"].as_u64().unwrap() > 96 << 20, "{answer}");
    assert!(answer["duration_ms"].as_u64().unwrap() < 8_000, "{answer}");
    nothing_is_left(&bench);
}

/// The kernel counts shared memory and unnamed memory files for no process.
#[tokio::test]
async fn shared_memory_counts_against_the_limit() {
    let bench = small().await;
    let mapped = "import mmap, time\nm = mmap.mmap(-1, 200 << 20)\nfor at in range(0, 200 << 20, 4096): m[at] = 1\ntime.sleep(20)";
    let answer = python(&bench, mapped).await;
    assert_eq!(answer["limit"], "memory", "{answer}");
    let unnamed = "
import os, time
for n in range(40):
    held = os.memfd_create(str(n))
    os.write(held, b'x' * (1 << 20))
time.sleep(20)
";
    let answer = python(&bench, unnamed).await;
    assert_eq!(answer["limit"], "disk", "{answer}");
    nothing_is_left(&bench);
}

/// After a fork, parent and child share the same pages, which exist once.
#[tokio::test]
async fn shared_pages_count_once() {
    let bench = small().await;
    let code = "
import os, time
x = b'x' * (40 << 20)
for _ in range(6):
    if not os.fork():
        time.sleep(0.6); os._exit(0)
for _ in range(6): os.wait()
print('fine')
";
    let answer = python(&bench, code).await;
    assert_eq!((&answer["exit_code"], &answer["limit"]), (&json!(0), &json!(null)), "{answer}");
}

#[tokio::test]
async fn cpu_time_counts_all_processes_together() {
    let bench = crate::workbench::Workbench::with_launcher(
        &super::SMALL.replace("cpu_seconds = 8", "cpu_seconds = 1"),
    )
    .await;
    let burn = "import os\nfor _ in range(3): os.fork()\nwhile True: pass";
    let began = Instant::now();
    let answer = python(&bench, burn).await;
    assert_eq!(answer["limit"], "cpu", "{answer}");
    assert!(answer["cpu_ms"].as_u64().unwrap() >= 1_000, "{answer}");
    assert!(began.elapsed() < Duration::from_secs(9), "before its timeout");
    // Each process is short-lived and its CPU time is not reported to anyone: its parent ignores its exit status.
    let quick = "
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while True:
    if not os.fork():
        until = time.process_time() + 0.2
        while time.process_time() < until: pass
        os._exit(0)
    try: os.wait()
    except ChildProcessError: pass
";
    let answer = python(&bench, quick).await;
    assert_eq!(answer["limit"], "cpu", "{answer}");
    nothing_is_left(&bench);
}

#[tokio::test]
async fn code_that_ignores_signals_is_killed_at_its_timeout() {
    let bench = small().await;
    let code = "
import signal, time
for s in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP): signal.signal(s, signal.SIG_IGN)
print('begun')
while True: time.sleep(1)
";
    let arguments = json!({ "language": "python", "code": code, "timeout_seconds": 1 });
    let answer = bench.code(arguments).await.unwrap();
    assert_eq!(
        (&answer["timed_out"], &answer["limit"], &answer["signal"]),
        (&json!(true), &json!("time"), &json!("KILL"))
    );
    assert_eq!(answer["stdout"]["text"], "begun\n", "its output so far is returned");
    assert!(answer["duration_ms"].as_u64().unwrap() < 5_000);
    nothing_is_left(&bench);
}

#[tokio::test]
async fn policy_limits_the_requested_timeout() {
    let bench =
        crate::workbench::Workbench::with_launcher(&super::SMALL.replace("seconds = 10", "seconds = 1"))
            .await;
    let arguments = json!({ "language": "shell", "code": "sleep 20", "timeout_seconds": 3600 });
    let answer = bench.code(arguments).await.unwrap();
    assert_eq!(answer["timed_out"], true, "{answer}");
}

#[tokio::test]
async fn file_size_is_limited() {
    let bench = small().await;
    let code = "exec head -c 20000000 /dev/zero >big";
    let answer = bench.code(json!({ "language": "shell", "code": code })).await.unwrap();
    assert_eq!((&answer["limit"], &answer["signal"]), (&json!("file_size"), &json!("XFSZ")), "{answer}");
    // It has the maximum size, which is more than fits into an answer.
    assert_eq!(answer["files_left_out"][0]["bytes"], 4 << 20, "{answer}");
    nothing_is_left(&bench);
}

#[tokio::test]
async fn total_size_and_number_of_files_are_limited() {
    // Ten thousand files take a while on a busy machine.
    let policy = super::SMALL
        .replace("cpu_seconds = 8", "cpu_seconds = 40")
        .replace("\nseconds = 10", "\nseconds = 40");
    let bench = crate::workbench::Workbench::with_launcher(&policy).await;
    for code in [
        // Large files, also where no files are collected.
        "import time\nfor n in range(20): open(f'{n}', 'wb').write(b'x' * 1000000)\ntime.sleep(20)",
        "import os, time\nfor n in range(20): open(os.environ['TMPDIR'] + f'/{n}', 'wb').write(b'x' * 1000000)\ntime.sleep(20)",
        // Empty files.
        "import time\nfor n in range(30000): open(f'{n}', 'w').close()\ntime.sleep(20)",
        // Unnamed files.
        "import os, time\nheld = []\nfor n in range(20):\n    f = open('x', 'wb'); f.write(b'x' * 1000000); f.flush(); os.unlink('x'); held.append(f)\ntime.sleep(20)",
        // Nested folders.
        "import os, time\nfor n in range(30000): os.mkdir('d'); os.chdir('d')\ntime.sleep(20)",
    ] {
        let answer = python(&bench, code).await;
        assert_eq!(answer["limit"], "disk", "{code}: {}", answer["duration_ms"]);
        nothing_is_left(&bench);
    }
}
