//! The configuration: arbitrary files and variables.
//!
//! An input is the text of a file, optionally followed by a line `%%` and variables, one `NAME=value` per line.
//! Either it is rejected and every problem has a location, or it is accepted and the effective configuration can be
//! written and read again.

use std::fmt::Write as _;
use std::path::PathBuf;

use plexus_kit::config::{ConfigError, Kind, Origin, Problem, RawConfig};
use plexus_kit::{Config, Environment};
use tempfile::TempDir;

use super::Target;

#[derive(Debug)]
pub struct ConfigTarget {
    dir: TempDir,
}

impl Target for ConfigTarget {
    const NAME: &'static str = "config";

    fn start() -> Self {
        Self { dir: tempfile::tempdir().expect("a temporary folder") }
    }

    fn run(&mut self, input: &[u8]) {
        // A secret may refer to a file, and some files never end.
        if input.windows(5).any(|part| part.eq_ignore_ascii_case(b"file:")) {
            return;
        }
        let split = input.windows(3).position(|part| part == b"\n%%");
        let (text, variables) = split.map_or((input, &b""[..]), |at| (&input[..at], &input[at + 3..]));
        let variables = String::from_utf8_lossy(variables);
        let environment: Environment = variables
            .lines()
            .filter_map(|line| line.split_once('='))
            // The input must not change the file's location or the user.
            .filter(|(name, _)| !["PLEXUS_CONFIG", "PLEXUS_DATA_DIR", "XDG_DATA_HOME", "HOME"].contains(name))
            .chain([("HOME", "/home/fuzz")])
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let _ = environment.unknown();
        match self.load(text, &environment) {
            Ok(config) => self.check_accepted(&config),
            Err(error) => self.check_refused(&error, text),
        }
    }
}

impl ConfigTarget {
    fn path(&self) -> PathBuf {
        self.dir.path().join("plexus.toml")
    }

    fn load(&self, text: &[u8], environment: &Environment) -> Result<Config, ConfigError> {
        std::fs::write(self.path(), text).expect("a file of our own");
        Config::load(Some(&self.path()), environment, RawConfig::default())
    }

    /// Writing and reading the effective configuration must give the same configuration.
    fn check_accepted(&self, config: &Config) {
        let mut text = String::new();
        for effective in config.settings.iter() {
            // Only a part of a secret can be read.
            if effective.setting.kind == Kind::Secret {
                continue;
            }
            let _ = writeln!(text, "{} = {}", effective.setting.key, effective.value.shown());
        }
        let again =
            self.load(text.as_bytes(), &[("HOME".to_owned(), "/home/fuzz".to_owned())].into_iter().collect());
        let again = again.unwrap_or_else(|error| panic!("{error}\nin what was in effect:\n{text}"));
        for (first, second) in config.settings.iter().zip(again.settings.iter()) {
            if first.setting.kind != Kind::Secret {
                assert_eq!(first.value, second.value, "{} in\n{text}", first.setting.key);
            }
        }
        let report = serde_json::to_value(config.settings.report()).expect("a report");
        assert_eq!(report.as_array().map(Vec::len), Some(config.settings.iter().count()));
    }

    /// Every problem must have a location.
    fn check_refused(&self, error: &ConfigError, text: &[u8]) {
        assert!(!error.problems.is_empty(), "refused for nothing");
        let lines = 1 + text.iter().filter(|byte| **byte == b'\n').count();
        let path = self.path().display().to_string();
        for problem in &error.problems {
            let problem_text = problem.to_string();
            match problem.origin() {
                Some(Origin::File { line, .. }) => {
                    assert!((1..=lines).contains(&line), "line {line} of {lines}: {problem_text}");
                    assert!(
                        problem_text.starts_with(&format!("{path}:{line}: ")),
                        "no place in {problem_text:?}"
                    );
                }
                Some(Origin::Variable(name) | Origin::Flag(name)) => {
                    assert!(problem_text.starts_with(name), "no place in {problem_text:?}");
                }
                Some(Origin::Default) => panic!("a default is refused: {problem_text}"),
                None => assert!(
                    matches!(problem, Problem::Read { .. }) && problem_text.contains(&path),
                    "no place in {problem_text:?}"
                ),
            }
        }
    }
}
