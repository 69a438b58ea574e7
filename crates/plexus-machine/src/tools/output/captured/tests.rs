use super::*;

fn excerpt(blocks: &[&[u8]]) -> Excerpt {
    let captured = Captured::new(("job", "a"), 8, 8);
    blocks.iter().for_each(|block| captured.retained(Stream::Stdout).push(block));
    captured.excerpt(Stream::Stdout)
}

#[test]
fn excerpt_is_complete_within_the_limit_and_names_what_it_omits_beyond() {
    let all = excerpt(&[b"ab", b"cde", b"fgh"]);
    assert_eq!((all.text.as_str(), all.bytes, all.truncated), ("abcdefgh", 8, false));
    let both = excerpt(&[b"abcdefghijklmnop"]);
    assert_eq!(both.text, "abcd\n[… 8 bytes omitted and not stored …]\nmnop");
    assert_eq!((both.bytes, both.truncated, both.base64), (16, true, None));
}

#[test]
fn characters_are_never_split_and_binary_data_becomes_base64() {
    let text = excerpt(&["aaaé-------éaaa".as_bytes()]);
    assert_eq!((text.text.as_str(), text.base64), ("aaa\n[… 11 bytes omitted and not stored …]\naaa", None));
    assert!(excerpt(&[b"\xff\xfe"]).base64.is_some());
}
