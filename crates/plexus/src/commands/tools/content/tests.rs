use serde_json::json;

use super::description;

#[test]
fn omitted_block_is_described_with_type_and_size() {
    let picture = "A".repeat(16 * 1024);
    for (block, expected) in [
        (
            json!({ "type": "image", "mimeType": "image/png", "data": picture }),
            "1 image (image/png, 12 KB) not shown",
        ),
        (
            json!({ "type": "audio", "mimeType": "audio/wav", "data": "AAAA" }),
            "1 audio recording (audio/wav, 3 B) not shown",
        ),
        (json!({ "type": "resource_link", "uri": "file:///a" }), "1 link to a resource not shown: file:///a"),
        (
            json!({ "type": "resource", "resource": { "uri": "a://b", "text": "four" } }),
            "1 resource (a://b, 4 B) not shown",
        ),
        (json!({ "type": "new" }), "1 block (new) not shown"),
    ] {
        assert_eq!(description(&block), expected);
    }
}
