//! JSON with comments and commas at the end, wherever they may stand.

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
        "a comma at the end",
        "{\n  \"a\": 1,\n}\n",
        "{\n  \"a\": 1,\n  \"mcp\": {\n    \"plexus\": {\n      \"command\": \"/opt/plexus\",\n      \"args\": [\"mcp\", \"--as\", \"a b\"]\n    }\n  },\n}\n",
        ("\"a\": 1", "\"a\": 2"),
    ),
    changed(
        "a comment behind the last one",
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
        "an entry that was put out of use",
        "{\n  \"mcp\": {\n    // \"plexus\": { \"command\": \"old\" },\n    \"x\": {}\n  }\n}\n",
        "{\n  \"mcp\": {\n    // \"plexus\": { \"command\": \"old\" },\n    \"x\": {},\n    \"plexus\": {\n      \"command\": \"/opt/plexus\",\n      \"args\": [\"mcp\", \"--as\", \"a b\"]\n    }\n  }\n}\n",
        ("\"x\": {}", "\"x\": { /* y */ }"),
    ),
    changed(
        "servers with a comment in them",
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
        "CRLF, a byte order mark and comments around",
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
        "a comment of several lines",
        "/*\n * Mine\n */\n{\n  \"a\": 1\n}\n",
        "/*\n * Mine\n */\n{\n  \"a\": 1,\n  \"mcp\": {\n    \"plexus\": {\n      \"command\": \"/opt/plexus\",\n      \"args\": [\"mcp\", \"--as\", \"a b\"]\n    }\n  }\n}\n",
        ("Mine", "Ours"),
    ),
    changed(
        "the entry is there with comments",
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
        "a comment without an end",
        "{\n  \"a\": 1\n} /* end",
        "is not valid JSON: unterminated comment block on line 3, column 3",
    ),
    refused(
        "two commas",
        "{\n  \"a\": 1,,\n}",
        "is not valid JSON: unexpected token in object on line 2, column 10",
    ),
    refused(
        "quotes that are none",
        "{ 'a': 1 }",
        "is not valid JSON: single-quoted strings are not allowed on line 1, column 3",
    ),
    refused(
        "keys without quotes",
        "{ a: 1 }",
        "is not valid JSON: expected string for object property on line 1, column 3",
    ),
    refused(
        "the entry twice, once in a comment's shadow",
        "{\"mcp\": {\"plexus\": {}, // one\n\"plexus\": {}}}",
        "has the key \"plexus\" twice in one object, again on line 2; remove one of them",
    ),
    refused("text", "not json at all", "is not valid JSON: unexpected word on line 1, column 1"),
];

#[test]
fn awkward_files() {
    check(Syntax::Jsonc, &["mcp", "plexus"], CASES);
}
