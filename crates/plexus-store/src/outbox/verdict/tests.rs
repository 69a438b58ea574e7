use std::time::Duration;

use serde_json::json;

use super::Verdict::{self, RenewThenRetry, Retry, Settled};
use super::WriteAnswer::{Error, Result as Done, Status};
use super::*;

const NOW: &str = "2026-01-01T00:00:00Z";

fn judged(answer: WriteAnswer<'_>, renewed: bool) -> Verdict {
    judge(answer, renewed, NOW.parse().unwrap())
}

fn status(status: u16) -> WriteAnswer<'static> {
    Status { status, is_from_hub: true, retry_after: None, message: "because" }
}

#[test]
fn http_status_decides_whether_to_retry() {
    let retry = Retry(None);
    let dead_letter = |status| Verdict::DeadLetter(format!("the hub rejected it (HTTP {status}): because"));
    let too_large = Verdict::DeadLetter("it is too large (HTTP 413): because".to_owned());
    let table = [
        (401, RenewThenRetry, retry.clone()),
        (403, RenewThenRetry, dead_letter(403)),
        (400, dead_letter(400), dead_letter(400)),
        (404, dead_letter(404), dead_letter(404)),
        (409, dead_letter(409), dead_letter(409)),
        (410, dead_letter(410), dead_letter(410)),
        (412, dead_letter(412), dead_letter(412)),
        (413, too_large.clone(), too_large.clone()),
        (422, dead_letter(422), dead_letter(422)),
        (408, retry.clone(), retry.clone()),
        (425, retry.clone(), retry.clone()),
        (429, retry.clone(), retry.clone()),
        (500, retry.clone(), retry.clone()),
        (501, retry.clone(), retry.clone()),
        (502, retry.clone(), retry.clone()),
        (503, retry.clone(), retry.clone()),
        (504, retry.clone(), retry.clone()),
        (511, retry.clone(), retry.clone()),
        // From an intermediary.
        (202, retry.clone(), retry.clone()),
        (204, retry.clone(), retry.clone()),
        (302, retry.clone(), retry.clone()),
        (307, retry.clone(), retry.clone()),
    ];
    for (code, first, renewed) in table {
        assert_eq!(judged(status(code), false), first, "{code}");
        assert_eq!(judged(status(code), true), renewed, "{code} after a renewal");
    }
    assert_eq!(judged(WriteAnswer::None, false), retry);
}

#[test]
fn rejection_by_an_intermediary_is_retried() {
    let retry = Retry(None);
    let too_large = Verdict::DeadLetter("it is too large (HTTP 413)".to_owned());
    let table = [
        (400, retry.clone()),
        (403, retry.clone()),
        (404, retry.clone()),
        (405, retry.clone()),
        (421, retry.clone()),
        (451, retry),
        (413, too_large),
    ];
    for (status, expected) in table {
        let answer = Status { status, is_from_hub: false, retry_after: None, message: "" };
        assert_eq!(judged(answer, true), expected, "{status}");
    }
}

#[test]
fn retry_after_is_respected_up_to_a_limit() {
    let table = [
        ("0", Some(0)),
        ("7", Some(7)),
        (" 7 ", Some(7)),
        ("301", Some(300)),
        ("99999999999999999999999999", Some(300)),
        ("Thu, 01 Jan 2026 00:00:09 GMT", Some(9)),
        ("Thu, 01 Jan 2026 09:00:00 GMT", Some(300)),
        ("Wed, 31 Dec 2025 00:00:00 GMT", Some(0)),
        ("", None),
        ("-1", None),
        ("1.5", None),
        ("soon", None),
        ("Thu, 99 Jan 2026 00:00:09 GMT", None),
    ];
    for (text, seconds) in table {
        let expected = Retry(seconds.map(Duration::from_secs));
        for status in [429, 503] {
            let answer = Status { status, is_from_hub: true, retry_after: Some(text), message: "" };
            assert_eq!(judged(answer, false), expected, "{text:?}");
        }
    }
    // Ignored with a final answer.
    let refused = Status { status: 409, is_from_hub: true, retry_after: Some("5"), message: "" };
    assert_eq!(judged(refused, false), Verdict::DeadLetter("the hub rejected it (HTTP 409)".to_owned()));
}

#[test]
fn protocol_error_is_final_unless_marked_retryable() {
    let dead_letter = |code| Verdict::DeadLetter(format!("the hub rejected it (error {code}): no"));
    let error_result = |code: &str, retryable: bool| {
        Some(json!({ "plexus/error": { "code": code, "retryable": retryable } }))
    };
    let beside =
        |code: &str, retryable: bool| Some(json!({ "plexus/error": code, "plexus/retryable": retryable }));
    let table = [
        (-32700, None, dead_letter(-32700)),
        (-32600, None, dead_letter(-32600)),
        (-32601, None, dead_letter(-32601)),
        (-32602, None, dead_letter(-32602)),
        (-32603, None, Retry(None)),
        (-32603, error_result("internal", false), dead_letter(-32603)),
        (-32000, error_result("overloaded", true), Retry(None)),
        (-32000, beside("unavailable", true), Retry(None)),
        (-32000, beside("conflict", false), dead_letter(-32000)),
        (-32602, error_result("idempotency_conflict", false), dead_letter(-32602)),
        (-32001, error_result("unauthenticated", false), RenewThenRetry),
        (-32000, error_result("forbidden", false), RenewThenRetry),
        (-32000, error_result("feature_off", false), Settled),
        (-32000, Some(json!("text")), dead_letter(-32000)),
    ];
    for (code, data, expected) in table {
        let answer = Error { code, message: "no", data: data.as_ref() };
        assert_eq!(judged(answer, false), expected, "{code} {data:?}");
    }
    let again = error_result("forbidden", false);
    assert_eq!(
        judged(Error { code: -32000, message: "no", data: again.as_ref() }, true),
        dead_letter(-32000)
    );
    let again = error_result("unauthenticated", false);
    let answer = Error { code: -32001, message: "no", data: again.as_ref() };
    assert_eq!(judged(answer, true), Retry(None));
}

#[test]
fn result_settles_the_write_unless_it_is_an_error() {
    let failed = |meta| json!({ "isError": true, "content": [{ "type": "text", "text": "no section" }], "_meta": meta });
    let dead_letter = |text: &str| Verdict::DeadLetter(text.to_owned());
    let table = [
        (json!({ "content": [] }), Settled),
        (json!({ "isError": false, "structuredContent": {} }), Settled),
        // A replayed first result, and a call that continues on the hub.
        (json!({ "content": [], "_meta": { "plexus/replayed": true } }), Settled),
        (json!({ "resultType": "task", "taskId": "t" }), Settled),
        (failed(json!({})), dead_letter("the tool failed: no section")),
        (
            failed(json!({ "plexus/error": { "code": "conflict", "retryable": false } })),
            dead_letter("the tool failed (conflict): no section"),
        ),
        (failed(json!({ "plexus/error": { "code": "overloaded", "retryable": true } })), Retry(None)),
        (failed(json!({ "plexus/error": "unavailable", "plexus/retryable": true })), Retry(None)),
        (failed(json!({ "plexus/error": { "code": "feature_off", "retryable": false } })), Settled),
        (json!({ "isError": true }), dead_letter("the tool failed")),
        // Not a result.
        (json!("<html>"), Retry(None)),
    ];
    for (result, expected) in table {
        assert_eq!(judged(Done(&result), false), expected, "{result}");
    }
    let asks = judged(Done(&json!({ "resultType": "input_required" })), false);
    assert!(matches!(&asks, Verdict::DeadLetter(reason) if reason.contains("question")), "{asks:?}");
}

#[test]
fn reason_length_is_limited() {
    let message = "ü".repeat(5_000);
    let answer = Status { status: 400, is_from_hub: true, retry_after: None, message: &message };
    let Verdict::DeadLetter(reason) = judged(answer, false) else { panic!("it is final") };
    assert!(reason.chars().count() < 600 && reason.ends_with('…'), "{reason}");
}
