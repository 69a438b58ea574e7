use super::{ShortIds, parse_suffix, suffix, unique_suffix_len};

const ONE: &str = "01890a5d-ac96-774b-bcce-b302099a8057";
const OTHER: &str = "01890a5d-ac96-774b-bcce-b312099a8057";

#[test]
fn short_ids_are_as_long_as_needed_to_differ() {
    assert_eq!(unique_suffix_len([ONE, ONE].into_iter()), 8);
    assert_eq!(suffix(ONE, 8), "099a8057");
    let length = unique_suffix_len([ONE, OTHER].into_iter());
    assert_eq!((suffix(ONE, length), suffix(OTHER, length)), ("02099a8057", "12099a8057"));
}

#[test]
fn ids_printed_later_differ_from_those_before() {
    let mut ids = ShortIds::new();
    ids.add(&[ONE.to_owned()]);
    assert_eq!(ids.shorten(ONE), "099a8057");
    ids.add(&[OTHER.to_owned()]);
    assert_eq!((ids.shorten(ONE), ids.shorten(OTHER)), ("02099a8057", "12099a8057"));
    ids.add(&["01890a5d-ac96-774b-bcce-000000000000".to_owned()]);
    assert_eq!(ids.shorten(ONE), "02099a8057", "not shorter again");
}

#[test]
fn only_an_id_suffix_is_accepted() {
    assert_eq!(parse_suffix("099A8057").as_deref(), Some("099a8057"));
    for other in ["", "057", "plan", "099a805g", ONE] {
        assert_eq!(parse_suffix(other), None, "{other:?}");
    }
}

#[test]
fn text_that_is_not_an_id_is_not_shortened() {
    assert_eq!(suffix("-", 8), "-");
    assert_eq!(suffix("grüße von einem, der keine Kennung ist", 8), "grüße von einem, der keine Kennung ist");
}
