//! Tests of the tool: repeating, resuming, aborting and refusing uploads.

use std::path::PathBuf;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use plexus_kit::{Clock, Environment, hex};

use super::uploads::Uploads;
use super::*;
use crate::policy::Policies;

struct Home {
    folder: tempfile::TempDir,
    uploads: Uploads,
    policies: Policies,
}

const CONTENT: &[u8] = b"0123456789";

impl Home {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("home/.ssh")).unwrap();
        std::fs::create_dir_all(root.join("data")).unwrap();
        std::fs::write(root.join("data/node.toml"), "[files]\nread = ['~']\nwrite = ['~']\n").unwrap();
        let environment: Environment =
            [("HOME".to_owned(), root.join("home").display().to_string())].into_iter().collect();
        let policies = Policies::open(&root.join("data"), &environment).unwrap();
        let uploads = Uploads::open(&root.join("data"), Clock::system()).unwrap();
        Self { folder, uploads, policies }
    }

    /// The same after a restart of the node.
    fn again(self) -> Self {
        let uploads = Uploads::open(&self.at("data"), Clock::system()).unwrap();
        Self { uploads, ..self }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(path)
    }

    fn files(&self) -> Files {
        Files::with_policy(self.policies.now(), self.at("home"))
    }

    fn parts(&self) -> usize {
        std::fs::read_dir(self.at("home")).unwrap().flatten().filter(|it| it.file_name() != ".ssh").count()
    }

    fn write(&self, path: &str, offset: usize, length: usize) -> Result<Output, CallError> {
        let mut args = args(TransferAction::Write);
        args.offset = Some(offset as u64);
        args.data = Some(STANDARD.encode(&CONTENT[offset..offset + length]));
        write(&self.uploads, &self.files(), &self.at(path), &args)
    }

    fn begin(&self, path: &str, replace: bool) -> Result<Output, CallError> {
        let args = Args { replace: Some(replace), ..args(TransferAction::Begin) };
        begin(&self.uploads, &self.files(), &self.at(path), &args)
    }
}

fn args(action: TransferAction) -> Args {
    Args {
        action,
        path: String::new(),
        offset: None,
        length: None,
        identity: None,
        size: Some(CONTENT.len() as u64),
        sha256: Some(hex::encode(digest(&SHA256, CONTENT).as_ref())),
        data: None,
        mode: Some(0o4755),
        modified: None,
        replace: None,
        after: None,
    }
}

#[test]
fn uploads_accept_parts_in_any_order_and_resume_after_restart() {
    let home = Home::new();
    assert_eq!(home.begin("home/a", false).unwrap().received, Some(0));
    assert_eq!(home.write("home/a", 5, 5).unwrap().received, Some(0));
    assert_eq!(home.write("home/a", 5, 5).unwrap().received, Some(0));
    assert_eq!(home.write("home/a", 0, 4).unwrap().received, Some(4));
    assert_eq!(home.write("home/a", 3, 2).unwrap().received, Some(10));
    assert!(!home.at("home/a").exists() && home.parts() == 1);
    // Parts that were not recorded are sent again; existing parts may be sent again too.
    let home = home.again();
    assert!(home.begin("home/a", false).unwrap().received <= Some(10));
    home.write("home/a", 0, 10).unwrap();
    let location = home.files().write_target(&home.at("home/a")).unwrap();
    let announced = announced(&args(TransferAction::Finish)).unwrap();
    let upload = home.uploads.find(&location, &announced).unwrap().unwrap();
    assert!(commit_upload(&home.uploads, &location, &upload, &args(TransferAction::Finish)).unwrap().done);
    assert_eq!(std::fs::read(home.at("home/a")).unwrap(), CONTENT);
    // A setuid program is never created over a link.
    let mode = std::os::unix::fs::PermissionsExt::mode(&home.at("home/a").metadata().unwrap().permissions());
    assert_eq!((mode & 0o7777, home.parts()), (0o755, 1));
    assert!(home.begin("home/a", false).unwrap().exists);
    assert_eq!(home.begin("home/a", true).unwrap().received, Some(0));
    abort(&home.uploads, &home.files(), &home.at("home/a"), &args(TransferAction::Abort)).unwrap();
    assert_eq!(home.parts(), 1);
}

#[test]
fn uploads_are_refused_where_the_policy_denies_writing() {
    let home = Home::new();
    std::os::unix::fs::symlink(home.at("home/.ssh"), home.at("home/keys")).unwrap();
    std::os::unix::fs::symlink(home.at("data"), home.at("home/data")).unwrap();
    std::fs::create_dir(home.at("home/folder")).unwrap();
    for path in [
        "home/.ssh/id",
        "home/keys/id",
        "home/data/x",
        "home/../x",
        "data/node.toml",
        "home/folder",
        "home/no/x",
    ] {
        assert!(home.begin(path, true).is_err(), "{path}");
        assert!(home.write(path, 0, 4).is_err(), "{path}");
    }
    assert_eq!(std::fs::read_dir(home.at("home/.ssh")).unwrap().count(), 0);
    // The target of the path at write time counts, not the one when the upload started.
    std::fs::create_dir(home.at("home/moved")).unwrap();
    home.begin("home/moved/x", false).unwrap();
    std::fs::rename(home.at("home/moved"), home.at("home/away")).unwrap();
    std::os::unix::fs::symlink(home.at("home/.ssh"), home.at("home/moved")).unwrap();
    assert!(home.write("home/moved/x", 0, 4).is_err());
    assert_eq!(std::fs::read_dir(home.at("home/.ssh")).unwrap().count(), 0);
    // A file of someone else is not mistaken for a partial upload.
    let location = home.files().write_target(&home.at("home/b")).unwrap();
    std::fs::write(home.at("home/.ssh/id"), "secret").unwrap();
    std::fs::hard_link(home.at("home/.ssh/id"), home.at("home/.plexus-x.part")).unwrap();
    assert!(location.partial(std::ffi::OsStr::new(".plexus-x.part"), true).is_err());
    std::os::unix::fs::symlink(home.at("home/.ssh/id"), home.at("home/.plexus-y.part")).unwrap();
    assert!(location.partial(std::ffi::OsStr::new(".plexus-y.part"), true).is_err());
    assert_eq!(std::fs::read_to_string(home.at("home/.ssh/id")).unwrap(), "secret");
}

#[test]
fn uploads_without_progress_are_removed_after_a_day() {
    let home = Home::new();
    home.begin("home/old", false).unwrap();
    home.write("home/old", 0, 4).unwrap();
    let record = std::fs::read_dir(home.at("data/transfers")).unwrap().flatten().next().unwrap().path();
    let text = std::fs::read_to_string(&record).unwrap();
    let mut old: serde_json::Value = serde_json::from_str(&text).unwrap();
    old["at"] = "2020-01-01T00:00:00Z".into();
    plexus_kit::private_file::write(&record, old.to_string().as_bytes()).unwrap();
    let home = home.again();
    home.begin("home/new", false).unwrap();
    assert_eq!((home.parts(), record.exists()), (1, false));
    assert!(home.write("home/old", 4, 4).is_err());
}

#[test]
fn read_refuses_a_file_with_another_identity() {
    let home = Home::new();
    std::fs::write(home.at("home/a"), CONTENT).unwrap();
    let stat = listing::stat(&home.files(), &home.at("home/a")).unwrap().entry.unwrap();
    let read_args = |offset, length| Args {
        identity: Some(stat.identity.clone()),
        offset: Some(offset),
        length: Some(length),
        ..args(TransferAction::Read)
    };
    let part = |offset, length| read(&home.files(), &home.at("home/a"), &read_args(offset, length)).unwrap();
    assert_eq!(part(2, 3).data.unwrap(), STANDARD.encode(b"234"));
    assert_eq!(part(8, 100).data.unwrap(), STANDARD.encode(b"89"));
    assert_eq!(part(100, 3).data.unwrap(), "");
    std::fs::write(home.at("home/b"), b"9876543210").unwrap();
    std::fs::rename(home.at("home/b"), home.at("home/a")).unwrap();
    let other = part(2, 3);
    assert!(other.changed && other.data.is_none());
}
