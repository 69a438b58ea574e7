use plexus_tools::{Inquiry, Question, RawJson};
use serde_json::{Value, json};

use super::{Version, request};

fn params_in(params: &Value, version: Version) -> Value {
    let params = serde_json::value::to_raw_value(params).unwrap();
    let question =
        Question { key: "k".to_owned(), inquiry: Inquiry::Elicit, params: Some(RawJson::of(&params)) };
    let page = question.is_url().then(|| "page-1".to_owned());
    serde_json::from_str(&request(&question, "plexus-1", page, version)).unwrap()
}

#[test]
fn form_request_has_the_members_of_the_revision() {
    let form = json!({ "mode": "form", "message": "Who?", "requestedSchema": { "type": "object" } });
    let new = params_in(&form, Version::V2025_11_25);
    assert_eq!(new["params"], form);
    assert_eq!((&new["id"], &new["method"]), (&json!("plexus-1"), &json!("elicitation/create")));
    let old = params_in(&form, Version::V2025_06_18);
    assert_eq!(old["params"], json!({ "message": "Who?", "requestedSchema": { "type": "object" } }));
}

#[test]
fn url_request_has_an_elicitation_id() {
    let page = params_in(
        &json!({ "mode": "url", "message": "Go", "url": "https://example.com" }),
        Version::V2025_11_25,
    );
    assert_eq!(page["params"]["elicitationId"], "page-1");
    assert_eq!(page["params"]["mode"], "url");
}
