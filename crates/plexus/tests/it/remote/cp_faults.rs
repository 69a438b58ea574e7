//! `plexus cp` with cut connections, killed processes and changing files. The target never contains anything but the whole
//! file.

use std::path::Path;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use plexus_testkit::{FaultyLink, eventually_within};

use super::{Site, TIMEOUT, random_bytes};

fn hash(path: &Path) -> Vec<u8> {
    digest(&SHA256, &std::fs::read(path).expect("a file")).as_ref().to_vec()
}

/// Waits until a partial file in this folder has at least this size.
async fn wait_for_part(folder: &Path, least: u64) {
    eventually_within(TIMEOUT * 2, &format!("a partial file of {least} bytes"), async || {
        let entries = std::fs::read_dir(folder).unwrap().flatten();
        let parts = entries.filter(|entry| entry.file_name().to_string_lossy().ends_with(".part"));
        let largest = parts.filter_map(|entry| Some(entry.metadata().ok()?.len())).max().unwrap_or_default();
        if largest >= least { Ok(()) } else { Err(largest) }
    })
    .await;
}

/// Which connection is cut: that of the node, which redials with a growing backoff, or that of the program.
#[derive(Clone, Copy, PartialEq)]
enum Cut {
    Node,
    Program,
}

/// Copies a file, and cuts connections after equal parts of it have arrived.
async fn copy_with_cuts(size: usize, cuts: &[Cut], limit: Duration, up: bool) {
    let site = Site::new().await;
    let client_link = FaultyLink::to(site.hub().address()).await;
    let content = random_bytes(size, size as u64);
    let (source, target) = match up {
        true => (site.local_path("source"), site.on_node("target")),
        false => (site.on_node("source"), site.local_path("target")),
    };
    std::fs::write(&source, &content).unwrap();
    let args = if up { ["cp", "source", "nas:target"] } else { ["cp", "nas:source", "target"] };
    let hub = format!("http://{}", client_link.address());
    let mut command = site.command(&args);
    let mut copy =
        command.args(["--hub", &hub]).env("PLEXUS_TOKEN", site.hub().admin_token()).spawn().unwrap();
    let folder = target.parent().unwrap();
    for (index, cut) in cuts.iter().enumerate() {
        wait_for_part(folder, (size * (index + 1) / (cuts.len() + 2)) as u64).await;
        assert!(!target.exists(), "the target exists before it is complete");
        match cut {
            Cut::Node => site.link.cut(),
            Cut::Program => client_link.cut(),
        }
    }
    let ended = tokio::time::timeout(limit, copy.wait()).await.expect("in time").unwrap();
    assert!(ended.success(), "{ended}");
    assert_eq!(hash(&source), hash(&target));
    Site::assert_no_partial_files(folder);
}

/// Few cuts of the node, whose backoff grows with each.
const CUTS: [Cut; 10] = {
    use Cut::{Node, Program};
    [Program, Node, Program, Program, Node, Program, Program, Node, Program, Program]
};

#[tokio::test]
async fn upload_survives_ten_cut_connections() {
    copy_with_cuts(64 << 20, &CUTS, TIMEOUT * 2, true).await;
}

#[tokio::test]
async fn download_survives_ten_cut_connections() {
    copy_with_cuts(64 << 20, &CUTS, TIMEOUT * 2, false).await;
}

#[tokio::test]
#[ignore = "long: for make soak"]
async fn gigabyte_copies_survive_ten_cut_connections() {
    copy_with_cuts(1 << 30, &[Cut::Node; 10], TIMEOUT * 20, true).await;
    copy_with_cuts(1 << 30, &[Cut::Node; 10], TIMEOUT * 20, false).await;
}

#[tokio::test]
async fn killed_copy_resumes_also_after_restarts_of_hub_and_node() {
    let mut site = Site::new().await;
    let size = 48 << 20;
    std::fs::write(site.local_path("up"), random_bytes(size, 3)).unwrap();
    std::fs::write(site.on_node("down"), random_bytes(size, 4)).unwrap();
    for (args, target) in [
        (["cp", "up", "nas:up", "--json"], site.on_node("up")),
        (["cp", "nas:down", "down", "--json"], site.local_path("down")),
    ] {
        let mut copy = site.command(&args).stdout(std::process::Stdio::null()).spawn().unwrap();
        wait_for_part(target.parent().unwrap(), size as u64 / 2).await;
        copy.kill().await.unwrap();
        assert!(!target.exists());
        site.restart_hub().await;
        site.kill_node().await;
        site.start_node().await;
        let printed = site.ok(&args).await;
        let file: serde_json::Value = serde_json::from_str(printed.lines().next().unwrap()).unwrap();
        assert!(file["resumed_at"].as_u64().unwrap() >= 8 << 20, "{printed}");
        Site::assert_no_partial_files(target.parent().unwrap());
    }
    assert_eq!(hash(&site.local_path("up")), hash(&site.on_node("up")));
    assert_eq!(hash(&site.local_path("down")), hash(&site.on_node("down")));
}

#[tokio::test]
async fn copy_waits_for_a_restarting_hub() {
    let mut site = Site::new().await;
    let size = 32 << 20;
    std::fs::write(site.local_path("up"), random_bytes(size, 5)).unwrap();
    let mut copy = site.command(&["cp", "up", "nas:up"]).spawn().unwrap();
    wait_for_part(&site.on_node(""), size as u64 / 4).await;
    site.restart_hub().await;
    let ended = tokio::time::timeout(TIMEOUT, copy.wait()).await.expect("in time").unwrap();
    assert!(ended.success(), "{ended}");
    assert_eq!(hash(&site.local_path("up")), hash(&site.on_node("up")));
}

#[tokio::test]
async fn source_changed_during_the_copy_makes_it_fail() {
    let site = Site::new().await;
    let size = 48 << 20;
    std::fs::write(site.on_node("log"), random_bytes(size, 6)).unwrap();
    std::fs::write(site.local_path("log2"), random_bytes(size, 7)).unwrap();
    for (args, source, target) in [
        (["cp", "nas:log", "log"], site.on_node("log"), site.local_path("log")),
        (["cp", "log2", "nas:log2"], site.local_path("log2"), site.on_node("log2")),
    ] {
        let mut command = site.command(&args);
        let copy = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
        wait_for_part(target.parent().unwrap(), size as u64 / 4).await;
        // The size stays the same; only the modification time shows the change.
        use std::os::unix::fs::FileExt as _;
        let file = std::fs::OpenOptions::new().write(true).open(&source).unwrap();
        file.write_all_at(b"other", size as u64 - 10).unwrap();
        let output = tokio::time::timeout(TIMEOUT, copy.wait_with_output()).await.expect("in time").unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && stderr.contains("changed during the copy"), "{stderr}");
        assert!(!target.exists());
        Site::assert_no_partial_files(target.parent().unwrap());
    }
}

#[tokio::test]
async fn damaged_part_is_sent_again_and_never_becomes_the_target() {
    let site = Site::new().await;
    let size = 32 << 20;
    std::fs::write(site.local_path("up"), random_bytes(size, 8)).unwrap();
    let mut copy = site.command(&["cp", "up", "nas:up"]).spawn().unwrap();
    wait_for_part(&site.on_node(""), size as u64 / 2).await;
    // Another process changes the partial file.
    let entries = std::fs::read_dir(site.on_node("")).unwrap().flatten();
    let part = entries
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|it| it == "part"))
        .unwrap();
    use std::os::unix::fs::FileExt as _;
    std::fs::OpenOptions::new().write(true).open(part).unwrap().write_all_at(b"damage", 1000).unwrap();
    let ended = tokio::time::timeout(TIMEOUT, copy.wait()).await.expect("in time").unwrap();
    assert!(ended.success(), "{ended}");
    assert_eq!(hash(&site.local_path("up")), hash(&site.on_node("up")));
    Site::assert_no_partial_files(&site.on_node(""));

    // An upload whose hash differs from the announced one, by direct calls of the tool.
    let call = async |arguments: serde_json::Value| {
        let text = arguments.to_string();
        let args = ["tools", "call", "transfer", "--node", "nas", "--json", "--json-args", &text];
        let printed: serde_json::Value = serde_json::from_str(&site.ok(&args).await).unwrap();
        printed["structured"].clone()
    };
    let arguments = |action: &str| serde_json::json!({ "action": action, "path": "~/wrong", "size": 4, "sha256": "0".repeat(64) });
    assert_eq!(call(arguments("begin")).await["received"], 0);
    let mut write = arguments("write");
    write["data"] = "YWJjZA==".into();
    write["offset"] = 0.into();
    assert_eq!(call(write).await["received"], 4);
    assert_eq!(call(arguments("finish")).await["damaged"], true);
    assert!(!site.on_node("wrong").exists());
    Site::assert_no_partial_files(&site.on_node(""));
}
