//! JSON: files as agents write them, and invalid files.

use super::{Case, changed, check, edit, refused};
use crate::document::Syntax;

const CASES: &[Case] = &[
    edit(
        "empty",
        "",
        "{\n  \"mcpServers\": {\n    \"plexus\": {\n      \"command\": \"/opt/plexus\",\n      \"args\": [\"mcp\", \"--as\", \"a b\"]\n    }\n  }\n}\n",
    ),
    edit(
        "white space only",
        "  \n\n",
        "{\n  \"mcpServers\": {\n    \"plexus\": {\n      \"command\": \"/opt/plexus\",\n      \"args\": [\"mcp\", \"--as\", \"a b\"]\n    }\n  }\n}\n",
    ),
    edit(
        "an empty object",
        "{}",
        "{\n  \"mcpServers\": {\n    \"plexus\": {\n      \"command\": \"/opt/plexus\",\n      \"args\": [\"mcp\", \"--as\", \"a b\"]\n    }\n  }\n}",
    ),
    edit(
        "an empty object on several lines",
        "{\n\n}\n",
        "{\n  \"mcpServers\": {\n    \"plexus\": {\n      \"command\": \"/opt/plexus\",\n      \"args\": [\"mcp\", \"--as\", \"a b\"]\n    }\n  }\n\n}\n",
    ),
    changed(
        "no servers",
        "{\n  \"a\": 1\n}\n",
        "{\n  \"a\": 1,\n  \"mcpServers\": {\n    \"plexus\": {\n      \"command\": \"/opt/plexus\",\n      \"args\": [\"mcp\", \"--as\", \"a b\"]\n    }\n  }\n}\n",
        ("\"a\": 1", "\"a\": [\n  2 ]"),
    ),
    changed(
        "empty servers",
        "{\n  \"mcpServers\": {},\n  \"b\": true\n}",
        "{\n  \"mcpServers\": {\n    \"plexus\": {\n      \"command\": \"/opt/plexus\",\n      \"args\": [\"mcp\", \"--as\", \"a b\"]\n    }\n  },\n  \"b\": true\n}",
        ("\"b\": true", "\"b\": false,\n  \"c\": null"),
    ),
    changed(
        "other servers, four spaces",
        "{\n    \"mcpServers\": {\n        \"other\": {\n            \"command\": \"x\"\n        }\n    },\n    \"history\": []\n}\n",
        "{\n    \"mcpServers\": {\n        \"other\": {\n            \"command\": \"x\"\n        },\n        \"plexus\": {\n            \"command\": \"/opt/plexus\",\n            \"args\": [\"mcp\", \"--as\", \"a b\"]\n        }\n    },\n    \"history\": []\n}\n",
        ("\"history\": []", "\"history\": [\"}\", \"{\"]"),
    ),
    changed(
        "tabs and CRLF",
        "{\r\n\t\"a\": 1\r\n}\r\n",
        "{\r\n\t\"a\": 1,\r\n\t\"mcpServers\": {\r\n\t\t\"plexus\": {\r\n\t\t\t\"command\": \"/opt/plexus\",\r\n\t\t\t\"args\": [\"mcp\", \"--as\", \"a b\"]\r\n\t\t}\r\n\t}\r\n}\r\n",
        ("\"a\": 1", "\"a\": 2"),
    ),
    changed(
        "byte order mark",
        "\u{feff}{\n  \"a\": 1\n}",
        "\u{feff}{\n  \"a\": 1,\n  \"mcpServers\": {\n    \"plexus\": {\n      \"command\": \"/opt/plexus\",\n      \"args\": [\"mcp\", \"--as\", \"a b\"]\n    }\n  }\n}",
        ("\"a\": 1", "\"a\": 2"),
    ),
    changed(
        "one line without spaces",
        "{\"a\":1,\"mcpServers\":{\"x\":{}}}",
        "{\"a\":1,\"mcpServers\":{\"x\":{},\"plexus\":{\"command\":\"/opt/plexus\",\"args\":[\"mcp\",\"--as\",\"a b\"]}}}",
        ("\"a\":1", "\"a\":2"),
    ),
    changed(
        "one line with spaces",
        "{\"a\": 1, \"mcpServers\": {}}\n",
        "{\"a\": 1, \"mcpServers\": {\"plexus\": {\"command\": \"/opt/plexus\", \"args\": [\"mcp\", \"--as\", \"a b\"]}}}\n",
        ("\"a\": 1", "\"a\": 2"),
    ),
    edit(
        "a duplicate key elsewhere",
        "{\n  \"a\": 1,\n  \"a\": 2\n}\n",
        "{\n  \"a\": 1,\n  \"a\": 2,\n  \"mcpServers\": {\n    \"plexus\": {\n      \"command\": \"/opt/plexus\",\n      \"args\": [\"mcp\", \"--as\", \"a b\"]\n    }\n  }\n}\n",
    ),
    edit(
        "numbers and escapes that are not rewritten",
        "{\n  \"big\": 12345678901234567890123,\n  \"e\": 1E400,\n  \"u\": \"\\u00e9\\/\"\n}\n",
        "{\n  \"big\": 12345678901234567890123,\n  \"e\": 1E400,\n  \"u\": \"\\u00e9\\/\",\n  \"mcpServers\": {\n    \"plexus\": {\n      \"command\": \"/opt/plexus\",\n      \"args\": [\"mcp\", \"--as\", \"a b\"]\n    }\n  }\n}\n",
    ),
    changed(
        "an existing entry",
        "{\n  \"mcpServers\": {\n    \"plexus\": { \"command\": \"old\", \"x\" :1 },\n    \"z\": {}\n  }\n}\n",
        "{\n  \"mcpServers\": {\n    \"plexus\": {\n      \"command\": \"/opt/plexus\",\n      \"args\": [\"mcp\", \"--as\", \"a b\"]\n    },\n    \"z\": {}\n  }\n}\n",
        ("\"z\": {}", "\"z\": {\"y\": 1}"),
    ),
    edit(
        "a key with an escape",
        "{\n  \"mcp\\u0053ervers\": {}\n}\n",
        "{\n  \"mcp\\u0053ervers\": {\n    \"plexus\": {\n      \"command\": \"/opt/plexus\",\n      \"args\": [\"mcp\", \"--as\", \"a b\"]\n    }\n  }\n}\n",
    ),
    refused(
        "duplicate servers",
        "{\n  \"mcpServers\": {},\n  \"mcpServers\": {}\n}\n",
        "has the key \"mcpServers\" twice in one object, again on line 3; remove one of them",
    ),
    refused(
        "a duplicate entry",
        "{\"mcpServers\": {\"plexus\": {},\n\"plexus\": {}}}",
        "has the key \"plexus\" twice in one object, again on line 2; remove one of them",
    ),
    refused(
        "a comment",
        "{\n  // mine\n  \"a\": 1\n}\n",
        "is not valid JSON: comments are not allowed on line 2, column 3",
    ),
    refused(
        "a trailing comma",
        "{\n  \"a\": 1,\n}\n",
        "is not valid JSON: trailing commas are not allowed on line 2, column 9",
    ),
    refused(
        "truncated",
        "{\n  \"a\": \"sk-secret",
        "is not valid JSON: unterminated string literal on line 2, column 8",
    ),
    refused("a list at the top level", "[]", "does not contain an object at the top level"),
    refused(
        "servers are a list",
        "{\n  \"mcpServers\": []\n}",
        "has a value other than an object for \"mcpServers\" on line 2",
    ),
    refused(
        "servers are null",
        "{\"mcpServers\": null}",
        "has a value other than an object for \"mcpServers\" on line 1",
    ),
    refused(
        "two objects",
        "{}\n{}",
        "is not valid JSON: text cannot contain more than one json value on line 2, column 1",
    ),
];

#[test]
fn edge_cases_are_edited_or_refused_exactly() {
    check(Syntax::Json, &["mcpServers", "plexus"], CASES);
}

#[test]
fn too_deep_nesting_is_refused_before_parsing() {
    for open in ["[", "{\"a\":"] {
        let text = format!("{{\"a\": {}", open.repeat(1 << 20));
        let error = Syntax::Json.value(&text).unwrap_err();
        assert_eq!(error.to_string(), "is nested deeper than 128 levels");
    }
}
