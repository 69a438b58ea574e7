//! A proxy whose disk is full, read-only or damaged, or whose clock is wrong: it says so, and what it had accepted is done
//! once, in order, when the hub is back.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use plexus_store::outbox::{NewWrite, WriteFilter, WriteState};
use plexus_testkit::faults::Write;
use plexus_testkit::{HubProcess, Link, Plexus, WallClock};
use serde_json::{Value, json};

use crate::proxied::{Proxied, Told};

/// For what was kept to be delivered: longer than what a killed proxy had under way is left alone.
const DRAIN: Duration = Duration::from_secs(30);
const DAY: i64 = 24 * 60 * 60;

/// A hub that can go away and come back, and an agent behind a proxy.
struct Stage {
    plexus: Plexus,
    hub: Option<HubProcess>,
    link: Link,
    agent: Proxied,
    machine: Arc<Plexus>,
    /// What was accepted, in order.
    accepted: Vec<String>,
}

impl Stage {
    async fn new() -> Self {
        Self::on(crate::plexus()).await
    }

    /// The proxy runs in this home.
    async fn on(machine: Plexus) -> Self {
        let plexus = crate::plexus();
        let hub = plexus.up().await;
        let token = hub.token("ann").await;
        let link = Link::to(hub.address()).await;
        let machine = Arc::new(machine);
        let agent = Proxied::new(machine.clone(), format!("http://{}", link.address()), &token.token, "ann");
        Self { plexus, hub: Some(hub), link, agent, machine, accepted: vec![] }
    }

    /// Starts the proxy, which gets to know the tools, and takes the hub away.
    async fn alone(mut self) -> Self {
        self.agent.start().await.expect("the proxy starts");
        let tools = self.agent.tools().await.expect("the proxy answers");
        assert!(tools.iter().any(|tool| tool == "scratchpad"), "{tools:?}");
        self.hub_leaves().await;
        self
    }

    async fn hub_leaves(&mut self) {
        self.hub.take().expect("a hub").kill().await;
    }

    async fn hub_returns(&mut self) {
        let hub = self.plexus.up().await;
        self.link.point_at(hub.address());
        self.hub = Some(hub);
    }

    /// One write, with so much text beside its marker.
    async fn write(&mut self, more: usize) -> Told {
        let marker = format!("w0.0.{};", self.accepted.len());
        let content = format!("{marker} {}\n", "x".repeat(more));
        let arguments = json!({ "action": "append", "section": "log", "content": content });
        let told = self.agent.write("scratchpad", arguments, None).await.expect("the proxy answers");
        if !matches!(told, Told::Refused(_)) {
            self.accepted.push(marker);
        }
        told
    }

    async fn write_queued(&mut self, count: usize) {
        for _ in 0..count {
            let told = self.write(0).await;
            assert_eq!(told, Told::Queued, "{}", self.agent.log());
        }
    }

    /// Waits until what was accepted is there, and all of it is, once and in order.
    async fn all_is_done(&mut self) {
        let begun = Instant::now();
        loop {
            let found = self.found().await;
            if found.len() >= self.accepted.len() || begun.elapsed() > DRAIN {
                assert_eq!(found, self.accepted, "{}", self.agent.log());
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn found(&mut self) -> Vec<String> {
        let arguments = json!({ "action": "read", "section": "log" });
        let answer = self.agent.call("scratchpad", arguments, None).await.expect("the proxy answers");
        let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_default();
        Write::markers(text).map(str::to_owned).collect()
    }

    /// The proxy is killed, and its log folded into the file.
    async fn killed_and_folded(&mut self) {
        self.agent.kill().await;
        self.agent.outbox().await.close().await.expect("the log is folded into the file");
    }

    /// Writes over what is in the file at this place.
    fn damage(&self, at: u64, bytes: &[u8]) {
        use std::os::unix::fs::FileExt;
        let file = std::fs::OpenOptions::new().write(true).open(self.agent.folder().join("outbox.db"));
        file.expect("the outbox").write_all_at(bytes, at).expect("it can be written to");
    }

    /// Where this text is in the file. What is not used of a page may hold a copy.
    fn places_of(&self, text: &str) -> Vec<u64> {
        let bytes = std::fs::read(self.agent.folder().join("outbox.db")).expect("the outbox");
        let windows = bytes.windows(text.len()).enumerate();
        windows.filter(|(_, window)| *window == text.as_bytes()).map(|(at, _)| at as u64).collect()
    }

    /// Whether there is a damaged file that was moved aside.
    fn has_moved_aside(&self) -> bool {
        let entries = std::fs::read_dir(self.agent.folder()).expect("a folder").flatten();
        let names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.iter().any(|name| name.contains(".corrupt-"))
    }
}

/// A program that starts another where the folder is mounted as the script does it; none where this machine allows no such
/// thing, which is a failure in CI.
fn mounted(folder: &Path, script: &str) -> Option<Vec<String>> {
    std::fs::create_dir_all(folder).expect("a folder");
    let ways: [&[&str]; 2] = [&["unshare", "--mount"], &["unshare", "--user", "--map-root-user", "--mount"]];
    let script = format!("{script} && exec \"$@\"");
    let words = |way: &[&str]| -> Vec<String> {
        let own = ["sh", "-c", &script, "sh"].map(str::to_owned);
        let mut words: Vec<String> = way.iter().map(|&word| word.to_owned()).collect();
        words.extend(own);
        words
    };
    let works = |words: &Vec<String>| {
        let tried = std::process::Command::new(&words[0]).args(&words[1..]).arg("true").output();
        tried.is_ok_and(|tried| tried.status.success())
    };
    let found = ways.iter().map(|way| words(way)).find(works);
    if found.is_none() {
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "CI must be able to mount");
        eprintln!("left out: nothing can be mounted here");
    }
    found
}

#[tokio::test]
async fn a_full_disk_is_told_and_what_was_accepted_before_is_done() {
    let mut stage = Stage::new().await;
    let data = stage.machine.data_dir();
    let script = format!("mount -t tmpfs -o size=4m,mode=700 tmpfs '{}'", data.display());
    let Some(words) = mounted(&data, &script) else { return };
    stage.agent = stage.agent.through(&words);
    let mut stage = stage.alone().await;
    stage.write_queued(5).await;
    // Somebody else's.
    let ballast = stage.agent.root().join(data.strip_prefix("/").expect("an absolute path")).join("ballast");
    let filled = std::fs::write(&ballast, vec![0; 8 << 20]).expect_err("it does not fit");
    assert_eq!(filled.kind(), std::io::ErrorKind::StorageFull);
    let mut refused = None;
    for _ in 0..50 {
        // What is left of the last page of the file, and of its log.
        if let Told::Refused(why) = stage.write(20_000).await {
            refused = Some(why);
            break;
        }
    }
    let refused = refused.expect("a write that is not stored is refused");
    assert!(refused.contains("no disk space left") && refused.contains("free some space"), "{refused}");
    stage.hub_returns().await;
    // The disk is full of what is not ours: nothing is lost, whatever can be noted down meanwhile.
    std::fs::remove_file(&ballast).expect("it can be removed");
    stage.all_is_done().await;
    stage.hub_leaves().await;
    stage.write_queued(1).await;
    stage.hub_returns().await;
    stage.all_is_done().await;
}

#[tokio::test]
async fn a_folder_that_can_only_be_read_is_told_and_what_was_accepted_before_is_done() {
    let mut stage = Stage::new().await.alone().await;
    stage.write_queued(5).await;
    stage.agent.kill().await;
    let data = stage.machine.data_dir();
    let shown = data.display();
    let script = format!("mount --bind '{shown}' '{shown}' && mount -o remount,bind,ro '{shown}'");
    let Some(words) = mounted(&data, &script) else { return };
    stage.agent = stage.agent.through(&words);
    assert!(stage.agent.start().await.is_err() || stage.agent.tools().await.is_err(), "it serves");
    assert!(!stage.agent.ended().await.success());
    let log = stage.agent.log();
    let told = log.contains("needs a writable folder") || log.contains("Read-only");
    assert!(told && log.contains("PLEXUS_DATA_DIR"), "{log}");
    stage.agent = stage.agent.through(&[]);
    stage.agent.start().await.expect("the proxy starts");
    stage.hub_returns().await;
    stage.all_is_done().await;
}

#[tokio::test]
async fn an_outbox_that_is_damaged_at_the_start_is_told_and_goes_on() {
    let mut stage = Stage::new().await.alone().await;
    stage.write_queued(40).await;
    stage.killed_and_folded().await;
    // Without it SQLite can do nothing at all.
    stage.damage(0, &[0xa5; 100]);
    stage.agent.start().await.expect("the proxy starts");
    stage.write_queued(5).await;
    assert!(stage.agent.log().contains("the outbox was damaged"), "{}", stage.agent.log());
    assert!(stage.has_moved_aside());
    stage.hub_returns().await;
    stage.all_is_done().await;
}

#[tokio::test]
async fn a_write_that_is_damaged_while_the_outbox_is_used_is_told_and_the_others_go_on() {
    let mut stage = Stage::new().await.alone().await;
    stage.write_queued(40).await;
    stage.killed_and_folded().await;
    stage.agent.start().await.expect("the proxy starts");
    stage.agent.tools().await.expect("the proxy answers");
    assert!(!stage.agent.log().contains("the outbox was damaged"), "{}", stage.agent.log());
    let other = stage.agent.outbox().await;
    let lost = stage.accepted.remove(20);
    let places = stage.places_of(&lost);
    assert!(!places.is_empty(), "{lost} is not in the file");
    for place in places {
        stage.damage(place, b"what");
    }
    // After a change by another process nobody goes by what is in memory of the file.
    let write = NewWrite {
        key: "another".to_owned(),
        session: "another".to_owned(),
        client: json!({ "name": "testkit", "version": "1" }).to_string(),
        tool: "todo".to_owned(),
        params: json!({ "name": "todo", "arguments": { "action": "add", "text": "more" } }).to_string(),
    };
    other.enqueue(write).await.expect("it is stored");
    stage.hub_returns().await;
    stage.all_is_done().await;
    assert!(stage.agent.log().contains("the outbox was damaged"), "{}", stage.agent.log());
    assert!(stage.has_moved_aside());
}

#[tokio::test]
async fn what_a_killed_proxy_was_sending_is_sent_by_the_next_one() {
    let mut stage = Stage::new().await.alone().await;
    stage.write_queued(100).await;
    let outbox = stage.agent.outbox().await;
    stage.hub_returns().await;
    let begun = Instant::now();
    while outbox.counts().await.expect("an outbox").pending == 100 {
        assert!(begun.elapsed() < DRAIN, "{}", stage.agent.log());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // Amid the others, so that one is under way.
    stage.link.freeze();
    while !outbox.list(WriteFilter::Pending, 0, 1).await.expect("an outbox").iter().any(is_sent_now) {
        assert!(begun.elapsed() < DRAIN, "{}", stage.agent.log());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    stage.agent.kill().await;
    stage.link.cut();
    stage.link.heal();
    stage.agent.start().await.expect("the proxy starts");
    stage.all_is_done().await;
}

fn is_sent_now(write: &plexus_store::outbox::Write) -> bool {
    matches!(write.state, WriteState::Sending { .. })
}

#[tokio::test]
async fn a_clock_that_is_days_off_loses_nothing_and_one_that_is_weeks_off_tells() {
    let Some(clock) = WallClock::new().await else { return };
    clock.set(2 * DAY);
    let mut stage = Stage::on(clock.of(crate::plexus())).await.alone().await;
    stage.write_queued(3).await;
    clock.set(-2 * DAY);
    stage.write_queued(3).await;
    stage.agent.kill().await;
    clock.set(0);
    stage.agent.start().await.expect("the proxy starts");
    stage.write_queued(3).await;
    stage.hub_returns().await;
    stage.all_is_done().await;

    // Older than a hub remembers keys, says this clock: it is not sent, and not forgotten.
    stage.hub_leaves().await;
    stage.write_queued(1).await;
    let late = stage.accepted.pop().expect("the newest");
    clock.set(30 * DAY);
    stage.hub_returns().await;
    let outbox = stage.agent.outbox().await;
    let begun = Instant::now();
    while outbox.counts().await.expect("an outbox").dead == 0 {
        assert!(begun.elapsed() < DRAIN, "{}", stage.agent.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let letter = outbox.list(WriteFilter::Dead, 0, 10).await.expect("an outbox").remove(0);
    let (_, params) = outbox.show(letter.id).await.expect("an outbox").expect("the letter");
    assert!(params.contains(&late), "{params}");
    let begun = Instant::now();
    loop {
        let call = stage.agent.call("todo", json!({ "action": "list" }), None).await;
        let answer: Value = call.expect("the proxy answers");
        if answer.to_string().contains(&letter.key) {
            break;
        }
        assert!(begun.elapsed() < DRAIN, "the agent is not told: {answer}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    stage.all_is_done().await;
}
