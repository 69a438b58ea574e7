//! Tests of path resolution and access checks, on real files.

use std::os::unix::fs::symlink;

use plexus_kit::Environment;

use super::*;
use crate::policy::Policies;

struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        std::fs::create_dir_all(home.at("home/.ssh")).unwrap();
        std::fs::create_dir_all(home.at("home/work")).unwrap();
        std::fs::create_dir_all(home.at("data")).unwrap();
        std::fs::write(home.at("home/.ssh/id"), "secret").unwrap();
        std::fs::write(home.at("home/work/a"), "text").unwrap();
        std::fs::write(home.at("outside"), "outside").unwrap();
        home
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(path)
    }

    fn files(&self) -> Files {
        let policy = "[files]\nread = ['~']\nwrite = ['~']\n";
        std::fs::write(self.at("data/node.toml"), policy).unwrap();
        let home = self.at("home").display().to_string();
        let environment: Environment = [("HOME".to_owned(), home)].into_iter().collect();
        let policies = Policies::open(&self.at("data"), &environment).unwrap();
        Files(Arc::new(Inner {
            policy: policies.now(),
            home: self.at("home"),
            denied_inodes: OnceLock::new(),
        }))
    }
}

#[test]
fn paths_and_links_that_lead_outside_are_refused() {
    let home = Home::new();
    symlink("../outside", home.at("home/out")).unwrap();
    symlink(home.at("home/.ssh"), home.at("home/work/keys")).unwrap();
    symlink(home.at("home/work"), home.at("in")).unwrap();
    symlink("nowhere", home.at("home/dangling")).unwrap();
    symlink("round", home.at("home/round")).unwrap();
    std::fs::hard_link(home.at("home/.ssh/id"), home.at("home/work/second-name")).unwrap();
    let files = home.files();
    for path in ["home/work/a", "home/work/../work/a", "in/a", "home/../home/work/./a"] {
        assert!(files.read(&home.at(path)).is_ok(), "{path}");
    }
    let refused = [
        "home/out",
        "outside",
        "home/../outside",
        "home/work/../../outside",
        "home/.ssh/id",
        "home/work/keys/id",
        "home/work/../.ssh/id",
        "home/work/second-name",
        "home/dangling",
        "home/round",
        "data/node.toml",
    ];
    for path in refused {
        assert!(files.read(&home.at(path)).is_err(), "{path}");
        if path != "home/dangling" {
            assert!(
                files.write_target(&home.at(path)).and_then(|location| location.write(b"x")).is_err(),
                "{path}"
            );
        }
    }
    assert_eq!(std::fs::read_to_string(home.at("outside")).unwrap(), "outside");
    assert_eq!(std::fs::read_to_string(home.at("home/.ssh/id")).unwrap(), "secret");
    assert!(files.read(Path::new("/proc/self/environ")).is_err());
    assert!(files.read(Path::new("/proc/self/root/etc/passwd")).is_err());
}

#[test]
fn writes_are_atomic() {
    let home = Home::new();
    let files = home.files();
    std::fs::set_permissions(home.at("home/work/a"), std::os::unix::fs::PermissionsExt::from_mode(0o640))
        .unwrap();
    let location = files.write_target(&home.at("home/work/a")).unwrap();
    let mut draft = location.new_draft().unwrap();
    std::io::Write::write_all(&mut draft.file, b"half").unwrap();
    drop(draft);
    assert_eq!(std::fs::read_to_string(home.at("home/work/a")).unwrap(), "text");
    location.write(b"new").unwrap();
    assert_eq!(std::fs::read_to_string(home.at("home/work/a")).unwrap(), "new");
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&home.at("home/work/a").metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o640);
    assert_eq!(std::fs::read_dir(home.at("home/work")).unwrap().count(), 1);
}

#[test]
fn walk_does_not_follow_symlinks() {
    let home = Home::new();
    symlink(home.at("home/.ssh"), home.at("home/work/keys")).unwrap();
    symlink(home.at("home/work/a"), home.at("home/work/b")).unwrap();
    let files = home.files();
    let folder = files.folder(&home.at("home")).unwrap();
    assert!(files.read_below(&folder, Path::new("work/a")).is_ok());
    for path in ["work/keys/id", "work/b", ".ssh/id", "../outside", "work"] {
        assert!(files.read_below(&folder, Path::new(path)).is_err(), "{path}");
    }
}

#[test]
fn relative_paths_resolve_against_the_working_folder() {
    let home = Home::new();
    let files = home.files();
    assert_eq!(files.path("a/b").unwrap(), home.at("home/plexus-work/a/b"));
    assert!(home.at("home/plexus-work").is_dir());
    for foreign in ["", "~user", "~.ssh", "file:///etc/passwd", "C:\\x", " /etc", "a\0b"] {
        assert!(matches!(files.path(foreign), Err(FileError::NoPath(_))), "{foreign:?}");
    }
    std::fs::remove_dir(home.at("home/plexus-work")).unwrap();
    for target in [".ssh", "../outside-folder"] {
        std::fs::create_dir_all(home.at("outside-folder")).unwrap();
        symlink(target, home.at("home/plexus-work")).unwrap();
        let refused = home.files().path("a");
        assert!(matches!(refused, Err(FileError::Refused { .. })), "{target}: {refused:?}");
        std::fs::remove_file(home.at("home/plexus-work")).unwrap();
    }
}
