use super::*;

#[test]
fn characters_are_never_split() {
    let text = "aé€😀".as_bytes();
    for cut in 0..=text.len() {
        let complete_length = whole_characters(&text[..cut]);
        assert!(std::str::from_utf8(&text[..complete_length]).is_ok(), "{cut}");
        assert!(cut - complete_length < 4);
        let begun = rest_of_character(&text[cut..]);
        assert!(std::str::from_utf8(&text[cut + begun..]).is_ok(), "{cut}");
    }
}

#[test]
fn binary_data_is_also_returned_as_base64() {
    let bytes = b"a\xff\xfeb";
    assert_eq!(whole_characters(bytes), bytes.len());
    let decoded = Decoded::of(bytes);
    assert_eq!(decoded.text, "a\u{fffd}\u{fffd}b");
    assert_eq!(STANDARD.decode(decoded.base64.unwrap()).unwrap(), bytes);
    assert_eq!(Decoded::of(b"plain").base64, None);
}
