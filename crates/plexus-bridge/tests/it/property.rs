//! Files of any layout on disk are restored by connecting and disconnecting.

use plexus_bridge::ConflictPolicy;
use plexus_bridge::agents::Scope;
use proptest::prelude::*;

use crate::home::{Home, PROGRAM, content};

/// An agent of each format: its file, lines that the file may contain, and the text around them.
struct Format {
    agent: &'static str,
    file: &'static str,
    lines: &'static [&'static str],
    open: &'static str,
    close: &'static str,
    comma: &'static str,
}

const FORMATS: [Format; 4] = [
    Format {
        agent: "codex",
        file: ".codex/config.toml",
        lines: &[
            "# a remark",
            "a = 1",
            "  b = \"x\"  # why",
            "",
            "c.d = [1,\n  2]",
            "[t]",
            "k = { x = 1 }",
            "[[l]]",
            "\"é\" = '''\n[x]\n'''",
            "[mcp_servers.other]",
            "command = \"y\"",
            "[mcp_servers]",
            "[mcp_servers.other.env]",
        ],
        open: "",
        close: "",
        comma: "",
    },
    Format {
        agent: "claude-code",
        file: ".claude.json",
        lines: &[
            "\"a\": 1",
            "  \"b\": [ {} ]",
            "\"é\" : \"\\u00e9\"",
            "\"mcpServers\": {}",
            "\"mcpServers\": { \"x\": {} }",
            "\"c\": {\n}",
        ],
        open: "{",
        close: "}",
        comma: ",",
    },
    Format {
        agent: "cursor",
        file: ".cursor/mcp.json",
        lines: &[
            "\"a\": 1 // why",
            "/* b */ \"b\": [ {}, ]",
            "\"é\" : \"\\u00e9\"",
            "\"mcpServers\": {}",
            "\"mcpServers\": { \"x\": {}, }",
            "// \"mcpServers\": {}\n\"d\": null",
            "\"c\": {\n} /* , */",
        ],
        open: "// top\n{",
        close: "}",
        comma: ",",
    },
    Format {
        agent: "goose",
        file: ".config/goose/config.yaml",
        lines: &[
            "# a remark",
            "a: 1",
            "b: \"x\"  # why",
            "",
            "c:\n- 1\n- x: 2",
            "d: {e: [1]}",
            "\"é\": |\n  extensions:\n",
            "extensions:",
            "extensions:\n  dev:\n    enabled: true",
            "extensions: {}",
            "extensions: {dev: {}}",
        ],
        open: "",
        close: "",
        comma: "",
    },
];

#[derive(Debug, Clone)]
struct File {
    format: usize,
    text: String,
    /// Whether a line is added at the top while the agent is connected.
    adds_first_line: bool,
}

fn file() -> impl Strategy<Value = File> {
    let lines = prop::collection::vec(any::<prop::sample::Index>(), 0..6);
    (0..FORMATS.len(), lines, any::<[bool; 5]>()).prop_map(|(format, lines, flags)| {
        let agent_format = &FORMATS[format];
        let lines: Vec<&str> =
            lines.iter().map(|line| agent_format.lines[line.index(agent_format.lines.len())]).collect();
        let comma = if flags[0] {
            format!("{}\n", agent_format.comma)
        } else {
            format!("{}\n\n", agent_format.comma)
        };
        let trailing = if agent_format.agent == "cursor" && flags[1] && !lines.is_empty() { "," } else { "" };
        let end = if flags[2] { "\n" } else { "" };
        let mut text =
            format!("{}\n{}{trailing}\n{}{end}", agent_format.open, lines.join(&comma), agent_format.close);
        if flags[3] {
            text = text.replace('\n', "\r\n");
        }
        File { format, text, adds_first_line: flags[4] }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn disconnecting_undoes_connecting(file in file(), rules in prop::option::of("[ -~\n\r]{0,40}")) {
        let home = Home::new();
        let agent_format = &FORMATS[file.format];
        home.write(agent_format.file, &file.text);
        let rules_file = match agent_format.agent {
            "codex" => ".codex/AGENTS.md",
            "claude-code" => ".claude/CLAUDE.md",
            _ => ".config/goose/.goosehints",
        };
        if let Some(rules) = &rules {
            home.write(rules_file, rules);
        }
        let before = home.tree();
        let connected = home.connect(agent_format.agent, &Scope::User, Some(&content("Be kind.")), ConflictPolicy::Skip);
        let text = home.read(agent_format.file);
        if connected.is_err() {
            prop_assert_eq!(&text, &file.text);
        } else {
            prop_assert!(text.contains(PROGRAM));
        }
        let top = match agent_format.agent {
            "cursor" => "// new\n",
            "claude-code" => "\n",
            _ => "# new\n",
        };
        let mut expected = before;
        if file.adds_first_line {
            home.write(agent_format.file, format!("{top}{text}"));
            let theirs = expected.get_mut(agent_format.file).and_then(Option::as_mut).unwrap();
            theirs.1 = format!("{top}{}", file.text).into_bytes();
        }
        home.disconnect(agent_format.agent, ConflictPolicy::Skip).unwrap();
        prop_assert_eq!(home.tree(), expected, "{} by way of {}", file.text, text);
    }
}
