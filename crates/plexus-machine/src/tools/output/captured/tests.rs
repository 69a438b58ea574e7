use super::*;

fn captured(each: usize, blocks: &[&[u8]]) -> Excerpt {
    let mut captured = Captured::new(each);
    blocks.iter().for_each(|block| captured.push(block));
    captured.excerpt()
}

#[test]
fn output_within_the_limit_is_complete() {
    let all = captured(4, &[b"ab", b"cde", b"fgh"]);
    assert_eq!((all.text.as_str(), all.bytes, all.truncated), ("abcdefgh", 8, false));
}

#[test]
fn longer_output_retains_head_and_tail_for_any_block_sizes() {
    let whole = b"abcdefghijklmnop";
    for cut in 0..=whole.len() {
        let (one, two) = whole.split_at(cut);
        let both = captured(4, &[one, two]);
        assert_eq!(both.text, "abcd\n[… 8 bytes omitted …]\nmnop", "{cut}");
        assert_eq!((both.bytes, both.truncated, both.base64), (16, true, None));
    }
}

#[test]
fn characters_are_never_split_and_binary_data_becomes_base64() {
    let text = captured(4, &["aaaé-------éaaa".as_bytes()]);
    assert_eq!((text.text.as_str(), text.base64), ("aaa\n[… 11 bytes omitted …]\naaa", None));
    assert!(captured(4, &[b"\xff\xfe"]).base64.is_some());
}
