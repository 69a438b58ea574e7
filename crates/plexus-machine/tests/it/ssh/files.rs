//! Copying files to a host and back.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use plexus_proto::ErrorCode;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::site::{Site, names};
use super::wire::Wire;
use crate::workbench::poll_until;

const SIZE: usize = 20_000_000;

/// Bytes without repetition.
fn content(size: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut bytes: Vec<u8> = (0..size / 8 + 1).flat_map(|_| next().to_le_bytes()).collect();
    bytes.truncate(size);
    bytes
}

fn sha256(path: &std::path::Path) -> String {
    let output = Command::new("sha256sum").arg(path).output().unwrap();
    String::from_utf8(output.stdout).unwrap().split(' ').next().unwrap().to_owned()
}

#[tokio::test]
async fn file_round_trips_unchanged() {
    let Some(site) = Site::new().await else { return };
    let (local_file, back) = (site.bench.home().join("here"), site.bench.home().join("back"));
    let remote_file = site.host_folder.path().join("there");
    fs::write(&local_file, content(SIZE)).unwrap();
    fs::set_permissions(&local_file, fs::Permissions::from_mode(0o750)).unwrap();
    let remote = remote_file.to_str().unwrap();
    let up = site.ask(json!({ "action": "upload", "path": "~/here", "remote_path": remote })).await.unwrap();
    assert_eq!((&up["file_bytes"], &up["sha256"]), (&json!(SIZE), &json!(sha256(&local_file))), "{up}");
    assert_eq!(sha256(&remote_file), sha256(&local_file));
    assert_eq!(fs::metadata(&remote_file).unwrap().permissions().mode() & 0o777, 0o750);
    let down =
        site.ask(json!({ "action": "download", "path": "~/back", "remote_path": remote })).await.unwrap();
    assert_eq!((&down["file_bytes"], &down["sha256"]), (&json!(SIZE), &json!(sha256(&local_file))), "{down}");
    assert_eq!(sha256(&back), sha256(&local_file));
    assert_eq!(site.server.logins(), 1);
    assert_eq!(names(site.host_folder.path()), ["there"]);
    assert_eq!(names(site.bench.home()), [".ssh", "back", "here"]);
}

#[tokio::test]
async fn file_is_replaced_atomically_and_keeps_its_mode() {
    let Some(site) = Site::new().await else { return };
    fs::write(site.bench.home().join("empty"), "").unwrap();
    fs::write(site.bench.home().join("new"), "new").unwrap();
    let remote_file = site.host_folder.path().join("there");
    fs::write(&remote_file, "old and longer").unwrap();
    fs::set_permissions(&remote_file, fs::Permissions::from_mode(0o640)).unwrap();
    let copy = |action: &str, path: &str, remote: &std::path::Path| {
        site.ask(json!({ "action": action, "path": path, "remote_path": remote.to_str().unwrap() }))
    };
    copy("upload", "~/new", &remote_file).await.unwrap();
    assert_eq!(fs::read_to_string(&remote_file).unwrap(), "new");
    assert_eq!(fs::metadata(&remote_file).unwrap().permissions().mode() & 0o777, 0o640);
    copy("upload", "~/empty", &remote_file).await.unwrap();
    assert_eq!(fs::read_to_string(&remote_file).unwrap(), "");
    copy("download", "~/new", &remote_file).await.unwrap();
    assert_eq!(fs::read_to_string(site.bench.home().join("new")).unwrap(), "");
    for (action, path, remote, code) in [
        ("upload", "~/no-such-file", remote_file.clone(), ErrorCode::NotFound),
        ("upload", "~/new", site.host_folder.path().to_owned(), ErrorCode::InvalidArguments),
        ("upload", "~/new", site.host_folder.path().join("no/such/folder"), ErrorCode::NotFound),
        ("download", "~/x", site.host_folder.path().join("no-such-file"), ErrorCode::NotFound),
        ("download", "~/x", site.host_folder.path().to_owned(), ErrorCode::InvalidArguments),
    ] {
        let refused = copy(action, path, &remote).await.unwrap_err();
        assert_eq!(refused.code, code, "{action} {path} {}: {}", remote.display(), refused.text());
    }
    assert_eq!(names(site.host_folder.path()), ["there"]);
    assert_eq!(names(site.bench.home()), [".ssh", "empty", "new"]);
}

/// A site whose host is reached over a breakable wire, with files on both sides.
async fn over_a_wire() -> Option<(Site, Wire, Vec<u8>)> {
    let site = Site::new().await?;
    let wire = Wire::to(site.address()).await;
    site.know(wire.port);
    let bytes = content(SIZE);
    fs::write(site.bench.home().join("here"), &bytes).unwrap();
    fs::write(site.host_folder.path().join("there"), &bytes).unwrap();
    Some((site, wire, bytes))
}

fn copy(site: &Site, wire: &Wire, action: &str, path: &str, name: &str) -> Value {
    let remote = site.host_folder.path().join(name);
    json!({
        "action": action, "host": "127.0.0.1", "port": wire.port, "path": path, "remote_path": remote.to_str().unwrap(),
    })
}

#[tokio::test]
async fn copy_resumes_after_a_lost_connection() {
    let Some((site, wire, bytes)) = over_a_wire().await else { return };
    for (action, path, name) in [("upload", "~/here", "up"), ("download", "~/down", "there")] {
        let breaks = wire.breaks();
        wire.break_after(7_000_000, true);
        let answer = site.ask(copy(&site, &wire, action, path, name)).await.unwrap();
        assert_eq!(wire.breaks(), breaks + 1, "{action}");
        assert_eq!(answer["resumed"], 1, "{action}: {answer}");
        assert_eq!(answer["sha256"], sha256(&site.bench.home().join("here")), "{action}");
    }
    assert!(fs::read(site.host_folder.path().join("up")).unwrap() == bytes);
    assert!(fs::read(site.bench.home().join("down")).unwrap() == bytes);
    assert_eq!(names(site.host_folder.path()), ["there", "up"]);
}

#[tokio::test]
async fn failed_copy_leaves_no_partial_file() {
    let Some((site, wire, _)) = over_a_wire().await else { return };
    fs::write(site.host_folder.path().join("up"), "old there").unwrap();
    fs::write(site.bench.home().join("down"), "old here").unwrap();
    for (action, path, name) in [("upload", "~/here", "up"), ("download", "~/down", "there")] {
        wire.break_after(7_000_000, false);
        let lost = site.ask(copy(&site, &wire, action, path, name)).await.unwrap_err();
        assert_eq!(lost.code, ErrorCode::Unavailable, "{action}: {}", lost.text());
        assert_eq!(fs::read_to_string(site.host_folder.path().join("up")).unwrap(), "old there", "{action}");
        assert_eq!(fs::read_to_string(site.bench.home().join("down")).unwrap(), "old here", "{action}");
        assert!(names(site.bench.home()).iter().all(|name| !name.ends_with(".tmp")));
        // The temporary file is removed as soon as the host is reachable.
        wire.mend();
        poll_until(async || (names(site.host_folder.path()) == ["there", "up"]).then_some(())).await;
    }
}

#[tokio::test]
async fn cancelled_or_timed_out_copy_leaves_nothing() {
    let Some((site, wire, _)) = over_a_wire().await else { return };
    site.sh("true").await;
    for (action, path, name) in [("upload", "~/here", "up"), ("download", "~/down", "there")] {
        let cancel = CancellationToken::new();
        let breaks = wire.breaks();
        wire.break_after(5_000_000, false);
        let call = site.bench.call("ssh_exec", copy(&site, &wire, action, path, name), cancel.clone(), None);
        let (result, ()) = tokio::join!(call, async {
            poll_until(async || (wire.breaks() > breaks).then_some(())).await;
            cancel.cancel();
        });
        assert_eq!(result.unwrap_err().code, ErrorCode::Cancelled, "{action}");
        wire.mend();
        poll_until(async || (names(site.host_folder.path()) == ["there"]).then_some(())).await;
        poll_until(async || (names(site.bench.home()) == [".ssh", "here"]).then_some(())).await;
    }
}
