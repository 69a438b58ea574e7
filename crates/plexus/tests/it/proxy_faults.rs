//! A proxy with a full, read-only or damaged disk or a wrong clock: it reports the problem, and writes that it has
//! accepted are done once and in order when the hub is back.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use plexus_store::outbox::{NewWrite, WriteFilter, WriteState};
use plexus_testkit::faults::Write;
use plexus_testkit::{FaultyLink, HubProcess, Plexus, WallClock, eventually, until};
use serde_json::{Value, json};

use crate::proxy_client::{ProxyClient, WriteOutcome};

/// Time limit for the first delivery after a restart of the hub.
const DELIVERY: Duration = Duration::from_secs(30);
const DAY: i64 = 24 * 60 * 60;

/// A hub that can be stopped and started, and an agent with a proxy.
struct ProxySetup {
    plexus: Plexus,
    hub: Option<HubProcess>,
    link: FaultyLink,
    agent: ProxyClient,
    machine: Arc<Plexus>,
    /// Markers of the accepted writes, in order.
    accepted: Vec<String>,
}

impl ProxySetup {
    async fn new() -> Self {
        Self::on(crate::plexus()).await
    }

    /// Runs the proxy in this home.
    async fn on(machine: Plexus) -> Self {
        let plexus = crate::plexus();
        let hub = plexus.up().await;
        let token = hub.token("ann").await;
        let link = FaultyLink::to(hub.address()).await;
        let machine = Arc::new(machine);
        let agent =
            ProxyClient::new(machine.clone(), format!("http://{}", link.address()), &token.token, "ann");
        Self { plexus, hub: Some(hub), link, agent, machine, accepted: vec![] }
    }

    /// Starts the proxy, lets it cache the tool list, and stops the hub.
    async fn with_hub_stopped(mut self) -> Self {
        self.agent.start().await.expect("the proxy starts");
        let tools = self.agent.tools().await.expect("the proxy answers");
        assert!(tools.iter().any(|tool| tool == "scratchpad"), "{tools:?}");
        self.stop_hub().await;
        self
    }

    async fn stop_hub(&mut self) {
        self.hub.take().expect("a hub").kill().await;
    }

    async fn start_hub(&mut self) {
        let hub = self.plexus.up().await;
        self.link.point_at(hub.address());
        self.hub = Some(hub);
    }

    /// Makes a write with a marker and `padding` more characters.
    async fn write(&mut self, padding: usize) -> WriteOutcome {
        let marker = format!("w0.0.{};", self.accepted.len());
        let content = format!("{marker} {}\n", "x".repeat(padding));
        let arguments = json!({ "action": "append", "section": "log", "content": content });
        let outcome = self.agent.write("scratchpad", arguments, None).await.expect("the proxy answers");
        if !matches!(outcome, WriteOutcome::Refused(_)) {
            self.accepted.push(marker);
        }
        outcome
    }

    async fn write_queued(&mut self, count: usize) {
        for _ in 0..count {
            let outcome = self.write(0).await;
            assert_eq!(outcome, WriteOutcome::Queued, "{}", self.agent.log());
        }
    }

    /// Waits until all accepted writes are delivered, which must be once and in order.
    async fn check_delivered(&mut self) {
        let delivered = eventually("all accepted writes are delivered", async || {
            let delivered = self.delivered().await;
            if delivered.len() >= self.accepted.len() { Ok(delivered) } else { Err(format!("{delivered:?}")) }
        })
        .await;
        assert_eq!(delivered, self.accepted, "{}", self.agent.log());
    }

    /// The markers in the scratchpad.
    async fn delivered(&mut self) -> Vec<String> {
        let arguments = json!({ "action": "read", "section": "log" });
        let answer = self.agent.call("scratchpad", arguments, None).await.expect("the proxy answers");
        let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_default();
        Write::markers(text).map(str::to_owned).collect()
    }

    /// Kills the proxy, and writes SQLite's log back into the outbox file.
    async fn kill_proxy_and_checkpoint(&mut self) {
        self.agent.kill().await;
        self.agent.outbox().await.close().await.expect("the log is folded into the file");
    }

    /// Overwrites bytes of the outbox file.
    fn overwrite(&self, at: u64, bytes: &[u8]) {
        use std::os::unix::fs::FileExt;
        let file = std::fs::OpenOptions::new().write(true).open(self.agent.folder().join("outbox.db"));
        file.expect("the outbox").write_all_at(bytes, at).expect("it can be written to");
    }

    /// The offsets of a text in the outbox file. Unused parts of a page may contain copies.
    fn offsets_of(&self, text: &str) -> Vec<u64> {
        let bytes = std::fs::read(self.agent.folder().join("outbox.db")).expect("the outbox");
        let windows = bytes.windows(text.len()).enumerate();
        windows.filter(|(_, window)| *window == text.as_bytes()).map(|(at, _)| at as u64).collect()
    }

    /// Whether a damaged outbox file was moved aside.
    fn damaged_file_was_moved(&self) -> bool {
        let entries = std::fs::read_dir(self.agent.folder()).expect("a folder").flatten();
        let names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.iter().any(|name| name.contains(".corrupt-"))
    }
}

/// A wrapper that runs a program in a mount namespace prepared by a script; `None` if this machine does not allow that, which
/// is a failure in CI.
fn mounted(folder: &Path, script: &str) -> Option<Vec<String>> {
    std::fs::create_dir_all(folder).expect("a folder");
    let commands: [&[&str]; 2] =
        [&["unshare", "--mount"], &["unshare", "--user", "--map-root-user", "--mount"]];
    let script = format!("{script} && exec \"$@\"");
    let wrapper = |command: &[&str]| -> Vec<String> {
        let own = ["sh", "-c", &script, "sh"].map(str::to_owned);
        let mut wrapper: Vec<String> = command.iter().map(|&word| word.to_owned()).collect();
        wrapper.extend(own);
        wrapper
    };
    let is_usable = |wrapper: &Vec<String>| {
        let attempt = std::process::Command::new(&wrapper[0]).args(&wrapper[1..]).arg("true").output();
        attempt.is_ok_and(|attempt| attempt.status.success())
    };
    let usable = commands.iter().map(|command| wrapper(command)).find(is_usable);
    if usable.is_none() {
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "CI must be able to mount");
        eprintln!("skipped: nothing can be mounted here");
    }
    usable
}

#[tokio::test]
async fn full_disk_is_reported_and_accepted_writes_are_delivered() {
    let mut setup = ProxySetup::new().await;
    let data = setup.machine.data_dir();
    let script = format!("mount -t tmpfs -o size=4m,mode=700 tmpfs '{}'", data.display());
    let Some(wrapper) = mounted(&data, &script) else { return };
    setup.agent = setup.agent.with_wrapper(&wrapper);
    let mut setup = setup.with_hub_stopped().await;
    setup.write_queued(5).await;
    // A file of another program fills the disk.
    let ballast = setup.agent.root().join(data.strip_prefix("/").expect("an absolute path")).join("ballast");
    let filled = std::fs::write(&ballast, vec![0; 8 << 20]).expect_err("it does not fit");
    assert_eq!(filled.kind(), std::io::ErrorKind::StorageFull);
    let mut refused = None;
    for _ in 0..50 {
        // The first writes may fit into the free parts of pages and log.
        if let WriteOutcome::Refused(why) = setup.write(20_000).await {
            refused = Some(why);
            break;
        }
    }
    let refused = refused.expect("a write that is not stored is refused");
    assert!(refused.contains("no disk space left") && refused.contains("free some space"), "{refused}");
    setup.start_hub().await;
    // While the disk is full nothing is lost, even if the proxy cannot record deliveries.
    std::fs::remove_file(&ballast).expect("it can be removed");
    setup.check_delivered().await;
    setup.stop_hub().await;
    setup.write_queued(1).await;
    setup.start_hub().await;
    setup.check_delivered().await;
}

#[tokio::test]
async fn read_only_folder_is_reported_and_accepted_writes_are_delivered() {
    let mut setup = ProxySetup::new().await.with_hub_stopped().await;
    setup.write_queued(5).await;
    setup.agent.kill().await;
    let data = setup.machine.data_dir();
    let shown = data.display();
    let script = format!("mount --bind '{shown}' '{shown}' && mount -o remount,bind,ro '{shown}'");
    let Some(wrapper) = mounted(&data, &script) else { return };
    setup.agent = setup.agent.with_wrapper(&wrapper);
    assert!(setup.agent.start().await.is_err() || setup.agent.tools().await.is_err(), "it serves");
    assert!(!setup.agent.wait().await.success());
    let log = setup.agent.log();
    let reported = log.contains("needs a writable folder") || log.contains("Read-only");
    assert!(reported && log.contains("PLEXUS_DATA_DIR"), "{log}");
    setup.agent = setup.agent.with_wrapper(&[]);
    setup.agent.start().await.expect("the proxy starts");
    setup.start_hub().await;
    setup.check_delivered().await;
}

#[tokio::test]
async fn outbox_damaged_at_start_is_recovered_and_reported() {
    let mut setup = ProxySetup::new().await.with_hub_stopped().await;
    setup.write_queued(40).await;
    setup.kill_proxy_and_checkpoint().await;
    // The header, without which SQLite cannot open the file.
    setup.overwrite(0, &[0xa5; 100]);
    setup.agent.start().await.expect("the proxy starts");
    setup.write_queued(5).await;
    assert!(setup.agent.log().contains("the outbox was damaged"), "{}", setup.agent.log());
    assert!(setup.damaged_file_was_moved());
    setup.start_hub().await;
    setup.check_delivered().await;
}

#[tokio::test]
async fn write_damaged_in_use_is_reported_and_the_others_are_delivered() {
    let mut setup = ProxySetup::new().await.with_hub_stopped().await;
    setup.write_queued(40).await;
    setup.kill_proxy_and_checkpoint().await;
    setup.agent.start().await.expect("the proxy starts");
    setup.agent.tools().await.expect("the proxy answers");
    assert!(!setup.agent.log().contains("the outbox was damaged"), "{}", setup.agent.log());
    let other = setup.agent.outbox().await;
    let lost = setup.accepted.remove(20);
    let offsets = setup.offsets_of(&lost);
    assert!(!offsets.is_empty(), "{lost} is not in the file");
    for offset in offsets {
        setup.overwrite(offset, b"what");
    }
    // A change by another process invalidates the page cache of the proxy.
    let write = NewWrite {
        key: "another".to_owned(),
        session: "another".to_owned(),
        client: json!({ "name": "testkit", "version": "1" }).to_string(),
        tool: "todo".to_owned(),
        params: json!({ "name": "todo", "arguments": { "action": "add", "text": "more" } }).to_string(),
    };
    other.enqueue(write).await.expect("it is stored");
    setup.start_hub().await;
    setup.check_delivered().await;
    assert!(setup.agent.log().contains("the outbox was damaged"), "{}", setup.agent.log());
    assert!(setup.damaged_file_was_moved());
}

#[tokio::test]
async fn write_in_flight_of_a_killed_proxy_is_sent_by_the_next_proxy() {
    let mut setup = ProxySetup::new().await.with_hub_stopped().await;
    setup.write_queued(100).await;
    let outbox = setup.agent.outbox().await;
    setup.start_hub().await;
    let begun = Instant::now();
    // Not `until`, which would poll too slowly: the queue drains fast.
    while outbox.counts().await.expect("an outbox").pending == 100 {
        assert!(begun.elapsed() < DELIVERY, "{}", setup.agent.log());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // Freezes the connection during the delivery, so that a write is in flight.
    setup.link.freeze();
    until("a write is in flight", async || {
        outbox.list(WriteFilter::Pending, 0, 1).await.expect("an outbox").iter().any(is_in_flight)
    })
    .await;
    setup.agent.kill().await;
    setup.link.cut();
    setup.link.heal();
    setup.agent.start().await.expect("the proxy starts");
    setup.check_delivered().await;
}

fn is_in_flight(write: &plexus_store::outbox::Write) -> bool {
    matches!(write.state, WriteState::Sending { .. })
}

#[tokio::test]
async fn clock_jump_of_days_loses_nothing_and_of_weeks_makes_dead_letters() {
    let Some(clock) = WallClock::new().await else { return };
    clock.set(2 * DAY);
    let mut setup = ProxySetup::on(clock.of(crate::plexus())).await.with_hub_stopped().await;
    setup.write_queued(3).await;
    clock.set(-2 * DAY);
    setup.write_queued(3).await;
    setup.agent.kill().await;
    clock.set(0);
    setup.agent.start().await.expect("the proxy starts");
    setup.write_queued(3).await;
    setup.start_hub().await;
    setup.check_delivered().await;

    // By this clock the write is older than the hub remembers keys: it becomes a dead letter.
    setup.stop_hub().await;
    setup.write_queued(1).await;
    let expired = setup.accepted.pop().expect("the newest");
    clock.set(30 * DAY);
    setup.start_hub().await;
    let outbox = setup.agent.outbox().await;
    until("the write is a dead letter", async || outbox.counts().await.expect("an outbox").dead > 0).await;
    let dead_letter = outbox.list(WriteFilter::Dead, 0, 10).await.expect("an outbox").remove(0);
    let (_, params) = outbox.show(dead_letter.id).await.expect("an outbox").expect("the letter");
    assert!(params.contains(&expired), "{params}");
    eventually("the agent is told of the dead letter", async || {
        let call = setup.agent.call("todo", json!({ "action": "list" }), None).await;
        let answer: Value = call.expect("the proxy answers");
        if answer.to_string().contains(&dead_letter.key) { Ok(()) } else { Err(answer) }
    })
    .await;
    setup.check_delivered().await;
}
