use std::io;

use tokio::io::{AsyncWriteExt as _, duplex};

use super::{BLOCK_SIZE, LineReader};

async fn all(text: &[u8], limit: usize) -> (Vec<String>, Option<String>) {
    let mut lines = LineReader::new(text, limit);
    let mut read = Vec::new();
    loop {
        match lines.next().await {
            Ok(Some(line)) => read.push(String::from_utf8(line.to_vec()).unwrap()),
            Ok(None) => return (read, None),
            Err(why) => return (read, Some(why)),
        }
    }
}

#[tokio::test]
async fn lines_of_any_length_are_split() {
    let long = "x".repeat(3 * BLOCK_SIZE + 5);
    let text = format!("one\n\ntwo\n{long}\nlast without an end");
    let (lines, end) = all(text.as_bytes(), 1 << 20).await;
    assert_eq!(lines, ["one", "", "two", &long, "last without an end"]);
    assert_eq!(end, None);
}

#[tokio::test]
async fn line_over_the_limit_is_rejected() {
    let (lines, end) = all(format!("{}\n", "x".repeat(100)).as_bytes(), 100).await;
    assert_eq!((lines.len(), end), (1, None));
    let (lines, end) = all(format!("{}\n", "x".repeat(101)).as_bytes(), 100).await;
    assert!(lines.is_empty() && end.unwrap().contains("100 bytes"));
    // An endless line.
    let mut lines = LineReader::new(tokio::io::repeat(b'x'), 100_000);
    lines.next().await.unwrap_err();
    assert!(lines.block.len() <= 100_000 + 2 * BLOCK_SIZE.max(100_000), "{}", lines.block.len());
}

#[tokio::test]
async fn reading_a_line_is_cancel_safe() -> io::Result<()> {
    let (mut server, client) = duplex(64);
    let mut lines = LineReader::new(client, 1000);
    server.write_all(b"half ").await?;
    // Polled once, until there is nothing more to read.
    assert!(futures_util::poll!(std::pin::pin!(lines.next())).is_pending());
    server.write_all(b"a line\n").await?;
    assert_eq!(lines.next().await.unwrap().unwrap(), "half a line");
    Ok(())
}
