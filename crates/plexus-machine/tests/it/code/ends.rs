//! Code whose caller disconnects, and a node that stops.

use std::path::Path;

use plexus_proto::ErrorCode;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{nothing_will_be_left, small};
use crate::terminal::ends::{is_process_alive, read_pid};

/// Writes its pid to a file outside, and keeps running.
pub(super) fn sleeper(file: &Path) -> Value {
    let code = "
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    time.sleep(20)
    os._exit(0)
with open(sys.argv[1] + '.new', 'w') as out: out.write(str(os.getpid()))
os.rename(sys.argv[1] + '.new', sys.argv[1])
time.sleep(20)
";
    json!({ "language": "python", "code": code, "args": [file] })
}

#[tokio::test]
async fn cancelling_a_call_kills_its_code() {
    let bench = small().await;
    let file = bench.home().join("pid");
    let cancel = CancellationToken::new();
    let call = bench.call("code_exec", sleeper(&file), cancel.clone(), None);
    let (result, pid) = tokio::join!(call, async {
        let pid = read_pid(&file).await;
        assert!(is_process_alive(pid));
        cancel.cancel();
        pid
    });
    assert_eq!(result.unwrap_err().code, ErrorCode::Cancelled);
    nothing_will_be_left(&bench).await;
    assert!(!is_process_alive(pid));
}

#[tokio::test]
async fn dropping_a_call_kills_its_code() {
    let bench = small().await;
    let file = bench.home().join("pid");
    let call = bench.call("code_exec", sleeper(&file), CancellationToken::new(), None);
    // The call is dropped here.
    let pid = tokio::select! {
        _ = call => panic!("the call is still running"),
        pid = read_pid(&file) => pid,
    };
    assert!(pid > 0);
    // Dropping the caller loses the answer but not the record: the call continues and ends soon.
    let bench = bench.restarted().await;
    nothing_will_be_left(&bench).await;
    assert!(!is_process_alive(pid));
}
