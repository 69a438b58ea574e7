//! Detects long runs of base64 or hexadecimal digits, which a model may decode but a person does not read.

/// Longer than any hash in hexadecimal.
const MIN_HEX: usize = 129;
const MIN_BASE64: usize = 128;
/// Paths and multi-word names use the same characters, in shorter pieces.
const MIN_PIECE: usize = 16;

pub(super) fn encoded_run(text: &str) -> Option<String> {
    if text.len() < MIN_BASE64 {
        return None;
    }
    let is_digit = |c: char| c.is_ascii_alphanumeric() || "+/-_=".contains(c);
    // Encoded data is often broken into lines.
    let mut run = String::new();
    let mut lines = text.split('\n').map(|line| line.trim_matches(['\r', ' ', '\t'])).peekable();
    while let Some(line) = lines.next() {
        let pieces: Vec<&str> = line.split(|c| !is_digit(c)).collect();
        if pieces.len() == 1 && line.len() >= 32 {
            run.push_str(line);
            if lines.peek().is_some() {
                continue;
            }
        }
        let joined = std::mem::take(&mut run);
        if let Some(data) = std::iter::once(joined.as_str()).chain(pieces).find(|piece| is_encoded(piece)) {
            return Some(format!("{} characters: {}", data.len(), data.chars().take(40).collect::<String>()));
        }
    }
    None
}

fn is_encoded(run: &str) -> bool {
    if run.len() >= MIN_HEX && run.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        // A run of few distinct digits is a separator line, not data.
        return run.bytes().collect::<std::collections::BTreeSet<_>>().len() > 4;
    }
    let any = |is: fn(&u8) -> bool| run.bytes().any(|byte| is(&byte));
    let pieces = run.split(['+', '/', '-', '_', '=']).filter(|piece| !piece.is_empty()).count().max(1);
    run.len() >= MIN_BASE64
        && run.len() / pieces >= MIN_PIECE
        && any(u8::is_ascii_uppercase)
        && any(u8::is_ascii_lowercase)
        && any(u8::is_ascii_digit)
}
