//! Copies that are disturbed: cut wires, killed programs, files that change on their way. Nothing but the whole file is ever
//! in its place.

use std::path::Path;
use std::time::{Duration, Instant};

use aws_lc_rs::digest::{SHA256, digest};
use plexus_testkit::Link;

use super::{PATIENCE, Site, noise};

fn hash(path: &Path) -> Vec<u8> {
    digest(&SHA256, &std::fs::read(path).expect("a file")).as_ref().to_vec()
}

/// Waits until a part of a file in this folder is at least so long.
async fn arrived(folder: &Path, least: u64) {
    let begun = Instant::now();
    loop {
        let entries = std::fs::read_dir(folder).unwrap().flatten();
        let parts = entries.filter(|entry| entry.file_name().to_string_lossy().ends_with(".part"));
        if parts.filter_map(|entry| entry.metadata().ok()).any(|about| about.len() >= least) {
            return;
        }
        assert!(begun.elapsed() < PATIENCE * 2, "nothing arrives in {}", folder.display());
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Which wire is cut: that of the node, which waits ever longer before it dials again, or that of the program.
#[derive(Clone, Copy, PartialEq)]
enum Cut {
    Node,
    Program,
}

/// Copies a file with wires cut on its way, each when some more of it has arrived.
async fn with_cuts(size: usize, cuts: &[Cut], patience: Duration, up: bool) {
    let site = Site::new().await;
    let own = Link::to(site.hub().address()).await;
    let content = noise(size, size as u64);
    let (source, target) = match up {
        true => (site.here("source"), site.there("target")),
        false => (site.there("source"), site.here("target")),
    };
    std::fs::write(&source, &content).unwrap();
    let args = if up { ["cp", "source", "nas:target"] } else { ["cp", "nas:source", "target"] };
    let hub = format!("http://{}", own.address());
    let mut command = site.command(&args);
    let mut copy =
        command.args(["--hub", &hub]).env("PLEXUS_TOKEN", site.hub().admin_token()).spawn().unwrap();
    let folder = target.parent().unwrap();
    for (place, cut) in cuts.iter().enumerate() {
        arrived(folder, (size * (place + 1) / (cuts.len() + 2)) as u64).await;
        assert!(!target.exists(), "nothing is there before it is complete");
        match cut {
            Cut::Node => site.wire.cut(),
            Cut::Program => own.cut(),
        }
    }
    let ended = tokio::time::timeout(patience, copy.wait()).await.expect("in time").unwrap();
    assert!(ended.success(), "{ended}");
    assert_eq!(hash(&source), hash(&target));
    Site::nothing_left_in(folder);
}

/// Ten of them, so that a node is not away for long.
const BOTH: [Cut; 10] = {
    use Cut::{Node, Program};
    [Program, Node, Program, Program, Node, Program, Program, Node, Program, Program]
};

#[tokio::test]
async fn a_file_goes_to_a_node_over_wires_that_are_cut_ten_times() {
    with_cuts(64 << 20, &BOTH, PATIENCE * 2, true).await;
}

#[tokio::test]
async fn a_file_comes_from_a_node_over_wires_that_are_cut_ten_times() {
    with_cuts(64 << 20, &BOTH, PATIENCE * 2, false).await;
}

#[tokio::test]
#[ignore = "long: for make soak"]
async fn a_gigabyte_goes_both_ways_over_a_wire_that_is_cut_ten_times() {
    with_cuts(1 << 30, &[Cut::Node; 10], PATIENCE * 20, true).await;
    with_cuts(1 << 30, &[Cut::Node; 10], PATIENCE * 20, false).await;
}

#[tokio::test]
async fn a_copy_that_was_killed_goes_on_where_it_stopped_also_after_hub_and_node_were() {
    let mut site = Site::new().await;
    let size = 48 << 20;
    std::fs::write(site.here("up"), noise(size, 3)).unwrap();
    std::fs::write(site.there("down"), noise(size, 4)).unwrap();
    for (args, target) in [
        (["cp", "up", "nas:up", "--json"], site.there("up")),
        (["cp", "nas:down", "down", "--json"], site.here("down")),
    ] {
        let mut copy = site.command(&args).stdout(std::process::Stdio::null()).spawn().unwrap();
        arrived(target.parent().unwrap(), size as u64 / 2).await;
        copy.kill().await.unwrap();
        assert!(!target.exists());
        site.restart_hub().await;
        site.kill_node().await;
        site.start_node().await;
        let told = site.ok(&args).await;
        let file: serde_json::Value = serde_json::from_str(told.lines().next().unwrap()).unwrap();
        assert!(file["resumed_at"].as_u64().unwrap() >= 8 << 20, "{told}");
        Site::nothing_left_in(target.parent().unwrap());
    }
    assert_eq!(hash(&site.here("up")), hash(&site.there("up")));
    assert_eq!(hash(&site.here("down")), hash(&site.there("down")));
}

#[tokio::test]
async fn a_hub_that_restarts_is_waited_for() {
    let mut site = Site::new().await;
    let size = 32 << 20;
    std::fs::write(site.here("up"), noise(size, 5)).unwrap();
    let mut copy = site.command(&["cp", "up", "nas:up"]).spawn().unwrap();
    arrived(&site.there(""), size as u64 / 4).await;
    site.restart_hub().await;
    let ended = tokio::time::timeout(PATIENCE, copy.wait()).await.expect("in time").unwrap();
    assert!(ended.success(), "{ended}");
    assert_eq!(hash(&site.here("up")), hash(&site.there("up")));
}

#[tokio::test]
async fn a_file_that_changes_on_its_way_is_not_put_in_its_place() {
    let site = Site::new().await;
    let size = 48 << 20;
    std::fs::write(site.there("log"), noise(size, 6)).unwrap();
    std::fs::write(site.here("log2"), noise(size, 7)).unwrap();
    for (args, source, target) in [
        (["cp", "nas:log", "log"], site.there("log"), site.here("log")),
        (["cp", "log2", "nas:log2"], site.here("log2"), site.there("log2")),
    ] {
        let mut command = site.command(&args);
        let copy = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
        arrived(target.parent().unwrap(), size as u64 / 4).await;
        // In the middle, with the size as it was: only when it was changed tells.
        use std::os::unix::fs::FileExt as _;
        let file = std::fs::OpenOptions::new().write(true).open(&source).unwrap();
        file.write_all_at(b"other", size as u64 - 10).unwrap();
        let output = tokio::time::timeout(PATIENCE, copy.wait_with_output()).await.expect("in time").unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && said.contains("changed during the copy"), "{said}");
        assert!(!target.exists());
        Site::nothing_left_in(target.parent().unwrap());
    }
}

#[tokio::test]
async fn what_arrives_damaged_is_sent_again_and_never_put_in_its_place() {
    let site = Site::new().await;
    let size = 32 << 20;
    std::fs::write(site.here("up"), noise(size, 8)).unwrap();
    let mut copy = site.command(&["cp", "up", "nas:up"]).spawn().unwrap();
    arrived(&site.there(""), size as u64 / 2).await;
    // Somebody on the machine writes into what has arrived.
    let part = std::fs::read_dir(site.there("")).unwrap().flatten();
    let part =
        part.map(|entry| entry.path()).find(|path| path.extension().is_some_and(|it| it == "part")).unwrap();
    use std::os::unix::fs::FileExt as _;
    std::fs::OpenOptions::new().write(true).open(part).unwrap().write_all_at(b"damage", 1000).unwrap();
    let ended = tokio::time::timeout(PATIENCE, copy.wait()).await.expect("in time").unwrap();
    assert!(ended.success(), "{ended}");
    assert_eq!(hash(&site.here("up")), hash(&site.there("up")));
    Site::nothing_left_in(&site.there(""));

    // One whose hash is not what was announced, by calls as anybody could make them.
    let call = async |arguments: serde_json::Value| {
        let text = arguments.to_string();
        let args = ["tools", "call", "transfer", "--node", "nas", "--json", "--json-args", &text];
        let told: serde_json::Value = serde_json::from_str(&site.ok(&args).await).unwrap();
        told["structured"].clone()
    };
    let about = |action: &str| serde_json::json!({ "action": action, "path": "~/wrong", "size": 4, "sha256": "0".repeat(64) });
    assert_eq!(call(about("begin")).await["received"], 0);
    let mut write = about("write");
    write["data"] = "YWJjZA==".into();
    write["offset"] = 0.into();
    assert_eq!(call(write).await["received"], 4);
    assert_eq!(call(about("finish")).await["damaged"], true);
    assert!(!site.there("wrong").exists());
    Site::nothing_left_in(&site.there(""));
}
