//! After many reconnects the hub has as many processes, sockets and files, and as much memory, as before them.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use plexus_proto::api::UpstreamState;
use plexus_testkit::TestHub;
use plexus_testkit::fixture::{Eras, FixtureProcess};
use serde_json::json;

use super::script::Script;
use super::{agent, quick, text};

/// What this process holds. Tests run in processes of their own, so it is all the hub's.
#[derive(Clone, PartialEq, Eq)]
struct Holdings {
    /// What each open file is of, other than sockets.
    files: Vec<String>,
    sockets: usize,
    children: BTreeSet<String>,
    tasks: usize,
    resident_kib: usize,
}

impl Holdings {
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

    /// The same but for which processes they are, and memory.
    fn counts(&self) -> [usize; 4] {
        [self.files.len(), self.sockets, self.children.len(), self.tasks]
    }
}

impl fmt::Debug for Holdings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [files, sockets, children, tasks] = self.counts();
        write!(
            f,
            "{files} files, {sockets} sockets, {children} children, {tasks} tasks, {} KiB",
            self.resident_kib
        )
    }
}

/// What the hub holds once its counts are at most these again, or when they never are. What a connection leaves is
/// taken away a moment after it has ended.
async fn at_rest(hub: &TestHub, counts: Option<[usize; 4]>) -> Holdings {
    let mut now = Holdings::now(hub);
    for _ in 0..100 {
        let fine = |wanted: [usize; 4]| now.counts().iter().zip(wanted).all(|(now, wanted)| *now <= wanted);
        if counts.is_some_and(fine) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        now = Holdings::now(hub);
    }
    now
}

/// What there was before so many reconnects, and after them.
async fn reconnects(rounds: usize, warm: usize) -> String {
    let hub = TestHub::start_timed(quick()).await;
    let client = agent(&hub).await;
    // A process of its own: what it keeps is not the hub's.
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
    let before = at_rest(&hub, None).await;
    for _ in 0..rounds {
        round().await;
    }
    let after = at_rest(&hub, Some(before.counts())).await;
    let ([files, sockets, rest @ ..], [files_now, sockets_now, rest_now @ ..]) =
        (before.counts(), after.counts());
    // The database may have opened one more of its few connections.
    assert!(files_now <= files + 2, "{before:?} → {after:?}\n{:#?}\n{:#?}", before.files, after.files);
    // A list that was read beside the call had a connection of its own, which is kept for the next one for a while.
    assert!(sockets_now <= sockets + 1, "{before:?} → {after:?}");
    assert!(rest_now.iter().zip(rest).all(|(now, was)| *now <= was), "{before:?} → {after:?}");
    // Each reconnect may leave a few bytes behind in caches and the allocator, and no more.
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
