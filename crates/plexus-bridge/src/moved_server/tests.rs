//! Removing and restoring a server, in each syntax.

use super::{remove_server, restore_server};
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
        let (remaining, moved) = remove_server(syntax, text, &[table], "a").unwrap().unwrap();
        let value = syntax.value(&remaining).unwrap();
        assert!(value[table].get("a").is_none() && value[table].get("b").is_some(), "{remaining}");
        let restored = restore_server(syntax, &remaining, &[table], &moved).unwrap();
        assert_eq!(syntax.value(&restored).unwrap(), before, "{restored}");
        assert!(restored.contains(written), "{restored}");
        // An existing server is not overwritten, and a missing one is not removed.
        assert_eq!(restore_server(syntax, text, &[table], &moved).unwrap(), text);
        assert!(remove_server(syntax, &remaining, &[table], "a").unwrap().is_none());
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
        let (remaining, moved) = remove_server(syntax, text, &[table], "a").unwrap().unwrap();
        let restored = restore_server(syntax, &remaining, &[table], &moved).unwrap();
        assert_eq!(
            syntax.value(&restored).unwrap(),
            syntax.value(text).unwrap(),
            "{remaining:?} {restored:?}"
        );
    }
}
