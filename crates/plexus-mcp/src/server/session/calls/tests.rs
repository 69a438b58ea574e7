use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{QuestionChannel, StreamWriter, TargetKind};
use crate::server::session::McpSession;
use crate::server::session::stream::NextMessage;

fn writer() -> StreamWriter {
    let session = Arc::new(McpSession::for_test());
    StreamWriter {
        id: serde_json::value::to_raw_value("a").unwrap(),
        kind: TargetKind::Tool,
        progress: None,
        cancelled: CancellationToken::new(),
        client: Arc::new(QuestionChannel {
            log: session.new_stream(),
            session,
            timeout: Duration::ZERO,
            stopping: CancellationToken::new(),
            pages: Mutex::default(),
        }),
    }
}

#[test]
fn failed_call_ends_its_stream_with_an_error() {
    let writer = writer();
    let log = writer.client.log.clone();
    drop(writer);
    let NextMessage::Message(number, json) = log.next(0) else { panic!("no message") };
    let answer: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&"a".into(), &(-32603).into()));
    assert!(matches!(log.next(number), NextMessage::End));
}

#[test]
fn failed_call_that_was_cancelled_ends_its_stream_without_a_message() {
    let writer = writer();
    writer.cancelled.cancel();
    let log = writer.client.log.clone();
    drop(writer);
    assert!(matches!(log.next(0), NextMessage::End));
}
