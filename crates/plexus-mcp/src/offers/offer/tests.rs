use serde_json::json;

use super::{Entry, MAX_TEMPLATES, OfferLists, ServerOffer};

fn entries(json: serde_json::Value) -> Option<Vec<Entry>> {
    json.as_array().map(|all| all.iter().filter_map(|one| one.as_object().cloned()).collect())
}

#[test]
fn unusable_entry_is_left_out_with_a_warning() {
    let offer = ServerOffer::new(OfferLists {
        resources: entries(json!([
            { "uri": "a://1", "name": "one", "size": "large", "description": 3, "title": "One" },
            { "uri": "a://1", "name": "again" },
            { "name": "without" },
            { "uri": format!("a://{}", "x".repeat(3_000)), "name": "long" },
            { "uri": "a://2", "description": "y".repeat(70_000) },
            { "uri": "a://3" },
        ])),
        ..OfferLists::default()
    });
    let resources = offer.resources.expect("resources");
    let expected = json!([
        { "uri": "a://1", "name": "one", "title": "One" },
        { "uri": "a://3", "name": "a://3" },
    ]);
    assert_eq!(json!(resources.listed), expected);
    assert_eq!(offer.warnings.len(), 4, "{:?}", offer.warnings);
    assert!(offer.prompts.is_none());
}

#[test]
fn invalid_prompt_arguments_are_removed() {
    let offer = ServerOffer::new(OfferLists {
        prompts: entries(json!([
            { "name": "p", "arguments": [{ "name": "a", "required": "yes" }, { "required": true }, 3] },
            { "name": "q", "arguments": {} },
        ])),
        ..OfferLists::default()
    });
    let expected = json!([{ "name": "p", "arguments": [{ "name": "a" }] }, { "name": "q" }]);
    assert_eq!(json!(offer.prompts), expected);
}

#[test]
fn list_is_truncated_at_its_limit() {
    let many: Vec<_> =
        (0..MAX_TEMPLATES + 9).map(|n| json!({ "uriTemplate": format!("a://{n}/{{x}}") })).collect();
    let offer = ServerOffer::new(OfferLists { templates: entries(json!(many)), ..OfferLists::default() });
    assert_eq!(offer.warnings.len(), 1, "{:?}", offer.warnings);
    let again = ServerOffer::new(offer.lists());
    assert_eq!(again.resources, offer.resources);
    assert_eq!(offer.resources.expect("resources").templates.len(), MAX_TEMPLATES);
}
