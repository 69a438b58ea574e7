//! Servers that crash, hang, talk nonsense, flood and stand still, beside two that are well and must not notice.

use std::path::Path;
use std::time::{Duration, Instant};

use plexus_testkit::fixture::{Eras, FixtureProcess, program};
use plexus_testkit::{HubProcess, McpClient, Plexus};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::task::JoinSet;

const PATIENCE: Duration = Duration::from_secs(60);
/// How long each of the two is called, and from how many clients at once.
const LOAD: Duration = Duration::from_secs(4);
const CLIENTS: usize = 2;
const WELL: [&str; 2] = ["well-stdio", "well-http"];
/// The bad ones, and how each is bad.
const UNWELL: [(&str, &str); 5] = [
    ("crashes", "crash-at-start"),
    ("crashes-later", "crash-after=3"),
    ("hangs", "hang-on-calls"),
    ("babbles", "garbage"),
    ("floods", "flood=1000"),
];
const STOPPED: &str = "stands-still";

/// Returns when so many servers are ready, after the hub has read its files.
pub(crate) async fn ready(plexus: &Plexus, hub: &HubProcess, servers: usize) {
    let reloaded = plexus.run(&["upstream", "reload"]).await;
    let waited = tokio::time::timeout(PATIENCE, async {
        while hub.api("/api/v1/status").await["upstreams"]["ready"] != servers {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    if waited.await.is_err() {
        let listed = plexus.run(&["upstream", "list"]).await;
        panic!("not all {servers} servers are up in time: {reloaded:?} {listed:?}");
    }
}

fn write(hub: &HubProcess, name: &str, file: &Value) {
    let folder = hub.data_dir().join("mcp_servers.d");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(format!("{name}.json")), file.to_string()).unwrap();
}

fn stdio(args: &[&str]) -> Value {
    // Whoever waits for a bad one is told soon.
    let args = [&["--stdio"], args].concat();
    json!({ "command": program(), "args": args, "timeout": "1s" })
}

async fn upstream(hub: &HubProcess, name: &str) -> Value {
    hub.api(&format!("/api/v1/upstreams/{name}")).await
}

/// Times of calls to the two that are well, each from several clients; a call that fails ends the test.
async fn load(hub: &HubProcess, token: &str) -> Vec<Duration> {
    let mut clients = JoinSet::new();
    let until = Instant::now() + LOAD;
    for number in 0..CLIENTS * WELL.len() {
        let (mcp, server) = (hub.mcp(token), WELL[number % WELL.len()]);
        clients.spawn(async move {
            let mut times = Vec::new();
            while Instant::now() < until {
                let text = format!("{server} {number} {}", times.len());
                let begun = Instant::now();
                let result = mcp.tool(&tool(server), json!({ "text": text })).await;
                times.push(begun.elapsed());
                assert_eq!(
                    (&result["content"][0]["text"], &result["isError"] == true),
                    (&json!(text), false),
                    "{result}"
                );
            }
            times
        });
    }
    clients.join_all().await.concat()
}

fn tool(server: &str) -> String {
    format!("mcp__{}__echo", server.replace('-', "_"))
}

/// What calls of one bad server came to.
struct Pestered {
    server: &'static str,
    answered: usize,
    failed: Vec<String>,
}

/// Calls a bad server for as long as the others are called. Whatever it does, the hub has an answer.
async fn pester(mcp: McpClient, server: &'static str, until: Instant) -> Pestered {
    let mut pestered = Pestered { server, answered: 0, failed: vec![] };
    while Instant::now() < until {
        let call = json!({ "name": tool(server), "arguments": { "text": "x" } });
        let answer = mcp.modern("tools/call", call).await.json();
        match answer["result"]["isError"] == true || answer.get("error").is_some() {
            true => pestered.failed.push(answer.to_string()),
            false => {
                assert_eq!(answer["result"]["content"][0]["text"], "x", "{server}");
                pestered.answered += 1;
            }
        }
        // At the pace of a model that does not give up.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    pestered
}

fn quantile(times: &mut [Duration], part: f64) -> Duration {
    times.sort_unstable();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a rank"
    )]
    let rank = ((times.len() as f64 * part) as usize).min(times.len() - 1);
    times[rank]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chaos_among_some_servers_is_not_noticed_at_the_others() {
    let plexus = crate::plexus();
    let hub = plexus.up().await;
    let web = FixtureProcess::start(Eras::Stateless).await;
    write(&hub, WELL[0], &json!({ "command": program(), "args": ["--stdio"] }));
    write(&hub, WELL[1], &json!({ "url": web.url() }));
    ready(&plexus, &hub, WELL.len()).await;
    let (token, pest) = (hub.token("well").await.token, hub.token("pest").await.token);
    // The first calls pay for connections and caches.
    load(&hub, &token).await;
    let mut quiet = load(&hub, &token).await;

    for (name, how) in UNWELL {
        write(&hub, name, &stdio(&["--misbehave", how]));
    }
    write(&hub, STOPPED, &stdio(&[]));
    // All but the one that never comes up.
    ready(&plexus, &hub, WELL.len() + UNWELL.len()).await;
    let stopped = upstream(&hub, STOPPED).await["pid"]
        .as_i64()
        .and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?))
        .unwrap();
    kill_process(stopped, Signal::STOP).unwrap();
    let mut pests = JoinSet::new();
    for name in UNWELL.iter().map(|(name, _)| *name).chain([STOPPED]) {
        pests.spawn(pester(hub.mcp(&pest), name, Instant::now() + LOAD));
    }
    let mut chaos = load(&hub, &token).await;
    for Pestered { server, answered, failed } in pests.join_all().await {
        let worst = failed.first().map_or("", String::as_str);
        eprintln!("{server}: {answered} calls answered, {} failed; the first: {worst}", failed.len());
        // Or there was no chaos.
        let expected = match server {
            "floods" => answered > 0,
            "crashes-later" => answered > 0 && !failed.is_empty(),
            _ => answered == 0 && !failed.is_empty(),
        };
        assert!(expected, "{server}");
    }

    let [quiet_p99, chaos_p99] = [&mut quiet, &mut chaos].map(|times| quantile(times, 0.99));
    eprintln!(
        "{} calls in quiet: p50 {:.2?}, p99 {quiet_p99:.2?}; {} amid chaos: p50 {:.2?}, p99 {chaos_p99:.2?}; p99 {:.2} times",
        quiet.len(),
        quantile(&mut quiet.clone(), 0.5),
        chaos.len(),
        quantile(&mut chaos.clone(), 0.5),
        chaos_p99.as_secs_f64() / quiet_p99.as_secs_f64(),
    );
    let crashed = upstream(&hub, "crashes").await;
    assert!(["down", "failed", "starting"].contains(&crashed["state"].as_str().unwrap()), "{crashed}");
    assert!(crashed["last_error"].to_string().contains("ends before it has read anything"), "{crashed}");
    for name in WELL {
        let well = upstream(&hub, name).await;
        assert_eq!((&well["state"], &well["restarts"]), (&json!("ready"), &json!(0)), "{well}");
    }
    let all = hub.list("/api/v1/upstreams", |_| false).await;
    let pids: Vec<u64> = all.iter().filter_map(|upstream| upstream["pid"].as_u64()).collect();
    assert!(hub.terminate().await.success());
    for pid in pids {
        assert!(!Path::new(&format!("/proc/{pid}")).exists(), "process {pid} outlives its hub");
    }
}
