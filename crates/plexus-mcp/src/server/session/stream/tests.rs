use std::sync::atomic::Ordering;

use super::{BufferedBytes, MAX_MESSAGES, MAX_TOTAL_BYTES, NextMessage, StreamLog};

#[test]
fn full_buffer_drops_progress_and_log_lines_first() {
    let total = BufferedBytes::default();
    let log = StreamLog::new("one".to_owned(), total.clone());
    log.push_droppable("a line".to_owned());
    log.push("a question".to_owned());
    for _ in 0..MAX_MESSAGES + 10 {
        log.push_droppable("a line".to_owned());
    }
    let NextMessage::Message(2, question) = log.next(0) else { panic!("the question was dropped") };
    assert_eq!(question, "a question");
    assert_eq!(total.load(Ordering::Relaxed), question.len() + (MAX_MESSAGES - 1) * "a line".len());
    for _ in 0..MAX_MESSAGES {
        log.push("a message".to_owned());
    }
    assert_eq!(total.load(Ordering::Relaxed), MAX_MESSAGES * "a message".len(), "the limit applies to all");
    let last = log.state.lock().unwrap().last;
    log.push_droppable("a line".to_owned());
    assert!(matches!(log.next(last), NextMessage::Wait), "the new line is dropped");
}

#[test]
fn finished_stream_is_stale_over_the_total_size_limit() {
    let total = BufferedBytes::default();
    let log = StreamLog::new("one".to_owned(), total.clone());
    for _ in 0..MAX_MESSAGES + 10 {
        log.push_droppable("x".repeat(100));
    }
    assert_eq!(total.load(Ordering::Relaxed), MAX_MESSAGES * 100);
    assert!(!log.is_stale(), "it is not finished");
    log.finish(Some("y".repeat(100)));
    assert!(!log.is_stale(), "a client may resume it");
    let large = StreamLog::new("two".to_owned(), total.clone());
    large.push("z".repeat(MAX_TOTAL_BYTES));
    assert!(log.is_stale(), "the total size is over the limit");
    drop((log, large));
    assert_eq!(total.load(Ordering::Relaxed), 0);
}
