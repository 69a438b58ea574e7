//! The languages of snippets, and the programs that run them.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use plexus_kit::Environment;
use plexus_proto::ErrorCode;
use plexus_tools::CallError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Language {
    /// Python 3.
    Python,
    /// JavaScript, by Node.js. A module where a line begins with `import` or `export`, else with `require`.
    Node,
    /// A script for `sh`.
    Shell,
}

impl Language {
    const ALL: [Self; 3] = [Self::Python, Self::Node, Self::Shell];

    fn name(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::Node => "node",
            Self::Shell => "shell",
        }
    }

    /// Programs that run it, the best first.
    fn programs(self) -> &'static [&'static str] {
        match self {
            Self::Python => &["python3"],
            Self::Node => &["node", "nodejs"],
            Self::Shell => &["sh"],
        }
    }

    /// The file that the code is in. It lies beside the files that were given, so that it can import them.
    pub(super) fn script(self, code: &str) -> &'static str {
        match self {
            Self::Python => "main.py",
            Self::Node if is_module(code) => "main.mjs",
            Self::Node => "main.js",
            Self::Shell => "main.sh",
        }
    }

    /// Where nothing else is said: what is written is seen at once, also of one that is killed, and nothing is left
    /// beside the files that were asked for.
    pub(super) fn variables(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Python => &[("PYTHONUNBUFFERED", "1"), ("PYTHONDONTWRITEBYTECODE", "1")],
            Self::Node | Self::Shell => &[],
        }
    }

    /// The program that runs it on this machine.
    pub(super) fn interpreter(self, environment: &Environment) -> Result<PathBuf, CallError> {
        self.found(environment).ok_or_else(|| {
            let there = Self::ALL.into_iter().filter(|language| language.found(environment).is_some());
            let there: Vec<&str> = there.map(Self::name).collect();
            let message = format!(
                "this machine cannot run {}: there is no {} on the PATH of its node",
                self.name(),
                self.programs().join(" or ")
            );
            let hint = match there.is_empty() {
                true => "Nothing was run. It runs none of the languages; use another machine.".to_owned(),
                false => format!(
                    "Nothing was run. Use another machine, or what this one runs: {}.",
                    there.join(", ")
                ),
            };
            CallError::new(ErrorCode::Unavailable, message).hint(hint).before_it_ran()
        })
    }

    fn found(self, environment: &Environment) -> Option<PathBuf> {
        let path = environment.named("PATH").unwrap_or("/usr/local/bin:/usr/bin:/bin");
        let folders = || std::env::split_paths(path).filter(|folder| folder.is_absolute());
        let candidates =
            self.programs().iter().flat_map(|name| folders().map(move |folder| folder.join(name)));
        candidates.into_iter().find(|program| can_be_run(program))
    }
}

fn can_be_run(program: &Path) -> bool {
    fs_err::metadata(program).is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
}

/// Node.js decides by the name of a file what it is.
fn is_module(code: &str) -> bool {
    code.lines().any(|line| {
        let begins = |word: &str| {
            line.strip_prefix(word).is_some_and(|rest| rest.starts_with([' ', '{', '*', '"', '\'']))
        };
        begins("import") || begins("export")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_told_from_a_script() {
        for code in ["import fs from 'fs'", "import{a}from'b'", "// x\nexport default 1", "import 'x'"] {
            assert_eq!(Language::Node.script(code), "main.mjs", "{code}");
        }
        for code in ["const fs = require('fs')", "import('fs').then(f)", "important = 1", "  // import x"] {
            assert_eq!(Language::Node.script(code), "main.js", "{code}");
        }
    }

    #[test]
    fn what_is_missing_is_named_and_so_is_what_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("sh");
        std::fs::write(&program, "").unwrap();
        let environment: Environment =
            [("PATH".to_owned(), format!("relative:{}", folder.path().display()))].into_iter().collect();
        let refused = Language::Shell.interpreter(&environment).unwrap_err();
        assert!(
            refused.text().contains("none of the languages"),
            "it cannot be executed: {}",
            refused.text()
        );
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(Language::Shell.interpreter(&environment).unwrap(), program);
        let refused = Language::Python.interpreter(&environment).unwrap_err();
        assert!(
            refused.text().contains("no python3") && refused.text().contains("runs: shell."),
            "{}",
            refused.text()
        );
    }
}
