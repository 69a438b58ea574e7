use plexus_kit::Secret;
use std::collections::BTreeMap;

use super::{MAX_BYTES, MAX_LINE, MAX_LINES, Mark, StderrRing, Withheld, shown};

async fn filled(text: &[u8]) -> StderrRing {
    let ring = StderrRing::new();
    ring.fill(text, &Withheld::default()).await;
    ring
}

#[tokio::test]
async fn latest_lines_are_kept() {
    let text: String = (0..1_000).map(|n| format!("line {n}\n")).collect();
    let lines = filled(text.as_bytes()).await.lines();
    assert_eq!(lines.len(), MAX_LINES);
    assert_eq!((lines[0].as_str(), lines[MAX_LINES - 1].as_str()), ("line 800", "line 999"));
}

#[tokio::test]
async fn lines_and_total_size_are_bounded() {
    let long = "x".repeat(100_000);
    let lines = filled(format!("{long}\nshort\nwithout an end").as_bytes()).await.lines();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[0].len(), MAX_LINE);
    assert_eq!(lines[2], "without an end");
    let many = filled(format!("{long}\n").repeat(100).as_bytes()).await.lines();
    assert!(many.iter().map(String::len).sum::<usize>() <= MAX_BYTES && !many.is_empty());
}

#[tokio::test]
async fn escapes_and_credentials_are_removed() {
    let text = b"\x1b[31mred\x1b[0m and \x07bell\r\ntoken=abcdef123456\n\
        -----BEGIN PRIVATE KEY-----\nMC4CAQ\n-----END PRIVATE KEY-----\nbad \xff byte\n";
    let lines = filled(text).await.lines();
    assert_eq!(lines, ["red and bell", "[redacted]", "[redacted]", "bad \u{fffd} byte"]);
}

#[tokio::test]
async fn explanation_ends_with_the_last_non_blank_line() {
    let ring = filled(b"one\nModule not found\n\n").await;
    let explained = ring.explain("it ended".to_owned(), Mark::default());
    assert_eq!(explained, "it ended; the last line of its standard error: Module not found");
    // The output of an earlier process explains nothing.
    let mark = ring.mark();
    assert_eq!(ring.explain("it ended".to_owned(), mark), "it ended");
    ring.fill("again\n".repeat(MAX_LINES + 1).as_bytes(), &Withheld::default()).await;
    assert!(ring.explain("it ended".to_owned(), mark).ends_with("again"));
}

#[tokio::test]
async fn secrets_given_to_the_process_are_removed() {
    let env =
        [("PLACE", "plainlywords"), ("API_TOKEN", "short"), ("DEBUG", "1"), ("LONG", "plainlywordsandmore")];
    let env = env.map(|(name, value)| (name.to_owned(), Secret::from(value))).into();
    let withheld = Withheld::of(&env);
    let ring = StderrRing::new();
    let straddling = format!("{}plainlywords{}", "x".repeat(MAX_LINE - 5), "y".repeat(100));
    ring.fill(format!("a plainlywordsandmore b short 1\n{straddling}\n").as_bytes(), &withheld).await;
    let lines = ring.lines();
    assert_eq!(lines[0], "a [redacted] b [redacted] 1");
    assert!(lines[1].len() <= MAX_LINE && !lines[1].contains("plain"), "{}", lines[1]);
    assert_eq!(Withheld::of(&BTreeMap::new()).longest(), 0);
}

#[test]
fn third_party_text_is_truncated() {
    let text = shown("é".repeat(10_000).as_bytes());
    assert!(text.ends_with('…') && text.len() < 400, "{text}");
}
