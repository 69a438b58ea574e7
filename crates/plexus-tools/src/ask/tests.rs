use serde_json::{Value, json};

use super::{Capabilities, Inquiry, LogLevel, Question};
use crate::RawJson;

fn question(inquiry: Inquiry, params: &Value) -> Question {
    let params = serde_json::value::to_raw_value(params).unwrap();
    Question { key: "q1".to_owned(), inquiry, params: Some(RawJson::of(&params)) }
}

#[test]
fn capabilities_round_trip() {
    let all = json!({
        "elicitation": { "form": {}, "url": {} },
        "sampling": { "tools": {}, "context": {} },
        "roots": {},
        "extensions": { "io.modelcontextprotocol/tasks": {} },
    });
    let read = Capabilities::read(&all);
    assert_eq!(read.to_json(), all);
    assert_eq!(Capabilities::read(&json!({})), Capabilities::default());
    assert_eq!(Capabilities::read(&json!({ "roots": true, "sampling": null })), Capabilities::default());
}

#[test]
fn empty_elicitation_capability_means_form_only() {
    let old = Capabilities::read(&json!({ "elicitation": {} }));
    assert!(old.form && !old.url);
    let page = Capabilities::read(&json!({ "elicitation": { "url": {} } }));
    assert!(page.url && !page.form);
}

#[test]
fn question_requires_the_capabilities_of_its_params() {
    let form = Capabilities::read(&json!({ "elicitation": {}, "sampling": {} }));
    assert_eq!(form.lacks(&question(Inquiry::Elicit, &json!({ "message": "?" }))), None);
    let page = question(Inquiry::Elicit, &json!({ "mode": "url", "url": "https://example.com" }));
    assert_eq!(form.lacks(&page).unwrap().to_json(), json!({ "elicitation": { "url": {} } }));
    assert_eq!(form.lacks(&question(Inquiry::Sample, &json!({ "messages": [] }))), None);
    let tools = question(Inquiry::Sample, &json!({ "messages": [], "tools": [] }));
    assert_eq!(form.lacks(&tools).unwrap().to_json(), json!({ "sampling": { "tools": {} } }));
    let roots = Question { key: String::new(), inquiry: Inquiry::Roots, params: None };
    assert_eq!(form.lacks(&roots).unwrap().to_json(), json!({ "roots": {} }));
}

#[test]
fn log_levels_are_ordered_and_parsed_by_name() {
    assert!(LogLevel::ALL.is_sorted());
    assert!(LogLevel::ALL.into_iter().all(|level| LogLevel::parse(level.as_str()) == Some(level)));
    assert_eq!(LogLevel::parse("loud"), None);
}
