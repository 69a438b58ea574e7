//! Output of commands, shown and paged.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use plexus_kit::Clock;
use plexus_proto::Timestamp;
use serde_json::{Value, json};

use crate::workbench::{Workbench, poll_until};

/// Reads an output page by page, as a model would; returns its text and its bytes.
async fn read_all_pages(bench: &Workbench, job: &Value, limit: u32) -> Vec<u8> {
    let (mut offset, mut all) = (0, Vec::new());
    loop {
        let read = json!({ "action": "read", "job": job, "offset": offset, "limit": limit });
        let answer = bench.terminal(read).await.unwrap();
        let page = &answer;
        assert_eq!(page["offset"], offset);
        match page["base64"].as_str() {
            Some(bytes) => all.extend(STANDARD.decode(bytes).unwrap()),
            None => all.extend(page["text"].as_str().unwrap().as_bytes()),
        }
        if page["eof"] == true {
            return all;
        }
        assert!(page["next_offset"].as_u64().unwrap() > offset, "no page is empty: {page}");
        offset = page["next_offset"].as_u64().unwrap();
    }
}

#[tokio::test]
async fn long_output_shows_both_ends_and_can_be_paged() {
    let bench = Workbench::new().await;
    let answer = bench.sh("seq 1 40000").await;
    let stdout = &answer["stdout"];
    let whole: String = (1..=40_000).map(|n| format!("{n}\n")).collect();
    assert_eq!(stdout["bytes"], whole.len());
    assert_eq!(stdout["truncated"], true);
    let text = stdout["text"].as_str().unwrap();
    assert!(text.starts_with("1\n2\n3\n") && text.ends_with("39999\n40000\n"), "both ends");
    assert!(text.len() < 60 << 10, "{} bytes", text.len());
    assert!(
        text.contains("bytes omitted: action \\\"read\\\"")
            || text.contains("bytes omitted: action \"read\"")
    );
    let (offset, bytes) = (&stdout["left_out"]["offset"], &stdout["left_out"]["bytes"]);
    let between =
        offset.as_u64().unwrap() as usize..(offset.as_u64().unwrap() + bytes.as_u64().unwrap()) as usize;
    assert!(text.starts_with(&whole[..between.start]) && text.ends_with(&whole[between.end..]));
    assert_eq!(read_all_pages(&bench, &answer["job"], 65_536).await, whole.as_bytes());
}

#[tokio::test]
async fn pages_never_split_a_character() {
    let bench = Workbench::new().await;
    let answer = bench.sh("i=0; while [ $i -lt 200 ]; do printf 'aé€😀'; i=$((i+1)); done").await;
    assert!(answer["stdout"].get("base64").is_none());
    for limit in [64, 65, 66, 67, 71] {
        let mut offset = 0;
        let mut text = String::new();
        loop {
            let read = json!({ "action": "read", "job": answer["job"], "offset": offset, "limit": limit });
            let page = bench.terminal(read).await.unwrap();
            assert!(page.get("base64").is_none(), "{page}");
            text.push_str(page["text"].as_str().unwrap());
            offset = page["next_offset"].as_u64().unwrap();
            if page["eof"] == true {
                break;
            }
        }
        assert_eq!(text, "aé€😀".repeat(200));
    }
}

#[tokio::test]
async fn binary_output_is_returned_exactly() {
    let bench = Workbench::new().await;
    let answer = bench.sh(r"printf 'a\377\376b\000c\303'").await;
    let bytes = b"a\xff\xfeb\0c\xc3";
    assert_eq!(STANDARD.decode(answer["stdout"]["base64"].as_str().unwrap()).unwrap(), bytes);
    assert_eq!(answer["stdout"]["text"], "a\u{fffd}\u{fffd}b\0c\u{fffd}");
    let answer = bench.sh("head -c 300000 /dev/urandom; echo >&2 plain").await;
    let spool = std::fs::read(bench.job_folder(&answer).join("stdout")).unwrap();
    assert_eq!(read_all_pages(&bench, &answer["job"], 4_099).await, spool);
    let shown = STANDARD.decode(answer["stdout"]["base64"].as_str().unwrap()).unwrap();
    let left_out = &answer["stdout"]["left_out"];
    let (start, length) =
        (left_out["offset"].as_u64().unwrap() as usize, left_out["bytes"].as_u64().unwrap() as usize);
    assert_eq!(shown, [&spool[..start], &spool[start + length..]].concat());
}

#[tokio::test]
async fn output_can_be_read_while_the_job_writes() {
    let bench = Workbench::new().await;
    let go = bench.folder().join("go");
    let command = format!("echo first; while [ ! -e {} ]; do sleep 0.02; done; printf last", go.display());
    let job = bench.terminal(json!({ "action": "start", "command": command })).await.unwrap()["job"].clone();
    let page = poll_until(async || {
        let answer = bench.terminal(json!({ "action": "read", "job": job })).await.unwrap();
        (answer["bytes"] == 6).then_some(answer)
    })
    .await;
    assert_eq!((&page["eof"], &page["running"]), (&json!(false), &json!(true)));
    std::fs::write(&go, "").unwrap();
    bench.terminal(json!({ "action": "wait", "job": job })).await.unwrap();
    let read = json!({ "action": "read", "job": job, "offset": page["next_offset"] });
    let rest = bench.terminal(read).await.unwrap();
    assert_eq!((&rest["text"], &rest["eof"]), (&json!("last"), &json!(true)));
    let end = bench.terminal(json!({ "action": "read", "job": job, "offset": -4 })).await.unwrap();
    assert_eq!((&end["text"], &end["offset"]), (&json!("last"), &json!(6)));
    let err = bench.terminal(json!({ "action": "read", "job": job, "stream": "stderr" })).await.unwrap();
    assert_eq!((&err["text"], &err["eof"]), (&json!(""), &json!(true)));
}

/// The resident memory of this process, in bytes.
fn resident_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

#[tokio::test]
async fn large_output_takes_no_memory_in_the_node() {
    let bench = Workbench::new().await;
    bench.sh("true").await;
    let before = resident_memory();
    let answer = bench.sh("yes 0123456789012345678901234567890 | head -c 100000000").await;
    let grown = resident_memory().saturating_sub(before);
    println!("{} KiB more after 100 MB of output", grown >> 10);
    assert_eq!(answer["exit_code"], 0);
    assert_eq!(answer["stdout"]["bytes"], 100_000_000);
    assert_eq!(std::fs::metadata(bench.job_folder(&answer).join("stdout")).unwrap().len(), 100_000_000);
    assert!(answer.to_string().len() < 128 << 10, "the answer is small");
    assert!(grown < 32 << 20, "{grown} bytes");
    let middle = json!({ "action": "read", "job": answer["job"], "offset": 50_000_000, "limit": 64 });
    assert_eq!(bench.terminal(middle).await.unwrap()["next_offset"], 50_000_064);
}

#[tokio::test]
async fn date_change_does_not_remove_a_job_that_just_ended() {
    let clock = Clock::manual(Timestamp::now());
    let bench = Workbench::with_clock(clock.clone()).await;
    let ran = bench.sh("echo kept").await;
    clock.advance(Duration::from_secs(30 * 24 * 3600));
    // Each of these starts removes old jobs.
    for _ in 0..4 {
        bench.sh("true").await;
    }
    let read = bench.terminal(json!({ "action": "read", "job": ran["job"] })).await.unwrap();
    assert_eq!(read["text"], "kept\n", "{read}");
}
