//! Out and in again, in each syntax.

use super::{put_back, take_out};
use crate::document::Syntax;

const TOML: &str = "model = \"o9\"\n\n# Of mine.\n[mcp_servers.a]\ncommand = \"a\" # here\nargs = [ 'x' ]\n\n\
                    [mcp_servers.a.env]\nKEY = \"s3cret\"\n\n[mcp_servers.b]\ncommand = \"b\"\n";
const JSON: &str = "{\n  // Of mine.\n  \"mcpServers\": {\n    \"a\": { \"command\":\"a\",  \"args\": [\n \"x\" ] },\n    \
                    \"b\": {\"command\": \"b\"}\n  },\n  \"k\": 1\n}\n";
const YAML: &str = "extensions:\n  a:\n    type: stdio\n    cmd: 'a'   # here\n    args:\n    - x\n  b:\n    type: stdio\n    \
                    cmd: b\nother: 1\n";

#[test]
fn a_server_that_is_moved_out_comes_back_with_its_value_and_as_it_was_written() {
    for (syntax, table, text, written) in [
        (Syntax::Toml, "mcp_servers", TOML, "command = \"a\" # here\nargs = [ 'x' ]\n"),
        (Syntax::Jsonc, "mcpServers", JSON, "{ \"command\":\"a\",  \"args\": [\n \"x\" ] }"),
        (Syntax::Yaml, "extensions", YAML, "a"),
    ] {
        let before = syntax.value(text).unwrap();
        let (left, moved) = take_out(syntax, text, &[table], "a").unwrap().unwrap();
        let value = syntax.value(&left).unwrap();
        assert!(value[table].get("a").is_none() && value[table].get("b").is_some(), "{left}");
        let back = put_back(syntax, &left, &[table], &moved).unwrap();
        assert_eq!(syntax.value(&back).unwrap(), before, "{back}");
        assert!(back.contains(written), "{back}");
        // One that is there again is not overwritten, and one that is not there is not taken out.
        assert_eq!(put_back(syntax, text, &[table], &moved).unwrap(), text);
        assert!(take_out(syntax, &left, &[table], "a").unwrap().is_none());
        assert!(!format!("{moved:?}").contains("cret"));
    }
}

#[test]
fn the_last_server_can_be_moved_out_too() {
    for (syntax, table, text) in [
        (Syntax::Toml, "mcp_servers", "[mcp_servers.a]\ncommand = \"a\"\n"),
        (Syntax::Json, "mcpServers", "{\"mcpServers\": {\"a\": {\"command\": \"a\"}}}"),
        (Syntax::Yaml, "extensions", "extensions:\n  a:\n    type: stdio\n    cmd: a\n"),
    ] {
        let (left, moved) = take_out(syntax, text, &[table], "a").unwrap().unwrap();
        let back = put_back(syntax, &left, &[table], &moved).unwrap();
        assert_eq!(syntax.value(&back).unwrap(), syntax.value(text).unwrap(), "{left:?} {back:?}");
    }
}
