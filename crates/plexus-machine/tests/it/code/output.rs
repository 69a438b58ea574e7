//! Output of code: streamed while it runs, limited, and returned as exact bytes if it is not text.

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{nothing_is_left, python, small};
use crate::workbench::{RecordedEvents, Workbench};

/// The beginning and the end of endless output are returned, and the answer stays small.
#[tokio::test]
async fn endless_output_is_stopped_at_its_limit() {
    let bench = small().await;
    for (language, code) in
        [("shell", "yes 0123456789"), ("python", "import os, sys\nwhile True: os.write(2, b'0123456789\\n')")]
    {
        let call = bench.call(
            "code_exec",
            json!({ "language": language, "code": code }),
            CancellationToken::new(),
            None,
        );
        let output = call.await.unwrap();
        let answer = output.structured().unwrap().into_owned();
        assert_eq!(answer["limit"], "output", "{language}");
        let stream = if language == "shell" { "stdout" } else { "stderr" };
        let shown = &answer[stream];
        assert_eq!(shown["truncated"], true);
        let text = shown["text"].as_str().unwrap();
        assert!(
            text.starts_with("0123456789\n") && text.len() < 20 << 10 && text.contains("omitted"),
            "{}",
            text.len()
        );
        assert!(shown["bytes"].as_u64().unwrap() >= 1 << 20, "{}", shown["bytes"]);
        assert!(output.text().contains("by a limit: output"), "{}", output.text().len());
        nothing_is_left(&bench);
    }
}

#[tokio::test]
async fn closed_outputs_do_not_end_the_run() {
    let bench = small().await;
    let code = "
import os, time
print('before')
os.close(1); os.close(2)
time.sleep(0.5)
open('after', 'w').write('it went on')
os._exit(7)
";
    let answer = python(&bench, code).await;
    assert_eq!(
        (&answer["exit_code"], &answer["stdout"]["text"]),
        (&json!(7), &json!("before\n")),
        "{answer}"
    );
    assert_eq!(answer["files"][0]["text"], "it went on");
}

#[tokio::test]
async fn binary_output_is_returned_exactly() {
    let bench = small().await;
    let code = "import sys\nsys.stdout.buffer.write(b'a\\xff\\xfeb\\0')\nsys.stderr.write('é\\n')";
    let answer = python(&bench, code).await;
    assert_eq!(
        (&answer["stdout"]["text"], &answer["stdout"]["base64"]),
        (&json!("a\u{fffd}\u{fffd}b\0"), &json!("Yf/+YgA=")),
        "{answer}"
    );
    assert_eq!((&answer["stderr"]["text"], &answer["stderr"].get("base64")), (&json!("é\n"), &None));
    let nothing = python(&bench, "pass").await;
    assert_eq!(nothing["stdout"], json!({ "text": "", "bytes": 0, "truncated": false }));
}

/// The maximum of every field at once, in the form that is longest as JSON.
#[tokio::test]
async fn answer_never_exceeds_its_size_limit() {
    let bench = Workbench::with_launcher("[sandbox]\nlevel = 'none'\n[code]\noutput_kb = 1024").await;
    let code = "
import sys
sys.stdout.buffer.write(b'\\x01' * 900000)
sys.stderr.buffer.write(b'\\xff' * 900000)
for n in range(20): open(f'f{n:02}', 'wb').write(b'\\x02' * 40000)
for n in range(20): open(f'g{n:02}', 'wb').write(b'\\xfe' * 40000)
";
    let answer = python(&bench, code).await;
    let length = answer.to_string().len();
    assert!(length < 1 << 20, "{length} bytes");
    assert_eq!((&answer["stdout"]["bytes"], &answer["stdout"]["truncated"]), (&json!(900_000), &json!(true)));
    assert!(
        !answer["files"].as_array().unwrap().is_empty()
            && !answer["files_left_out"].as_array().unwrap().is_empty()
    );
}

#[tokio::test]
async fn output_is_streamed_while_the_code_runs() {
    let bench = small().await;
    let go = bench.home().join("go");
    let code = "
import os, sys, time
print('begun é')
while not os.path.exists(sys.argv[1]): time.sleep(0.01)
sys.exit(2)
";
    let events = RecordedEvents::default();
    let arguments = json!({ "language": "python", "code": code, "args": [go] });
    let call = bench.call("code_exec", arguments, CancellationToken::new(), Some(events.clone()));
    let reached_listeners = async {
        crate::workbench::poll_until(async || (!events.lock().unwrap().is_empty()).then_some(())).await;
        std::fs::write(&go, "").unwrap();
    };
    let (answer, ()) = tokio::join!(call, reached_listeners);
    assert_eq!(answer.unwrap().structured().unwrap()["exit_code"], 2);
    let events = events.lock().unwrap();
    let kinds: Vec<&str> = events.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(kinds, ["terminal_output", "terminal_closed"]);
    assert_eq!((&events[0].1["text"], &events[0].1["offset"]), (&json!("begun é\n"), &json!(0)));
    assert_eq!((&events[1].1["exit_code"], &events[1].1["job"]), (&json!(2), &events[0].1["job"]));
}
