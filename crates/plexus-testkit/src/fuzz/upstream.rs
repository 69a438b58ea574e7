//! Configuration files of MCP servers: arbitrary text, as JSON, as TOML and as a file of another program.
//!
//! Either it is rejected and every problem has a location and a remedy, or it is accepted and can be disabled and
//! enabled again. No message repeats the value of a reference.

use std::fmt::Write as _;

use plexus_kit::Environment;
use plexus_upstream::config::{Cause, Folder};
use tempfile::TempDir;

use super::Target;

/// The value of `${env:SECRET}`.
const SECRET: &str = "vAlUe-0f-tHe-sEcReT";

#[derive(Debug)]
pub struct UpstreamTarget {
    dir: TempDir,
    folder: Folder,
}

impl Target for UpstreamTarget {
    const NAME: &'static str = "upstream";

    fn start() -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let variables = [("SECRET", SECRET), ("HOME", "/home/fuzz")];
        let environment: Environment =
            variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into_iter().collect();
        let folder = Folder::new(dir.path().join("files"), environment);
        std::fs::create_dir(folder.dir()).expect("a folder of our own");
        Self { dir, folder }
    }

    fn run(&mut self, input: &[u8]) {
        // The input must not read files of this machine.
        if input.windows(5).any(|part| part.eq_ignore_ascii_case(b"file:")) {
            return;
        }
        for ending in ["json", "toml"] {
            let file = self.folder.dir().join(format!("fuzzed.{ending}"));
            std::fs::write(&file, input).expect("a file of our own");
            self.check_file(input);
            std::fs::remove_file(&file).expect("it is there");
        }
        if let Ok(text) = std::str::from_utf8(input) {
            self.check_import(text);
        }
    }
}

impl UpstreamTarget {
    fn check_file(&self, input: &[u8]) {
        let entries = self.folder.scan().expect("a folder that can be read");
        let [entry] = entries.as_slice() else { panic!("not one file: {entries:?}") };
        let mut output = format!("{entry:?}");
        match &entry.server {
            Ok(server) => {
                let _ = write!(output, "{:?}{:?}", server.transport, server.warnings);
                self.folder.set_enabled("fuzzed", !server.enabled).expect("a file that was taken");
                let again = self.folder.read();
                let again = again[0].server.as_ref();
                let again = again.map(|again| (again.enabled, again.fingerprint));
                // Missing values are excused only while a server is disabled.
                if server.enabled || again.is_ok() {
                    assert_eq!(again, Ok((!server.enabled, server.fingerprint)), "switched");
                }
                self.folder.document("fuzzed").expect("a file that was taken");
            }
            Err(problems) => {
                assert!(!problems.is_empty(), "refused for nothing");
                for problem in problems {
                    assert!(!problem.what.is_empty() && !problem.fix.is_empty(), "{problem:?}");
                    let _ = write!(output, "{problem}");
                }
            }
        }
        assert_secret(&output, input);
    }

    fn check_import(&self, text: &str) {
        let plan = match self.folder.import("theirs.json", text) {
            Ok(plan) => plan,
            Err(error) => return assert_secret(&format!("{error}{error:?}"), text.as_bytes()),
        };
        assert_secret(&format!("{plan:?}"), text.as_bytes());
        let applied = self.folder.apply(&plan);
        assert!(applied.failed.is_empty(), "planned and not done: {:?}", applied.failed);
        for entry in self.folder.read() {
            if let Err(problems) = &entry.server {
                assert!(problems.iter().all(|problem| problem.cause == Cause::Missing), "{problems:?}");
            }
        }
        for file in applied.written {
            assert!(file.starts_with(self.dir.path().join("files")), "{}", file.display());
            std::fs::remove_file(&file).expect("it was written");
        }
    }
}

/// The input itself may contain the name of a key.
fn assert_secret(output: &str, input: &[u8]) {
    let written = input.windows(SECRET.len()).any(|part| part == SECRET.as_bytes());
    assert!(written || !output.contains(SECRET), "{output}");
}
