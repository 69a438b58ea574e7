use super::*;

async fn count(counter: &TokenCounter, texts: &[&str]) -> Vec<u64> {
    counter.count(texts.iter().map(|text| (*text).to_owned()).collect()).await.unwrap()
}

#[tokio::test]
async fn counts_match_tiktoken() {
    let counter = TokenCounter::default();
    // As counted by another implementation, tiktoken-rs 0.12.
    let schema = r#"{"type":"object","properties":{"text":{"type":"string"}}}"#;
    let texts =
        ["", "hello world", "tiktoken is great!", "お誕生日おめでとう", "<|endoftext|>", "2 + 2 = 4", schema];
    assert_eq!(count(&counter, &texts).await, [0, 2, 6, 8, 7, 7, 14]);
}

#[tokio::test]
async fn counts_are_cached_and_oversized_requests_are_refused() {
    let counter = TokenCounter::default();
    let first = count(&counter, &["a b c", "d"]).await;
    // The vocabulary cannot be loaded now.
    let _held = counter.counting.acquire().await.unwrap();
    assert_eq!(count(&counter, &["a b c", "d"]).await, first);
    let refused = counter.count(vec!["x".repeat(MAX_BYTES + 1)]).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::TooLarge);
}

#[tokio::test]
async fn adversarial_texts_are_counted_quickly() {
    let counter = TokenCounter::default();
    let began = std::time::Instant::now();
    count(&counter, &[&"a".repeat(1 << 18), &" ".repeat(1 << 18), &"\u{301}".repeat(1 << 17)]).await;
    assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
}
