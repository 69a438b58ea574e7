use serde_json::json;

use super::*;

fn normal(inquiry: Inquiry, params: Value) -> Result<Option<Value>, i64> {
    let raw = to_raw_value(&params).unwrap();
    match normal_form(inquiry, Some(RawJson::of(&raw))) {
        Ok(params) => Ok(params.map(|params| params.parsed().unwrap())),
        Err(Answer::Error { code, .. }) => Err(code),
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn questions_of_all_revisions_are_normalized() {
    let schema = json!({ "type": "object", "properties": {} });
    let old = json!({ "message": "?", "requestedSchema": schema, "_meta": { "progressToken": 1 } });
    let form = json!({ "mode": "form", "message": "?", "requestedSchema": schema });
    assert_eq!(normal(Inquiry::Elicit, old), Ok(Some(form.clone())));
    assert_eq!(normal(Inquiry::Elicit, form.clone()), Ok(Some(form)));
    let url = json!({ "mode": "url", "message": "?", "url": "https://a.example", "elicitationId": "1" });
    let without = json!({ "mode": "url", "message": "?", "url": "https://a.example" });
    assert_eq!(normal(Inquiry::Elicit, url), Ok(Some(without)));
    let sampling = json!({ "messages": [], "maxTokens": 1 });
    let with_task = json!({ "messages": [], "maxTokens": 1, "task": { "ttl": 1 } });
    assert_eq!(normal(Inquiry::Sample, with_task), Ok(Some(sampling)));
    assert_eq!(normal(Inquiry::Roots, json!({ "_meta": { "progressToken": 1 } })), Ok(None));
}

#[test]
fn invalid_questions_are_refused() {
    for wrong in [
        json!([]),
        json!({}),
        json!({ "message": 7, "requestedSchema": {} }),
        json!({ "message": "?" }),
        json!({ "message": "?", "mode": "url" }),
        json!({ "message": "?", "mode": "url", "url": "javascript:alert(1)" }),
        json!({ "message": "?", "mode": "url", "url": "file:///etc/passwd" }),
        json!({ "message": "?", "mode": "telepathy", "requestedSchema": {} }),
        json!({ "message": "?", "mode": null, "requestedSchema": {} }),
    ] {
        assert_eq!(normal(Inquiry::Elicit, wrong.clone()), Err(INVALID_PARAMS), "{wrong}");
    }
    assert!(matches!(normal_form(Inquiry::Sample, None), Err(Answer::Error { .. })));
    assert_eq!(normal_form(Inquiry::Roots, None), Ok(None));
}
