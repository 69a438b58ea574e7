//! After many reconnects the hub uses as many processes, sockets and files, and as much memory, as before.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use plexus_proto::api::UpstreamState;
use plexus_testkit::TestHub;
use plexus_testkit::fixture::{Eras, FixtureProcess};
use serde_json::json;

use super::script::Script;
use super::{agent, fast_timing, text};

/// The resources of this process. Tests run in their own processes, so all of it belongs to the hub.
#[derive(Clone, PartialEq, Eq)]
struct ResourceUsage {
    /// The targets of the open files other than sockets.
    files: Vec<String>,
    sockets: usize,
    children: BTreeSet<String>,
    tasks: usize,
    resident_kib: usize,
}

impl ResourceUsage {
    fn now(hub: &TestHub) -> Self {
        let links = std::fs::read_dir("/proc/self/fd").unwrap();
        let links: Vec<_> = links.filter_map(|fd| std::fs::read_link(fd.unwrap().path()).ok()).collect();
        let links = links.iter().map(|link| link.to_string_lossy().into_owned());
        let (sockets, mut files): (Vec<_>, Vec<_>) = links.partition(|link| link.starts_with("socket:"));
        files.sort_unstable();
        let children = std::fs::read_dir("/proc/self/task").unwrap().flat_map(|task| {
            let children = std::fs::read_to_string(task.unwrap().path().join("children")).unwrap_or_default();
            children.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        });
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        Self {
            files,
            sockets: sockets.len(),
            children: children.collect(),
            tasks: hub.tasks(),
            resident_kib: resident.trim().trim_end_matches(" kB").parse().unwrap(),
        }
    }

    /// The same without process ids and memory.
    fn counts(&self) -> [usize; 4] {
        [self.files.len(), self.sockets, self.children.len(), self.tasks]
    }
}

impl fmt::Debug for ResourceUsage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [files, sockets, children, tasks] = self.counts();
        write!(
            f,
            "{files} files, {sockets} sockets, {children} children, {tasks} tasks, {} KiB",
            self.resident_kib
        )
    }
}

/// The resources of the hub once its counts have dropped to these again, or after a timeout. What a
/// connection leaves is released a moment after its end.
async fn settled_usage(hub: &TestHub, counts: Option<[usize; 4]>) -> ResourceUsage {
    let mut now = ResourceUsage::now(hub);
    for _ in 0..100 {
        let fine = |limits: [usize; 4]| now.counts().iter().zip(limits).all(|(now, limits)| *now <= limits);
        if counts.is_some_and(fine) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        now = ResourceUsage::now(hub);
    }
    now
}

/// Compares the resources before and after many reconnects.
async fn reconnects(rounds: usize, warm: usize) -> String {
    let hub = TestHub::start_timed(fast_timing()).await;
    let client = agent(&hub).await;
    // A separate process: its resources are not the hub's.
    let http = FixtureProcess::start(Eras::Sessions).await;
    hub.add_upstream("script", &Script::answering("say done").install(&hub, "script")).await;
    hub.add_upstream("http", &json!({ "url": http.url() })).await;
    let round = async || {
        for name in ["script", "http"] {
            assert_eq!(hub.upstreams().restart(name).await.unwrap().state, UpstreamState::Ready);
        }
        assert_eq!(text(&client.tool("mcp__script__work", json!({})).await), "done");
        assert_eq!(text(&client.tool("mcp__http__echo", json!({ "text": "x" })).await), "x");
    };
    for _ in 0..warm {
        round().await;
    }
    let before = settled_usage(&hub, None).await;
    for _ in 0..rounds {
        round().await;
    }
    let after = settled_usage(&hub, Some(before.counts())).await;
    let ([files, sockets, rest @ ..], [files_now, sockets_now, rest_now @ ..]) =
        (before.counts(), after.counts());
    // The database may have opened another of its few connections.
    assert!(files_now <= files + 2, "{before:?} → {after:?}\n{:#?}\n{:#?}", before.files, after.files);
    // A list request concurrent with the call had its own connection, which is kept for reuse for a while.
    assert!(sockets_now <= sockets + 1, "{before:?} → {after:?}");
    assert!(rest_now.iter().zip(rest).all(|(now, was)| *now <= was), "{before:?} → {after:?}");
    // Each reconnect may leave only a few bytes in caches and the allocator.
    let allowed = 8 << 10;
    assert!(after.resident_kib < before.resident_kib + allowed, "{before:?} → {after:?}");
    format!("{rounds} reconnects of each of two servers: {before:?} → {after:?}")
}

#[tokio::test]
async fn hundred_reconnects_leak_nothing() {
    println!("{}", reconnects(50, 10).await);
}

#[tokio::test]
#[ignore = "minutes; make soak"]
async fn thousand_reconnects_leak_nothing() {
    println!("{}", reconnects(1_000, 50).await);
}
