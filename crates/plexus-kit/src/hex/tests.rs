use super::{decode, encode};

#[test]
fn decode_accepts_only_hexadecimal_pairs() {
    assert_eq!(encode(&[0, 15, 255]), "000fff");
    assert_eq!(decode("000fFF"), Some(vec![0, 15, 255]));
    for text in ["0", "0g", "+1", "ä0"] {
        assert_eq!(decode(text), None, "{text}");
    }
}
