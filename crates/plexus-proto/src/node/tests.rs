//! Every frame against its golden file: frames written by earlier releases must stay readable and serialize
//! to the same bytes.

use std::collections::BTreeSet;
use std::path::Path;

use super::{Frame, Received};

fn fixtures() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/node");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            (path.file_stem().unwrap().to_string_lossy().into_owned(), std::fs::read_to_string(path).unwrap())
        })
        .collect();
    files.sort();
    files
}

#[test]
fn golden_frames_round_trip_unchanged() {
    let mut kinds = BTreeSet::new();
    for (name, text) in fixtures() {
        let Received::Frame(frame) = Frame::parse(&text).unwrap_or_else(|e| panic!("{name}: {e}")) else {
            panic!("{name}: unknown frame type");
        };
        kinds.insert(frame.kind());
        assert_eq!(frame.text(), text.trim_end(), "{name}");
    }
    let all = ["ack", "bye", "call", "cancel", "event", "hello", "ping", "pong", "result", "welcome"];
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), all);
}

#[test]
fn unknown_frame_type_is_reported_as_unknown() {
    let Ok(Received::Unknown(kind)) = Frame::parse(r#"{"type":"gossip","about":[1]}"#) else { panic!() };
    assert_eq!(kind, "gossip");
}

#[test]
fn unknown_fields_are_ignored() {
    let Ok(Received::Frame(Frame::Ping(ping))) = Frame::parse(r#"{"n":7,"mood":"good","type":"ping"}"#)
    else {
        panic!()
    };
    assert_eq!(ping.n, 7);
}

#[test]
fn invalid_frame_error_names_the_type_and_the_cause() {
    let error = |text: &str| Frame::parse(text).unwrap_err().to_string();
    assert!(error("[]").starts_with("not a frame"), "{}", error("[]"));
    assert!(error("{}").contains("`type`"), "{}", error("{}"));
    let error = error(r#"{"type":"ack","call_id":"x"}"#);
    assert!(error.contains(r#"type "ack""#) && error.contains("line 1"), "{error}");
}
