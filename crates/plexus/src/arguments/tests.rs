use serde_json::{Value, json};

use super::{key_value, span, tool_arguments, ttl};

#[test]
fn ttl_needs_a_number_and_a_unit() {
    for (text, seconds) in
        [("90s", 90), ("15m", 900), ("12h", 43_200), ("30d", 2_592_000), ("1y", 31_536_000)]
    {
        assert_eq!(ttl(text), Ok(seconds), "{text}");
    }
    for text in
        ["", "m", "30", "30 d", "-1d", "+1d", "1.5h", "30D", "0d", "9999999999999999999y", "٣d", "1d2h"]
    {
        assert!(ttl(text).is_err(), "{text}");
    }
}

#[test]
fn span_can_be_zero() {
    assert_eq!([span("0"), span("0s"), span("10m")], [Ok(0), Ok(0), Ok(600)]);
    assert!(span("10").is_err());
}

#[test]
fn value_is_json_if_it_parses_else_a_string() {
    let value = |text: &str| key_value(&format!("key={text}")).unwrap().1;
    assert_eq!(value("3"), json!(3));
    assert_eq!(value("-2.5"), json!(-2.5));
    assert_eq!(value("true"), json!(true));
    assert_eq!(value("null"), Value::Null);
    assert_eq!(value(r#"{"a":[1,2]}"#), json!({"a": [1, 2]}));
    assert_eq!(value("\"3\""), json!("3"));
    assert_eq!(value("hello world"), json!("hello world"));
    assert_eq!(value(""), json!(""));
    assert_eq!(value("007"), json!("007"));
    assert_eq!(value("{broken"), json!("{broken"));
}

#[test]
fn large_integer_keeps_all_digits() {
    assert_eq!(key_value("id=123456789012345678901234").unwrap().1, json!("123456789012345678901234"));
    assert_eq!(key_value("id=18446744073709551615").unwrap().1, json!(u64::MAX));
}

#[test]
fn only_the_first_equals_sign_separates_key_and_value() {
    assert_eq!(key_value("query=a=b").unwrap(), ("query".to_owned(), json!("a=b")));
    assert!(key_value("no-equals").is_err());
    assert!(key_value("=value").is_err());
}

#[test]
fn arg_overrides_json_args() {
    let pairs = vec![("a".to_owned(), json!(1)), ("a".to_owned(), json!(2))];
    assert_eq!(tool_arguments(Some(r#"{"a": 0, "b": 0}"#), pairs).unwrap(), json!({"a": 2, "b": 0}));
    assert_eq!(tool_arguments(None, vec![]).unwrap(), json!({}));
}

#[test]
fn json_args_must_be_an_object() {
    let message = |source: &str| tool_arguments(Some(source), vec![]).unwrap_err().to_string();
    assert!(message("[1]").contains("not an object"));
    assert!(message("{").contains("not JSON"));
    assert!(message("@/no/such/file").contains("/no/such/file"));
}

#[test]
fn json_args_can_come_from_a_file() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), r#"{"text": "hi"}"#).unwrap();
    assert_eq!(
        tool_arguments(Some(&format!("@{}", file.path().display())), vec![]).unwrap(),
        json!({"text": "hi"})
    );
}
