//! The supported agents: how to detect them, and where and in which format they store servers and instructions.
//!
//! An agent is data. Its file format was verified with a real release, named by `tested`; an agent without one follows its
//! documentation, and users are informed that it is untested.

mod detect;
mod release;
mod table;
mod versions;

pub use detect::{Installed, detect, detect_all, present};
pub use release::Release;
pub use table::AGENTS;
pub use versions::Versions;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use plexus_kit::{Environment, env};
use serde_json::Value;

use crate::confined_path::ConfinedPath;
use crate::document::Syntax;
use crate::error::BridgeError;

#[derive(Debug)]
pub struct Agent {
    /// The name on the command line and of its token.
    pub id: &'static str,
    pub name: &'static str,
    pub aliases: &'static [&'static str],
    /// Its commands; the first one found is run to detect the version.
    pub programs: &'static [&'static str],
    /// How to recognize its version output, if other programs have the same name.
    pub version_output: VersionOutput,
    /// Where its files name the release, so it need not be run.
    pub releases: &'static [Release],
    /// Folders that it creates.
    pub folders: &'static [Location],
    pub user: Option<Servers>,
    pub project: Option<Servers>,
    /// The path of keys to the table of servers.
    pub keys: &'static [&'static str],
    /// One server, as JSON: `$program`, `$args` and `$words` (both in one list) stand for the command that starts it.
    pub entry: &'static str,
    pub user_text: Option<Instructions>,
    pub project_text: Option<Instructions>,
    /// The release whose files and commands are covered by tests.
    pub tested: Option<&'static str>,
    /// What the user must do before the agent uses the server.
    pub manual_step: Option<&'static str>,
    /// The same for a server of a project, if it differs.
    pub project_manual_step: Option<&'static str>,
}

/// How the output of `--version` distinguishes an agent from another program of the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionOutput {
    Any,
    /// The output contains this text.
    Contains(&'static str),
    /// The output is only a version.
    OnlyVersion,
}

/// A file with servers: the first existing one, else the first that may be created.
#[derive(Debug)]
pub struct Servers {
    pub files: &'static [Location],
    pub syntax: Syntax,
}

/// A file with instructions.
#[derive(Debug)]
pub struct Instructions {
    /// The first existing one, else the first that may be created, in the agent's order of precedence.
    pub files: &'static [Location],
    pub format: InstructionFormat,
    /// The most characters that it reads, if documented.
    pub max_chars: Option<usize>,
}

/// The form of instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstructionFormat {
    /// A block in a file of the user.
    Block,
    /// A separate file, with the front matter that the agent requires.
    Own { front: &'static str },
}

#[derive(Debug, Clone, Copy)]
pub struct Location {
    pub root: Root,
    pub below: &'static str,
    /// Edited if it exists but never created: a new file would shadow others.
    pub existing_only: bool,
}

/// The root of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Root {
    Home,
    /// `$XDG_CONFIG_HOME`, else `~/.config`.
    Config,
    /// The same, but on macOS `~/Library/Application Support`.
    Support,
    /// A variable of the agent, else a folder in the home.
    Variable {
        name: &'static str,
        home: &'static str,
    },
    Project,
}

/// The scope of files: the user or a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    User,
    Project(PathBuf),
}

impl Agent {
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        AGENTS.iter().find(|agent| agent.id == name || agent.aliases.contains(&name))
    }

    #[must_use]
    pub fn servers(&self, scope: &Scope) -> Option<&Servers> {
        match scope {
            Scope::User => self.user.as_ref(),
            Scope::Project(_) => self.project.as_ref(),
        }
    }

    /// What the user must do before the agent uses a server of this scope.
    #[must_use]
    pub fn manual_step(&self, scope: &Scope) -> Option<&'static str> {
        match scope {
            Scope::Project(_) => self.project_manual_step.or(self.manual_step),
            Scope::User => self.manual_step,
        }
    }

    #[must_use]
    pub fn instructions(&self, scope: &Scope) -> Option<&Instructions> {
        match scope {
            Scope::User => self.user_text.as_ref(),
            Scope::Project(_) => self.project_text.as_ref(),
        }
    }

    /// All its files that may be written.
    pub(crate) fn writable_paths(&self, environment: &Environment, scope: &Scope) -> Vec<ConfinedPath> {
        let servers = self.servers(scope).map_or(&[][..], |servers| servers.files);
        let texts = self.instructions(scope).map_or(&[][..], |texts| texts.files);
        let files = servers.iter().chain(texts);
        files.filter_map(|file| file.place(environment, scope)?.ok()).collect()
    }

    /// The entry that makes it start this program.
    #[must_use]
    pub fn entry(&self, program: &str, args: &[String]) -> Value {
        fn filled(value: Value, program: &str, args: &[String]) -> Value {
            match value {
                Value::String(text) if text == "$program" => program.into(),
                Value::String(text) if text == "$args" => args.into(),
                Value::String(text) if text == "$words" => {
                    std::iter::once(program).chain(args.iter().map(String::as_str)).collect()
                }
                Value::Object(fields) => {
                    fields.into_iter().map(|(key, value)| (key, filled(value, program, args))).collect()
                }
                other => other,
            }
        }
        // A test reads all of them.
        filled(serde_json::from_str(self.entry).unwrap_or_default(), program, args)
    }
}

impl Location {
    /// The allowed folder and the path below it; none if the environment does not locate it.
    fn split(&self, environment: &Environment, scope: &Scope) -> Option<(PathBuf, PathBuf)> {
        let home = || environment.get(env::HOME).map(PathBuf::from).filter(|home| home.is_absolute());
        let named =
            |name: &str| environment.get_by_name(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let in_home = |folder: &str| home().map(|home| (home, Path::new(folder).join(self.below)));
        let own = |folder: PathBuf| Some((folder, PathBuf::from(self.below)));
        match (self.root, scope) {
            (Root::Home, _) => in_home(""),
            (Root::Support, _) if cfg!(target_os = "macos") => in_home("Library/Application Support"),
            (Root::Config | Root::Support, _) => {
                named(env::XDG_CONFIG_HOME.name).map_or_else(|| in_home(".config"), own)
            }
            (Root::Variable { name, home }, _) => named(name).map_or_else(|| in_home(home), own),
            (Root::Project, Scope::Project(folder)) => own(folder.clone()),
            (Root::Project, Scope::User) => None,
        }
    }

    pub(crate) fn path(&self, environment: &Environment, scope: &Scope) -> Option<PathBuf> {
        self.split(environment, scope).map(|(root, below)| root.join(below))
    }

    fn place(&self, environment: &Environment, scope: &Scope) -> Option<Result<ConfinedPath, BridgeError>> {
        let (root, below) = self.split(environment, scope)?;
        Some(ConfinedPath::new(&root, &below, *scope != Scope::User))
    }
}

/// Whether a variable locates files of agents.
pub(crate) fn is_variable(name: &str) -> bool {
    let of_agents = || {
        let servers = AGENTS.iter().flat_map(|agent| [&agent.user, &agent.project]).flatten();
        let texts = AGENTS.iter().flat_map(|agent| [&agent.user_text, &agent.project_text]).flatten();
        servers.map(|servers| servers.files).chain(texts.map(|texts| texts.files)).flatten()
    };
    let is_root = |file: &Location| matches!(file.root, Root::Variable { name: root, .. } if root == name);
    [env::HOME.name, env::XDG_CONFIG_HOME.name].contains(&name) || of_agents().any(is_root)
}

/// All variables that locate files of agents.
#[must_use]
pub fn variables(environment: &Environment) -> BTreeMap<String, String> {
    let said = environment.all().filter(|(name, value)| is_variable(name) && !value.is_empty());
    said.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// The effective one of these files.
pub(crate) fn choose(
    files: &[Location],
    environment: &Environment,
    scope: &Scope,
) -> Result<Option<ConfinedPath>, BridgeError> {
    let is_there =
        |file: &&Location| file.path(environment, scope).is_some_and(|path| path.symlink_metadata().is_ok());
    let file = files.iter().find(is_there).or_else(|| files.iter().find(|file| !file.existing_only));
    file.and_then(|file| file.place(environment, scope)).transpose()
}

#[cfg(test)]
mod tests;
