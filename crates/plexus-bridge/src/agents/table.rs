//! The table of agents. Sources: their documentation and code; if these differ, the behavior of a release.

use super::{
    Agent, InstructionFiles, InstructionFormat, Location, ReleaseSource, Root, ServerFiles, VersionOutput,
};
use crate::document::Syntax;

const fn at(root: Root, relative_path: &'static str) -> Location {
    Location { root, relative_path, existing_only: false }
}

/// Used if it exists, but never created.
const fn existing_only(location: Location) -> Location {
    Location { existing_only: true, ..location }
}

const fn home(relative_path: &'static str) -> Location {
    at(Root::Home, relative_path)
}

const fn config(relative_path: &'static str) -> Location {
    at(Root::Config, relative_path)
}

const fn project(relative_path: &'static str) -> Location {
    at(Root::Project, relative_path)
}

const fn block(files: &'static [Location]) -> Option<InstructionFiles> {
    Some(InstructionFiles { files, format: InstructionFormat::Block, max_chars: None })
}

const fn own_file(files: &'static [Location], front_matter: &'static str) -> Option<InstructionFiles> {
    Some(InstructionFiles { files, format: InstructionFormat::OwnFile { front_matter }, max_chars: None })
}

const fn servers(files: &'static [Location], syntax: Syntax) -> Option<ServerFiles> {
    Some(ServerFiles { files, syntax })
}

const CODEX: Root = Root::Variable { name: "CODEX_HOME", home: ".codex" };
const CLAUDE: Root = Root::Variable { name: "CLAUDE_CONFIG_DIR", home: ".claude" };
/// Without the variable, the file is not in the agent's folder.
const CLAUDE_FILE: Root = Root::Variable { name: "CLAUDE_CONFIG_DIR", home: "" };
/// Stands for the home folder itself.
const GEMINI: Root = Root::Variable { name: "GEMINI_CLI_HOME", home: "" };

const PLAIN: &str = r#"{"command": "$program", "args": "$args"}"#;
const TYPED: &str = r#"{"type": "stdio", "command": "$program", "args": "$args"}"#;

pub const AGENTS: &[Agent] = &[
    Agent {
        id: "codex",
        name: "Codex",
        aliases: &[],
        programs: &["codex"],
        version_output: VersionOutput::Contains("codex"),
        releases: &[ReleaseSource::Package("@openai/codex")],
        folders: &[at(CODEX, "")],
        user: servers(&[at(CODEX, "config.toml")], Syntax::Toml),
        project: servers(&[project(".codex/config.toml")], Syntax::Toml),
        keys: &["mcp_servers"],
        entry: PLAIN,
        // The override file shadows the other.
        user_instructions: block(&[existing_only(at(CODEX, "AGENTS.override.md")), at(CODEX, "AGENTS.md")]),
        // It reads 32 KiB of all project files together.
        project_instructions: Some(InstructionFiles {
            files: &[existing_only(project("AGENTS.override.md")), project("AGENTS.md")],
            format: InstructionFormat::Block,
            max_chars: Some(16 << 10),
        }),
        tested: Some("0.166.0"),
        manual_step: None,
        project_manual_step: Some(
            "it reads the file only in projects that you trust, and asks when it is started there",
        ),
    },
    Agent {
        id: "claude-code",
        name: "Claude Code",
        aliases: &["claude"],
        programs: &["claude"],
        version_output: VersionOutput::Contains("Claude Code"),
        releases: &[
            ReleaseSource::Package("@anthropic-ai/claude-code"),
            ReleaseSource::PathComponent(["claude", "versions"]),
        ],
        folders: &[at(CLAUDE, "")],
        user: servers(&[at(CLAUDE_FILE, ".claude.json")], Syntax::Json),
        project: servers(&[project(".mcp.json")], Syntax::Json),
        keys: &["mcpServers"],
        entry: TYPED,
        user_instructions: block(&[at(CLAUDE, "CLAUDE.md")]),
        // Without a file of its own it reads files of others, which a new file would shadow.
        project_instructions: block(&[
            project("CLAUDE.md"),
            existing_only(project(".claude/CLAUDE.md")),
            existing_only(project("CLAUDE.local.md")),
            existing_only(project("AGENTS.md")),
        ]),
        tested: Some("2.1.325"),
        manual_step: None,
        project_manual_step: Some("it asks whether you approve the server when it is started there"),
    },
    Agent {
        id: "cursor",
        name: "Cursor",
        aliases: &["cursor-agent"],
        programs: &["cursor", "cursor-agent"],
        version_output: VersionOutput::Any,
        releases: &[
            ReleaseSource::Package("Cursor"),
            ReleaseSource::PathComponent(["cursor-agent", "versions"]),
        ],
        folders: &[home(".cursor")],
        user: servers(&[home(".cursor/mcp.json")], Syntax::Jsonc),
        project: servers(&[project(".cursor/mcp.json")], Syntax::Jsonc),
        keys: &["mcpServers"],
        entry: PLAIN,
        // Rules for all projects are in its settings, not in a file.
        user_instructions: None,
        project_instructions: own_file(
            &[project(".cursor/rules/plexus.mdc")],
            "---\ndescription: Kept by Plexus\nalwaysApply: true\n---\n",
        ),
        tested: None,
        manual_step: Some(
            "switch the server on in its settings (MCP), or run `cursor-agent mcp enable plexus`",
        ),
        project_manual_step: None,
    },
    Agent {
        id: "opencode",
        name: "OpenCode",
        aliases: &[],
        programs: &["opencode"],
        version_output: VersionOutput::OnlyVersion,
        releases: &[ReleaseSource::Package("opencode-ai")],
        folders: &[config("opencode")],
        // It reads both; the later one wins and is the one that it creates itself.
        user: servers(
            &[config("opencode/opencode.jsonc"), existing_only(config("opencode/opencode.json"))],
            Syntax::Jsonc,
        ),
        project: servers(
            &[project("opencode.jsonc"), existing_only(project("opencode.json"))],
            Syntax::Jsonc,
        ),
        keys: &["mcp"],
        entry: r#"{"type": "local", "command": "$words", "enabled": true}"#,
        // Without the first it reads the file of Claude Code, which a new file would shadow.
        user_instructions: block(&[config("opencode/AGENTS.md"), existing_only(at(CLAUDE, "CLAUDE.md"))]),
        project_instructions: block(&[project("AGENTS.md"), existing_only(project("CLAUDE.md"))]),
        tested: Some("1.18.33"),
        manual_step: None,
        project_manual_step: None,
    },
    Agent {
        id: "gemini",
        name: "Gemini CLI",
        aliases: &["gemini-cli"],
        programs: &["gemini"],
        version_output: VersionOutput::OnlyVersion,
        releases: &[ReleaseSource::Package("@google/gemini-cli")],
        folders: &[at(GEMINI, ".gemini")],
        // It accepts comments but not trailing commas; it cannot read a file with one, with or without the entry.
        user: servers(&[at(GEMINI, ".gemini/settings.json")], Syntax::Jsonc),
        project: servers(&[project(".gemini/settings.json")], Syntax::Jsonc),
        keys: &["mcpServers"],
        entry: PLAIN,
        user_instructions: block(&[at(GEMINI, ".gemini/GEMINI.md")]),
        project_instructions: block(&[project("GEMINI.md")]),
        tested: Some("0.61.0"),
        manual_step: Some(
            "it uses servers only in folders that you trust, and asks when it is started there",
        ),
        project_manual_step: None,
    },
    Agent {
        id: "vscode",
        name: "VS Code",
        aliases: &["code", "copilot"],
        // Other builds and forks have their own folders.
        programs: &["code"],
        version_output: VersionOutput::Any,
        releases: &[ReleaseSource::Package("Code")],
        folders: &[at(Root::Support, "Code/User")],
        user: servers(&[at(Root::Support, "Code/User/mcp.json")], Syntax::Jsonc),
        project: servers(&[project(".vscode/mcp.json")], Syntax::Jsonc),
        keys: &["servers"],
        entry: TYPED,
        user_instructions: own_file(
            &[home(".copilot/instructions/plexus.instructions.md")],
            "---\nname: Plexus\ndescription: Kept by Plexus\napplyTo: \"**\"\n---\n",
        ),
        project_instructions: own_file(
            &[project(".github/instructions/plexus.instructions.md")],
            "---\nname: Plexus\ndescription: Kept by Plexus\napplyTo: \"**\"\n---\n",
        ),
        tested: None,
        manual_step: Some("it asks whether you trust the server when it is first started"),
        project_manual_step: None,
    },
    Agent {
        id: "windsurf",
        name: "Windsurf",
        aliases: &[],
        programs: &["windsurf"],
        version_output: VersionOutput::Any,
        releases: &[],
        folders: &[home(".codeium/windsurf")],
        user: servers(&[home(".codeium/windsurf/mcp_config.json")], Syntax::Json),
        project: None,
        keys: &["mcpServers"],
        entry: PLAIN,
        user_instructions: Some(InstructionFiles {
            files: &[home(".codeium/windsurf/memories/global_rules.md")],
            format: InstructionFormat::Block,
            max_chars: Some(6_000),
        }),
        project_instructions: Some(InstructionFiles {
            files: &[project(".windsurf/rules/plexus.md")],
            format: InstructionFormat::OwnFile { front_matter: "---\ntrigger: always_on\n---\n" },
            max_chars: Some(12_000),
        }),
        tested: None,
        manual_step: Some("refresh the servers in its settings"),
        project_manual_step: None,
    },
    Agent {
        id: "zed",
        name: "Zed",
        aliases: &[],
        programs: &["zed", "zeditor", "zedit", "zed-editor"],
        // A file system daemon has the same name.
        version_output: VersionOutput::Contains("Zed"),
        releases: &[],
        folders: &[config("zed")],
        user: servers(&[config("zed/settings.json")], Syntax::Jsonc),
        project: servers(&[project(".zed/settings.json")], Syntax::Jsonc),
        keys: &["context_servers"],
        entry: PLAIN,
        user_instructions: block(&[config("zed/AGENTS.md")]),
        // It reads only the first of these, so none is created that would shadow another.
        project_instructions: block(&[
            existing_only(project(".rules")),
            existing_only(project(".cursorrules")),
            existing_only(project(".windsurfrules")),
            existing_only(project(".clinerules")),
            existing_only(project(".github/copilot-instructions.md")),
            existing_only(project("AGENT.md")),
            project("AGENTS.md"),
            existing_only(project("CLAUDE.md")),
            existing_only(project("GEMINI.md")),
        ]),
        tested: None,
        manual_step: None,
        project_manual_step: None,
    },
    Agent {
        id: "goose",
        name: "Goose",
        aliases: &[],
        programs: &["goose"],
        version_output: VersionOutput::OnlyVersion,
        releases: &[],
        folders: &[config("goose")],
        user: servers(&[config("goose/config.yaml")], Syntax::Yaml),
        project: None,
        keys: &["extensions"],
        entry: r#"{"name": "plexus", "type": "stdio", "cmd": "$program", "args": "$args", "enabled": true, "timeout": 300}"#,
        user_instructions: block(&[config("goose/.goosehints")]),
        // It also reads its own `.goosehints`; this file is shared by many agents.
        project_instructions: block(&[project("AGENTS.md")]),
        tested: Some("1.52.0"),
        manual_step: None,
        project_manual_step: None,
    },
];
