//! The supported agents: how to detect them, and where and in which format they store servers and instructions.
//!
//! An agent is data. Its file format was verified with a real release, named by `tested`; an agent without one
//! follows its documentation, and users are informed that it is untested.

mod detect;
mod release;
mod table;
mod versions;

pub use detect::{InstalledAgent, detect, detect_all, is_present};
pub use release::ReleaseSource;
pub use table::AGENTS;
pub use versions::VersionCache;

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
    pub releases: &'static [ReleaseSource],
    /// Folders that it creates.
    pub folders: &'static [Location],
    pub user: Option<ServerFiles>,
    pub project: Option<ServerFiles>,
    /// The path of keys to the table of servers.
    pub keys: &'static [&'static str],
    /// One server, as JSON: `$program`, `$args` and `$words` (both in one list) stand for the command that starts it.
    pub entry: &'static str,
    pub user_instructions: Option<InstructionFiles>,
    pub project_instructions: Option<InstructionFiles>,
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
pub struct ServerFiles {
    pub files: &'static [Location],
    pub syntax: Syntax,
}

/// A file with instructions.
#[derive(Debug)]
pub struct InstructionFiles {
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
    OwnFile { front_matter: &'static str },
}

#[derive(Debug, Clone, Copy)]
pub struct Location {
    pub root: Root,
    pub relative_path: &'static str,
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
    pub fn by_name(name: &str) -> Option<&'static Self> {
        AGENTS.iter().find(|agent| agent.id == name || agent.aliases.contains(&name))
    }

    #[must_use]
    pub fn servers(&self, scope: &Scope) -> Option<&ServerFiles> {
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
    pub fn instructions(&self, scope: &Scope) -> Option<&InstructionFiles> {
        match scope {
            Scope::User => self.user_instructions.as_ref(),
            Scope::Project(_) => self.project_instructions.as_ref(),
        }
    }

    /// All its files that may be written.
    pub(crate) fn writable_paths(&self, environment: &Environment, scope: &Scope) -> Vec<ConfinedPath> {
        let servers = self.servers(scope).map_or(&[][..], |servers| servers.files);
        let texts = self.instructions(scope).map_or(&[][..], |texts| texts.files);
        let files = servers.iter().chain(texts);
        files.filter_map(|file| file.confined_path(environment, scope)?.ok()).collect()
    }

    /// The entry that makes it start this program.
    #[must_use]
    pub fn entry(&self, program: &str, args: &[String]) -> Value {
        fn substitute(value: Value, program: &str, args: &[String]) -> Value {
            match value {
                Value::String(text) if text == "$program" => program.into(),
                Value::String(text) if text == "$args" => args.into(),
                Value::String(text) if text == "$words" => {
                    std::iter::once(program).chain(args.iter().map(String::as_str)).collect()
                }
                Value::Object(fields) => {
                    fields.into_iter().map(|(key, value)| (key, substitute(value, program, args))).collect()
                }
                other => other,
            }
        }
        // A test reads all of them.
        substitute(serde_json::from_str(self.entry).unwrap_or_default(), program, args)
    }
}

impl Location {
    /// The allowed folder and the path below it; none if the environment does not locate it.
    fn split(&self, environment: &Environment, scope: &Scope) -> Option<(PathBuf, PathBuf)> {
        let home = || environment.get(env::HOME).map(PathBuf::from).filter(|home| home.is_absolute());
        let named =
            |name: &str| environment.get_by_name(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let in_home = |folder: &str| home().map(|home| (home, Path::new(folder).join(self.relative_path)));
        let in_folder = |folder: PathBuf| Some((folder, PathBuf::from(self.relative_path)));
        match (self.root, scope) {
            (Root::Home, _) => in_home(""),
            (Root::Support, _) if cfg!(target_os = "macos") => in_home("Library/Application Support"),
            (Root::Config | Root::Support, _) => {
                named(env::XDG_CONFIG_HOME.name).map_or_else(|| in_home(".config"), in_folder)
            }
            (Root::Variable { name, home }, _) => named(name).map_or_else(|| in_home(home), in_folder),
            (Root::Project, Scope::Project(folder)) => in_folder(folder.clone()),
            (Root::Project, Scope::User) => None,
        }
    }

    pub(crate) fn path(&self, environment: &Environment, scope: &Scope) -> Option<PathBuf> {
        self.split(environment, scope).map(|(root, relative_path)| root.join(relative_path))
    }

    fn confined_path(
        &self,
        environment: &Environment,
        scope: &Scope,
    ) -> Option<Result<ConfinedPath, BridgeError>> {
        let (root, relative_path) = self.split(environment, scope)?;
        Some(ConfinedPath::new(&root, &relative_path, *scope != Scope::User))
    }
}

/// Whether a variable locates files of agents.
pub(crate) fn is_location_variable(name: &str) -> bool {
    let agent_files = || {
        let servers = AGENTS.iter().flat_map(|agent| [&agent.user, &agent.project]).flatten();
        let texts =
            AGENTS.iter().flat_map(|agent| [&agent.user_instructions, &agent.project_instructions]).flatten();
        servers.map(|servers| servers.files).chain(texts.map(|texts| texts.files)).flatten()
    };
    let is_root = |file: &Location| matches!(file.root, Root::Variable { name: root, .. } if root == name);
    [env::HOME.name, env::XDG_CONFIG_HOME.name].contains(&name) || agent_files().any(is_root)
}

/// All variables that locate files of agents.
#[must_use]
pub fn location_variables(environment: &Environment) -> BTreeMap<String, String> {
    let variables = environment.all().filter(|(name, value)| is_location_variable(name) && !value.is_empty());
    variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// The effective one of these files.
pub(crate) fn choose_file(
    files: &[Location],
    environment: &Environment,
    scope: &Scope,
) -> Result<Option<ConfinedPath>, BridgeError> {
    let exists =
        |file: &&Location| file.path(environment, scope).is_some_and(|path| path.symlink_metadata().is_ok());
    let file = files.iter().find(exists).or_else(|| files.iter().find(|file| !file.existing_only));
    file.and_then(|file| file.confined_path(environment, scope)).transpose()
}

#[cfg(test)]
mod tests;
