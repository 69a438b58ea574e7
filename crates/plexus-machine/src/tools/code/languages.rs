//! The languages of snippets, and their interpreters.

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
    /// JavaScript, run by Node.js: an ES module if a line begins with `import` or `export`, otherwise CommonJS.
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

    /// Interpreters, in order of preference.
    fn programs(self) -> &'static [&'static str] {
        match self {
            Self::Python => &["python3"],
            Self::Node => &["node", "nodejs"],
            Self::Shell => &["sh"],
        }
    }

    /// The file name of the code. It is next to the input files, so that it can import them.
    pub(super) fn script(self, code: &str) -> &'static str {
        match self {
            Self::Python => "main.py",
            Self::Node if is_module(code) => "main.mjs",
            Self::Node => "main.js",
            Self::Shell => "main.sh",
        }
    }

    /// Default variables: output is unbuffered, so that it is complete even if the program is killed, and no cache
    /// files are left next to the input files.
    pub(super) fn variables(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Python => &[("PYTHONUNBUFFERED", "1"), ("PYTHONDONTWRITEBYTECODE", "1")],
            Self::Node | Self::Shell => &[],
        }
    }

    /// The interpreter on this machine.
    pub(super) fn interpreter(self, environment: &Environment) -> Result<PathBuf, CallError> {
        self.find_interpreter(environment).ok_or_else(|| {
            let available =
                Self::ALL.into_iter().filter(|language| language.find_interpreter(environment).is_some());
            let available: Vec<&str> = available.map(Self::name).collect();
            let message = format!(
                "this machine cannot run {}: {} is not on the PATH of its node",
                self.name(),
                self.programs().join(" or ")
            );
            let hint = match available.is_empty() {
                true => "Nothing was run. This machine supports none of the languages; use another machine."
                    .to_owned(),
                false => format!(
                    "Nothing was run. Use another machine, or a language that this one supports: {}.",
                    available.join(", ")
                ),
            };
            CallError::new(ErrorCode::Unavailable, message).hint(hint).before_it_ran()
        })
    }

    fn find_interpreter(self, environment: &Environment) -> Option<PathBuf> {
        let path = environment.get_by_name("PATH").unwrap_or("/usr/local/bin:/usr/bin:/bin");
        let folders = || std::env::split_paths(path).filter(|folder| folder.is_absolute());
        let candidates =
            self.programs().iter().flat_map(|name| folders().map(move |folder| folder.join(name)));
        candidates.into_iter().find(|program| is_runnable(program))
    }
}

fn is_runnable(program: &Path) -> bool {
    fs_err::metadata(program).is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
}

/// Node.js decides by the file name how to load a file.
fn is_module(code: &str) -> bool {
    code.lines().any(|line| {
        let begins = |word: &str| {
            line.strip_prefix(word).is_some_and(|rest| rest.starts_with([' ', '{', '*', '"', '\'']))
        };
        begins("import") || begins("export")
    })
}

#[cfg(test)]
mod tests;
