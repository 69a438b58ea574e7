use super::{distinct, end, ending};

const ONE: &str = "01890a5d-ac96-774b-bcce-b302099a8057";
const OTHER: &str = "01890a5d-ac96-774b-bcce-b312099a8057";

#[test]
fn ids_are_as_short_as_they_can_be_told_apart() {
    assert_eq!(distinct([ONE, ONE].into_iter()), 8);
    assert_eq!(end(ONE, 8), "099a8057");
    let length = distinct([ONE, OTHER].into_iter());
    assert_eq!((end(ONE, length), end(OTHER, length)), ("02099a8057", "12099a8057"));
}

#[test]
fn only_the_end_of_an_id_is_taken_for_one() {
    assert_eq!(ending("099A8057").as_deref(), Some("099a8057"));
    for other in ["", "057", "plan", "099a805g", ONE] {
        assert_eq!(ending(other), None, "{other:?}");
    }
}

#[test]
fn a_text_that_is_not_an_id_is_not_shortened() {
    assert_eq!(end("-", 8), "-");
    assert_eq!(end("grüße von einem, der keine Kennung ist", 8), "grüße von einem, der keine Kennung ist");
}
