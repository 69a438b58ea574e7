//! What no call can reach with any path, link, name or patch, checked by the effects.
//!
//! The home folder contains a key, which is denied, and a file that runs at login, which is read-only. Outside of
//! it is a file that the policy does not allow. After every call all three are unchanged, and no answer contains
//! their content.

use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use plexus_tools::CallError;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::workbench::Workbench;

const SECRET: &str = "sesame-4711";
const SAFE: &str = "# nothing is run here\n";

pub(super) struct Site {
    pub(super) bench: Workbench,
    outside: tempfile::TempDir,
}

impl Site {
    pub(super) async fn new() -> Self {
        let bench = Workbench::with_policy("[files]\nread = ['~']\nwrite = ['~']\n").await;
        let outside = tempfile::tempdir().unwrap();
        let site = Self { bench, outside };
        std::fs::create_dir_all(site.home(".ssh")).unwrap();
        std::fs::create_dir_all(site.home("work/sub")).unwrap();
        std::fs::write(site.home(".ssh/id"), SECRET).unwrap();
        std::fs::write(site.home(".bashrc"), SAFE).unwrap();
        std::fs::write(site.home("work/a.txt"), "plain\n").unwrap();
        std::fs::write(site.home("work/sub/b.txt"), "plain too\n").unwrap();
        std::fs::write(site.out("file"), SECRET).unwrap();
        site
    }

    pub(super) fn home(&self, path: &str) -> PathBuf {
        self.bench.home().canonicalize().unwrap().join(path)
    }

    pub(super) fn out(&self, path: &str) -> PathBuf {
        self.outside.path().canonicalize().unwrap().join(path)
    }

    /// Everything that is protected is unchanged, and nothing was added to it.
    pub(super) fn check_intact(&self, what: &Value) {
        let names = |folder: &Path| -> Vec<_> {
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect()
        };
        assert_eq!(std::fs::read_to_string(self.home(".ssh/id")).unwrap(), SECRET, "{what}");
        assert_eq!(std::fs::read_to_string(self.out("file")).unwrap(), SECRET, "{what}");
        assert_eq!(std::fs::read_to_string(self.home(".bashrc")).unwrap(), SAFE, "{what}");
        assert_eq!(
            (names(&self.home(".ssh")), names(&self.out(""))),
            (vec!["id".into()], vec!["file".into()]),
            "{what}"
        );
    }

    /// The call does no harm; returns its answer.
    pub(super) async fn harmless(&self, call: Value) -> Result<Value, CallError> {
        let done = self.bench.call("filesystem", call.clone(), CancellationToken::new(), None).await;
        let output = match &done {
            Ok(output) => format!("{} {:?}", output.text(), output.structured()),
            Err(error) => format!("{} {}", error.text(), error.details),
        };
        assert!(!output.contains(SECRET), "{call} reveals the secret: {output}");
        self.check_intact(&call);
        done.map(|output| output.structured().unwrap().into_owned())
    }

    /// The call is refused and does no harm.
    async fn refused(&self, call: Value) -> CallError {
        match self.harmless(call.clone()).await {
            Ok(done) => panic!("{call} was done: {done}"),
            Err(error) => error,
        }
    }

    /// All ways to read, write and remove something.
    fn everything(path: &Path, free: &Path) -> Vec<Value> {
        let path = path.display().to_string();
        let mut calls: Vec<Value> = ["read", "list", "tree", "stat", "hash", "delete"]
            .into_iter()
            .map(|action| json!({ "action": action, "path": path }))
            .collect();
        calls.extend([
            json!({ "action": "read", "path": path, "as_base64": true }),
            json!({ "action": "write", "path": path, "text": "x" }),
            json!({ "action": "write", "path": path, "text": "x", "mode": "append" }),
            json!({ "action": "write", "path": path, "text": "x", "mode": "create" }),
            json!({ "action": "edit", "path": path, "old": "s", "new": "x", "replace_all": true }),
            json!({ "action": "smart_edit", "path": path, "old": SECRET, "new": "x" }),
            json!({ "action": "patch", "path": path, "patch": format!("@@ -1 +1 @@\n-{SECRET}\n+x\n") }),
            json!({ "action": "grep", "path": path, "pattern": "sesame" }),
            json!({ "action": "glob", "path": path, "pattern": "*" }),
            json!({ "action": "delete", "path": path, "permanent": true }),
            json!({ "action": "diff", "path": path, "text": "x" }),
            json!({ "action": "diff", "path": free.join("../a.txt"), "to": path }),
            json!({ "action": "copy", "path": path, "to": free.join("copied") }),
            json!({ "action": "move", "path": path, "to": free.join("moved") }),
            json!({ "action": "copy", "path": free.join("b.txt"), "to": path, "overwrite": true }),
            json!({ "action": "move", "path": free.join("b.txt"), "to": path, "overwrite": true }),
        ]);
        calls
    }
}

#[tokio::test]
async fn no_path_or_action_reaches_denied_files() {
    let site = Site::new().await;
    symlink(site.home(".ssh"), site.home("work/keys")).unwrap();
    symlink("../.ssh/id", site.home("work/key")).unwrap();
    symlink("key", site.home("work/chain")).unwrap();
    symlink(site.out(""), site.home("work/out")).unwrap();
    symlink(site.out("file"), site.home("work/out-file")).unwrap();
    symlink("/", site.home("work/root")).unwrap();
    symlink("/proc/self/root", site.home("work/magic")).unwrap();
    let free = site.home("work/sub");
    let home = site.home("").display().to_string();
    let home = home.trim_end_matches('/');
    let paths = [
        site.home(".ssh"),
        site.home(".ssh/"),
        site.home(".ssh/id"),
        site.home(".ssh/."),
        site.home("work/../.ssh/id"),
        site.home("work/sub/../../.ssh/./id"),
        site.home("work/keys/id"),
        site.home("work/keys/../.ssh/id"),
        PathBuf::from(format!("{home}/work//..///.ssh//id")),
        site.out("file"),
        site.home("work/out/file"),
        site.home("work/root").join(site.out("file").strip_prefix("/").unwrap()),
        PathBuf::from(format!("/proc/self/root{home}/.ssh/id")),
        PathBuf::from(format!("/proc/self/cwd/../../../../../..{home}/.ssh/id")),
        site.home("work/magic").join(site.out("file").strip_prefix("/").unwrap()),
        PathBuf::from("~/.ssh/id"),
        PathBuf::from("~/work/../.ssh/id"),
    ];
    for path in paths {
        for call in Site::everything(&path, &free) {
            site.refused(call).await;
        }
    }
    // A symlink itself can be moved and removed, but not its target.
    for link in ["work/key", "work/chain", "work/out-file"] {
        for call in Site::everything(&site.home(link), &free) {
            let _ = site.harmless(call.clone()).await;
            if !site.home(link).is_symlink() {
                let _ = std::fs::remove_file(site.home(link));
                symlink(site.home(".ssh/id"), site.home(link)).unwrap();
            }
            std::fs::write(free.join("b.txt"), "plain too\n").unwrap();
            let _ = std::fs::remove_file(free.join("moved"));
        }
    }
}

#[tokio::test]
async fn login_files_can_be_read_but_never_written() {
    let site = Site::new().await;
    symlink(site.home(".bashrc"), site.home("work/rc")).unwrap();
    symlink(site.home(""), site.home("work/home")).unwrap();
    let read = site.harmless(json!({ "action": "read", "path": site.home("work/rc") })).await.unwrap();
    assert_eq!(read["content"]["text"], SAFE);
    for path in [".bashrc", "work/rc", "work/home/.bashrc", "work/../.bashrc"] {
        for call in [
            json!({ "action": "write", "path": site.home(path), "text": "x" }),
            json!({ "action": "write", "path": site.home(path), "text": "x", "mode": "append" }),
            json!({ "action": "edit", "path": site.home(path), "old": "nothing", "new": "x" }),
            json!({ "action": "patch", "path": site.home(path), "patch": format!("@@ -1 +1 @@\n-{SAFE}+x\n") }),
        ] {
            site.refused(call).await;
        }
    }
    for path in [".bashrc", "work/home/.bashrc"] {
        for call in [
            json!({ "action": "delete", "path": site.home(path) }),
            json!({ "action": "move", "path": site.home(path), "to": site.home("work/mine") }),
            json!({ "action": "move", "path": site.home("work/a.txt"), "to": site.home(path), "overwrite": true }),
            json!({ "action": "copy", "path": site.home("work/a.txt"), "to": site.home(path), "overwrite": true }),
        ] {
            site.refused(call).await;
        }
    }
    let patch = "diff --git a/work/a.txt b/.profile\nrename from work/a.txt\nrename to .profile\n";
    site.refused(json!({ "action": "patch", "path": site.home(""), "patch": patch })).await;
    for name in [".profile", ".config/autostart/x.desktop", ".config/systemd/user/x.service"] {
        let new = format!("--- /dev/null\n+++ b/{name}\n@@ -0,0 +1 @@\n+x\n");
        site.refused(json!({ "action": "patch", "path": site.home(""), "patch": new })).await;
        site.refused(json!({ "action": "write", "path": site.home(name), "text": "x", "create_dirs": true }))
            .await;
        site.refused(json!({ "action": "mkdir", "path": site.home(name) })).await;
        assert!(!site.home(name).exists());
    }
}

#[tokio::test]
async fn denied_paths_cannot_be_moved_with_a_parent_or_replaced() {
    let site = Site::new().await;
    let home = site.home("");
    for path in
        [home.clone(), home.join("work/.."), PathBuf::from("~"), PathBuf::from("~/"), PathBuf::from("/")]
    {
        for call in [
            json!({ "action": "delete", "path": path }),
            json!({ "action": "delete", "path": path, "permanent": true }),
            json!({ "action": "move", "path": path, "to": "/tmp/elsewhere" }),
            json!({ "action": "move", "path": path, "to": home.join("work/inner") }),
            json!({ "action": "copy", "path": path, "to": home.join("work/inner") }),
        ] {
            site.refused(call).await;
        }
    }
    // A folder that would become the parent of a protected path, with that path already in it.
    std::fs::create_dir_all(home.join("work/evil/autostart")).unwrap();
    std::fs::write(home.join("work/evil/autostart/x.desktop"), "Exec=evil").unwrap();
    site.refused(json!({ "action": "move", "path": home.join("work/evil"), "to": home.join(".config") }))
        .await;
    symlink("evil", home.join("work/link")).unwrap();
    site.refused(json!({ "action": "move", "path": home.join("work/link"), "to": home.join(".config") }))
        .await;
    assert!(!home.join(".config").exists());
    site.harmless(json!({ "action": "copy", "path": home.join("work/evil"), "to": home.join(".config") }))
        .await
        .unwrap();
    assert!(!home.join(".config/autostart/x.desktop").exists(), "each file is checked at its target path");
    std::fs::remove_dir_all(home.join(".config")).unwrap();
    std::fs::create_dir_all(home.join("work/tree")).unwrap();
    symlink("../evil", home.join("work/tree/.config")).unwrap();
    let call = json!({ "action": "copy", "path": home.join("work/tree"), "to": home.join("tree") });
    site.harmless(call).await.unwrap();
    assert!(home.join("tree/.config").is_symlink(), "elsewhere it is an ordinary symlink");
}

#[tokio::test]
async fn hard_link_to_a_denied_file_is_refused() {
    let site = Site::new().await;
    std::fs::hard_link(site.home(".ssh/id"), site.home("work/sub/second")).unwrap();
    let free = site.home("work/sub");
    for call in Site::everything(&site.home("work/sub/second"), &free) {
        let into = call["to"] == site.home("work/sub/second").display().to_string();
        let replaces = call["action"] == "write" && call["mode"].is_null() || into;
        // The name can be reused for another file; the denied content remains inaccessible.
        let _ = site.harmless(call).await;
        if replaces {
            let _ = std::fs::remove_file(site.home("work/sub/second"));
            std::fs::hard_link(site.home(".ssh/id"), site.home("work/sub/second")).unwrap();
            std::fs::write(free.join("b.txt"), "plain too\n").unwrap();
        }
    }
    let call = json!({ "action": "copy", "path": site.home("work"), "to": site.home("copy") });
    let copied = site.harmless(call).await.unwrap();
    assert!(copied["notes"][0].as_str().unwrap().contains("skipped"), "{copied}");
    assert!(!site.home("copy/sub/second").exists() && site.home("copy/a.txt").exists());
    let grep = json!({ "action": "grep", "path": site.home(""), "pattern": "sesame", "hidden": true, "ignored": true });
    assert_eq!(site.harmless(grep).await.unwrap()["total"]["matches"], 0);
}

#[tokio::test]
async fn walks_skip_denied_paths() {
    let site = Site::new().await;
    symlink(site.home(".ssh"), site.home("work/keys")).unwrap();
    symlink(site.out(""), site.home("work/out")).unwrap();
    for (action, pattern) in [("glob", "**/*"), ("grep", "."), ("tree", ""), ("list", "")] {
        let mut call = json!({ "action": action, "path": site.home("") });
        if !pattern.is_empty() {
            call["pattern"] = pattern.into();
        }
        if action != "list" {
            call["hidden"] = true.into();
            call["ignored"] = true.into();
        }
        let output = site.harmless(call.clone()).await.unwrap().to_string();
        assert!(!output.contains(".ssh") && !output.contains("/id\""), "{call}: {output}");
    }
}

#[tokio::test]
async fn virtual_files_devices_pipes_and_sockets_are_not_opened() {
    let site = Site::new().await;
    let fifo = site.home("work/fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(site.home("work/socket")).unwrap();
    let bench = Workbench::new().await;
    let paths = [
        "/proc/self/environ",
        "/proc/self/mem",
        "/proc/self/maps",
        "/proc/self/root/etc/passwd",
        "/proc/self/cwd",
        "/proc/self/fd/0",
        "/proc/self/exe",
        "/proc/1/environ",
        "/proc/kcore",
        "/proc/sysrq-trigger",
        "/sys/kernel/uevent_seqnum",
        "/dev/null",
        "/dev/zero",
        "/dev/random",
        "/dev/mem",
        "/dev/sda",
        "/dev/tty",
        "/dev/stdin",
        "/dev/fd/0",
    ];
    for path in paths.iter().map(PathBuf::from).chain([fifo.clone(), site.home("work/socket")]) {
        for action in ["read", "hash", "write", "edit", "grep"] {
            let call = json!({ "action": action, "path": path, "text": "x", "old": "x", "new": "y", "pattern": "." });
            // The default policy allows reading everything, so the type of the file decides.
            assert!(bench.filesystem(call.clone()).await.is_err(), "{call}");
            site.refused(call).await;
        }
    }
    // None of these waited for the other end of the pipe, and a walk skips it.
    let grep = site
        .harmless(json!({ "action": "grep", "path": site.home("work"), "pattern": "plain" }))
        .await
        .unwrap();
    assert_eq!(grep["total"]["searched"], 2);
    let copied = site
        .harmless(json!({ "action": "copy", "path": site.home("work"), "to": site.home("c") }))
        .await
        .unwrap();
    assert!(copied["notes"][0].as_str().unwrap().contains("2 entries"), "{copied}");
    let proc = bench
        .filesystem(json!({ "action": "glob", "path": "/", "pattern": "proc/*/environ", "depth": 3 }))
        .await
        .unwrap();
    assert_eq!(proc["total"]["entries"], 0, "a walk does not enter it");
}

#[tokio::test]
async fn invalid_paths_are_refused_with_an_explanation() {
    let site = Site::new().await;
    let long = format!("{}/{}", site.home("work").display(), "x".repeat(300));
    let longer = format!("{}/{}", site.home("work").display(), "x/".repeat(3_000));
    let paths = [
        "~root/.ssh/id",
        "~user",
        "~.ssh",
        "a\0b",
        "",
        " /etc",
        "file:///etc/passwd",
        "C:\\x",
        "~\\..",
        &long,
        &longer,
    ];
    for path in paths {
        for action in ["read", "write", "delete", "mkdir", "stat"] {
            let error = site
                .refused(json!({ "action": action, "path": path, "text": "x", "create_dirs": false }))
                .await;
            assert!(!error.text().is_empty());
        }
    }
    let nul = format!("{}\0/../../.ssh/id", site.home("work/a.txt").display());
    site.refused(json!({ "action": "read", "path": nul })).await;
    for path in
        [site.home("WORK/A.TXT"), site.home(".SSH/id"), site.home("work/a.txt/"), site.home("work/a.txt/..")]
    {
        site.refused(json!({ "action": "read", "path": path })).await;
    }
    // Names with unusual characters are valid.
    let odd = site.home("work/new\nline \u{202e}txt");
    site.harmless(json!({ "action": "write", "path": odd, "text": "x" })).await.unwrap();
    assert_eq!(std::fs::read_to_string(&odd).unwrap(), "x");
    let raw = site.home("work").join(std::ffi::OsStr::from_bytes(b"\xff\xfe"));
    std::fs::write(&raw, "plain raw\n").unwrap();
    let grep = site
        .harmless(json!({ "action": "grep", "path": site.home("work"), "pattern": "plain" }))
        .await
        .unwrap();
    assert_eq!(grep["total"]["matches"], 3);
    site.harmless(json!({ "action": "list", "path": site.home("work") })).await.unwrap();
}

#[tokio::test]
async fn patches_cannot_write_outside_their_folder() {
    let site = Site::new().await;
    symlink(site.home(".ssh"), site.home("work/keys")).unwrap();
    symlink(site.home(".bashrc"), site.home("work/rc")).unwrap();
    symlink(site.out("new"), site.home("work/dangling")).unwrap();
    let change = |name: &str| {
        format!("--- a/{name}\n+++ b/{name}\n@@ -1 +1 @@\n-{SECRET}\n\\ No newline at end of file\n+x\n")
    };
    let new = |name: &str| format!("--- /dev/null\n+++ b/{name}\n@@ -0,0 +1 @@\n+x\n");
    let rename =
        |from: &str, to: &str| format!("diff --git a/{from} b/{to}\nrename from {from}\nrename to {to}\n");
    let removed = |name: &str| {
        format!("--- a/{name}\n+++ /dev/null\n@@ -1 +0,0 @@\n-{SECRET}\n\\ No newline at end of file\n")
    };
    let absolute = site.home(".ssh/id").display().to_string();
    let patches = [
        change("../.ssh/id"),
        change("keys/id"),
        change("/etc/passwd"),
        change(&absolute),
        change("sub/../../.ssh/id"),
        change("./keys/id"),
        new("../.ssh/new"),
        new("keys/new"),
        new("dangling"),
        new("rc"),
        new("../.profile"),
        removed("keys/id"),
        removed("../.ssh/id"),
        rename("a.txt", "keys/id2"),
        rename("a.txt", "rc"),
        rename("a.txt", "dangling"),
        rename("a.txt", "../.ssh/id2"),
        rename("keys/id", "mine"),
        rename("rc", "mine"),
        rename("keys", "mine"),
        rename("sub", "mine"),
        format!("{}{}", new("first.txt"), change("keys/id")),
        format!("{}{}", rename("a.txt", "moved.txt"), new("keys/new")),
        "diff --git a/a.txt b/\"\nrename from a.txt\nrename to \n".to_owned(),
        "--- a/a\0b\n+++ b/a\0b\n@@ -1 +1 @@\n-a\n+b\n".to_owned(),
    ];
    for patch in patches {
        site.refused(json!({ "action": "patch", "path": site.home("work"), "patch": patch })).await;
        let mut names: Vec<_> =
            std::fs::read_dir(site.home("work")).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["a.txt", "dangling", "keys", "rc", "sub"], "{patch}");
    }
}

#[tokio::test]
async fn trash_cannot_be_used_to_escape() {
    let site = Site::new().await;
    // A trash folder that is a symlink to another folder.
    std::fs::create_dir_all(site.home(".local/share")).unwrap();
    symlink(site.out(""), site.home(".local/share/Trash")).unwrap();
    let done = site.harmless(json!({ "action": "delete", "path": site.home("work/a.txt") })).await.unwrap();
    let other = PathBuf::from(done["changes"][0]["other"].as_str().unwrap());
    assert!(other.starts_with(site.home("")), "{other:?}");
    std::fs::remove_file(site.home(".local/share/Trash")).unwrap();
    symlink(site.home(".ssh"), site.home(".local/share/Trash")).unwrap();
    site.harmless(json!({ "action": "delete", "path": site.home("work/sub/b.txt") })).await.unwrap();
    // Deleting the trash itself does not move it into itself.
    let trash = other.parent().unwrap().parent().unwrap().to_owned();
    site.refused(json!({ "action": "delete", "path": trash })).await;
}

#[tokio::test]
async fn deep_trees_and_growing_files_are_limited() {
    let site = Site::new().await;
    let mut deep = site.home("work/deep");
    for _ in 0..300 {
        deep.push("d");
    }
    std::fs::create_dir_all(&deep).unwrap();
    std::fs::write(deep.join("x"), "plain").unwrap();
    let grep = site
        .harmless(json!({ "action": "grep", "path": site.home("work"), "pattern": "plain" }))
        .await
        .unwrap();
    assert_eq!(grep["total"]["searched"], 3);
    let copy = json!({ "action": "copy", "path": site.home("work/deep"), "to": site.home("work/copy") });
    site.refused(copy).await;
    assert!(!site.home("work/copy").exists());
    let left: Vec<_> =
        std::fs::read_dir(site.home("work")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left.len(), 3, "a partial copy is removed: {left:?}");
    let path = site.home("work/growing");
    std::fs::write(&path, "line\n").unwrap();
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let grower = std::thread::spawn({
        let (stop, path) = (stop.clone(), path.clone());
        move || {
            let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                std::io::Write::write_all(&mut file, &b"line\n".repeat(1_000)).unwrap();
                // Written only as fast as it is read, so that the disk is not filled.
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
    });
    for call in [
        json!({ "action": "read", "path": path }),
        json!({ "action": "read", "path": path, "offset": -1 }),
        json!({ "action": "grep", "path": path, "pattern": "line", "show": "count" }),
        json!({ "action": "edit", "path": path, "old": "nowhere", "new": "x" }),
    ] {
        let _ = site.harmless(call).await;
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    grower.join().unwrap();
}

#[tokio::test]
async fn full_disk_changes_nothing() {
    // A very small separate file system. Where none can be mounted, there is nothing to test.
    let bench = Workbench::new().await;
    let disk = bench.home().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"])
        .arg(&disk)
        .output();
    if !mounted.is_ok_and(|mounted| mounted.status.success()) {
        println!("no disk can be made here");
        return;
    }
    struct Mounted(PathBuf);
    impl Drop for Mounted {
        fn drop(&mut self) {
            let _ = std::process::Command::new("umount").arg("-l").arg(&self.0).status();
        }
    }
    let mounted = Mounted(disk.clone());
    std::fs::write(disk.join("a"), "old").unwrap();
    let call = json!({ "action": "write", "path": disk.join("a"), "text": "x".repeat(200_000) });
    let error = bench.filesystem(call).await.unwrap_err();
    assert!(error.text().contains("disk is full"), "{}", error.text());
    let patch = format!(
        "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-old\n\\ No newline at end of file\n+new\n--- /dev/null\n+++ b/b\n@@ -0,0 +1 @@\n+{}\n",
        "y".repeat(200_000)
    );
    assert!(bench.filesystem(json!({ "action": "patch", "path": disk, "patch": patch })).await.is_err());
    assert_eq!(std::fs::read_to_string(disk.join("a")).unwrap(), "old");
    assert_eq!(std::fs::read_dir(&disk).unwrap().count(), 1);
    // On a separate file system, deleted entries stay on it.
    let done = bench.filesystem(json!({ "action": "delete", "path": disk.join("a") })).await.unwrap();
    let other = done["changes"][0]["other"].as_str().unwrap().to_owned();
    assert!(Path::new(&other).starts_with(disk.canonicalize().unwrap()), "{other}");
    drop(mounted);
}
