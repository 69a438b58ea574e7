use super::event;

#[test]
fn multi_line_message_is_one_event() {
    let text = event(Some("7"), "{\n \"a\":\r\n[1,\r2]}");
    let text = std::str::from_utf8(&text).unwrap();
    let (head, data): (Vec<_>, Vec<_>) = text.lines().partition(|line| !line.starts_with("data: "));
    assert_eq!(head, ["id: 7", "event: message", ""]);
    let data: Vec<_> = data.iter().map(|line| &line["data: ".len()..]).collect();
    let json: serde_json::Value = serde_json::from_str(&data.join("\n")).unwrap();
    assert_eq!(json, serde_json::json!({ "a": [1, 2] }));
    assert!(text.ends_with("]}\n\n") && !text.contains('\r'), "{text:?}");
}
