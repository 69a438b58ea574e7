//! JSON with comments and trailing commas, in every position.

use super::{Case, changed, check, edit, refused};
use crate::document::Syntax;

const CASES: &[Case] = &[
    edit(
        "empty",
        "",
        "{\n  \"mcp\": {\n    \"plexus\": {\n      \"command\": \"/opt/plexus\",\n      \"args\": [\"mcp\", \"--as\", \"a b\"]\n    }\n  }\n}\n",
    ),
    edit(
        "comments only",
        "// nothing yet\n/* really */\n",
        "// nothing yet\n/* really */\n{\n  \"mcp\": {\n    \"plexus\": {\n      \"command\": \"/opt/plexus\",\n      \"args\": [\"mcp\", \"--as\", \"a b\"]\n    }\n  }\n}\n",
    ),
    changed(
        "a trailing comma",
        "{\n  \"a\": 1,\n}\n",
        "{\n  \"a\": 1,\n  \"mcp\": {\n    \"plexus\": {\n      \"command\": \"/opt/plexus\",\n      \"args\": [\"mcp\", \"--as\", \"a b\"]\n    }\n  },\n}\n",
        ("\"a\": 1", "\"a\": 2"),
    ),
    changed(
        "a comment after the last value",
        "{\n  \"a\": 1 // one, {\n}\n",
        "{\n  \"a\": 1, // one, {\n  \"mcp\": {\n    \"plexus\": {\n      \"command\": \"/opt/plexus\",\n      \"args\": [\"mcp\", \"--as\", \"a b\"]\n    }\n  }\n}\n",
        ("// one, {", "// two, }"),
    ),
    changed(
        "a comment between value and comma",
        "{\n  \"a\": 1 /* one */ , // more\n  // end\n}\n",
        "{\n  \"a\": 1 /* one */ , // more\n  // end\n  \"mcp\": {\n    \"plexus\": {\n      \"command\": \"/opt/plexus\",\n      \"args\": [\"mcp\", \"--as\", \"a b\"]\n    }\n  },\n}\n",
        ("// end", "// the end"),
    ),
    changed(
        "an entry that is commented out",
        "{\n  \"mcp\": {\n    // \"plexus\": { \"command\": \"old\" },\n    \"x\": {}\n  }\n}\n",
        "{\n  \"mcp\": {\n    // \"plexus\": { \"command\": \"old\" },\n    \"x\": {},\n    \"plexus\": {\n      \"command\": \"/opt/plexus\",\n      \"args\": [\"mcp\", \"--as\", \"a b\"]\n    }\n  }\n}\n",
        ("\"x\": {}", "\"x\": { /* y */ }"),
    ),
    changed(
        "servers that contain a comment",
        "{\n  \"mcp\": {\n    // none\n  },\n  \"b\": 1\n}\n",
        "{\n  \"mcp\": {\n    // none\n    \"plexus\": {\n      \"command\": \"/opt/plexus\",\n      \"args\": [\"mcp\", \"--as\", \"a b\"]\n    }\n  },\n  \"b\": 1\n}\n",
        ("\"b\": 1", "\"b\": 2"),
    ),
    edit(
        "servers with a comment on their line",
        "{\n  \"mcp\": { /* none */ }\n}\n",
        "{\n  \"mcp\": { /* none */\n    \"plexus\": {\n      \"command\": \"/opt/plexus\",\n      \"args\": [\"mcp\", \"--as\", \"a b\"]\n    }\n   }\n}\n",
    ),
    changed(
        "a comment with a quote and an apostrophe",
        "{\n  // don't say \"{\n  \"a\": \"// no comment\"\n}\n",
        "{\n  // don't say \"{\n  \"a\": \"// no comment\",\n  \"mcp\": {\n    \"plexus\": {\n      \"command\": \"/opt/plexus\",\n      \"args\": [\"mcp\", \"--as\", \"a b\"]\n    }\n  }\n}\n",
        ("// no comment", "/* none */"),
    ),
    changed(
        "CRLF, a byte order mark and surrounding comments",
        "\u{feff}// top\r\n{\r\n    \"a\": 1, // one\r\n}\r\n// end\r\n",
        "\u{feff}// top\r\n{\r\n    \"a\": 1, // one\r\n    \"mcp\": {\r\n        \"plexus\": {\r\n            \"command\": \"/opt/plexus\",\r\n            \"args\": [\"mcp\", \"--as\", \"a b\"]\r\n        }\r\n    },\r\n}\r\n// end\r\n",
        ("// end", "// the end"),
    ),
    changed(
        "all on one line",
        "{ \"a\": 1, \"mcp\": { \"x\": {}, }, }",
        "{ \"a\": 1, \"mcp\": { \"x\": {}, \"plexus\": {\"command\": \"/opt/plexus\", \"args\": [\"mcp\", \"--as\", \"a b\"]}, }, }",
        ("\"a\": 1", "\"a\": 2"),
    ),
    changed(
        "a multi-line comment",
        "/*\n * Mine\n */\n{\n  \"a\": 1\n}\n",
        "/*\n * Mine\n */\n{\n  \"a\": 1,\n  \"mcp\": {\n    \"plexus\": {\n      \"command\": \"/opt/plexus\",\n      \"args\": [\"mcp\", \"--as\", \"a b\"]\n    }\n  }\n}\n",
        ("Mine", "Ours"),
    ),
    changed(
        "an existing entry with comments",
        "{\n  \"mcp\": {\n    \"plexus\": /* mine */ { \"command\": [] /* old */ } // why\n  }\n}\n",
        "{\n  \"mcp\": {\n    \"plexus\": /* mine */ {\n      \"command\": \"/opt/plexus\",\n      \"args\": [\"mcp\", \"--as\", \"a b\"]\n    } // why\n  }\n}\n",
        ("// why", "// because"),
    ),
    edit(
        "unknown keys of any kind",
        "{\n  \"$schema\": \"https://example.com/s.json\",\n  \"\": null, \"plexus\": [[{}]],\n  \"é\": \"\\ud83d\\ude00\"\n}\n",
        "{\n  \"$schema\": \"https://example.com/s.json\",\n  \"\": null, \"plexus\": [[{}]],\n  \"é\": \"\\ud83d\\ude00\",\n  \"mcp\": {\n    \"plexus\": {\n      \"command\": \"/opt/plexus\",\n      \"args\": [\"mcp\", \"--as\", \"a b\"]\n    }\n  }\n}\n",
    ),
    refused(
        "an unterminated comment",
        "{\n  \"a\": 1\n} /* end",
        "is not valid JSON: unterminated comment block on line 3, column 3",
    ),
    refused(
        "two commas",
        "{\n  \"a\": 1,,\n}",
        "is not valid JSON: unexpected token in object on line 2, column 10",
    ),
    refused(
        "single quotes",
        "{ 'a': 1 }",
        "is not valid JSON: single-quoted strings are not allowed on line 1, column 3",
    ),
    refused(
        "keys without quotes",
        "{ a: 1 }",
        "is not valid JSON: expected string for object property on line 1, column 3",
    ),
    refused(
        "a duplicate entry after a comment",
        "{\"mcp\": {\"plexus\": {}, // one\n\"plexus\": {}}}",
        "has the key \"plexus\" twice in one object, again on line 2; remove one of them",
    ),
    refused("text", "not json at all", "is not valid JSON: unexpected word on line 1, column 1"),
];

#[test]
fn edge_cases_are_edited_or_refused_exactly() {
    check(Syntax::Jsonc, &["mcp", "plexus"], CASES);
}
