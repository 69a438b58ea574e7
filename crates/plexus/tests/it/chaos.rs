//! Servers that crash, hang, send garbage, flood or are frozen must not affect two healthy ones beside them.

use std::path::Path;
use std::time::{Duration, Instant};

use plexus_testkit::fixture::{Eras, FixtureProcess, program};
use plexus_testkit::{HubProcess, McpClient, Plexus};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// How long each healthy server is called, and by how many clients at once.
const LOAD: Duration = Duration::from_secs(4);
const CLIENTS: usize = 2;
const HEALTHY: [&str; 2] = ["healthy-stdio", "healthy-http"];
/// The faulty servers and their faults.
const FAULTY: [(&str, &str); 5] = [
    ("crashes", "crash-at-start"),
    ("crashes-later", "crash-after=3"),
    ("hangs", "hang-on-calls"),
    ("garbles", "garbage"),
    ("floods", "flood=1000"),
];
const FROZEN: &str = "frozen";

/// Reloads the servers, and waits until this many are ready.
pub(crate) async fn ready(plexus: &Plexus, hub: &HubProcess, servers: usize) {
    plexus.run(&["upstream", "reload"]).await;
    hub.api_until("/api/v1/status", |status| status["upstreams"]["ready"] == servers).await;
}

fn write(hub: &HubProcess, name: &str, file: &Value) {
    let folder = hub.data_dir().join("mcp_servers.d");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(format!("{name}.json")), file.to_string()).unwrap();
}

fn stdio_server(args: &[&str]) -> Value {
    // A short timeout, so that calls of a faulty server fail soon.
    let args = [&["--stdio"], args].concat();
    json!({ "command": program(), "args": args, "timeout": "1s" })
}

async fn upstream(hub: &HubProcess, name: &str) -> Value {
    hub.api(&format!("/api/v1/upstreams/{name}")).await
}

/// Durations of calls to the healthy servers, by several clients each. No call may fail.
async fn load(hub: &HubProcess, token: &str) -> Vec<Duration> {
    let mut clients = JoinSet::new();
    let until = Instant::now() + LOAD;
    for number in 0..CLIENTS * HEALTHY.len() {
        let (mcp, server) = (hub.mcp(token), HEALTHY[number % HEALTHY.len()]);
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

/// The results of calls to one faulty server.
struct CallTally {
    server: &'static str,
    answered: usize,
    failed: Vec<String>,
}

/// Calls a faulty server until the load ends. The hub must answer every call.
async fn call_until(mcp: McpClient, server: &'static str, until: Instant) -> CallTally {
    let mut tally = CallTally { server, answered: 0, failed: vec![] };
    while Instant::now() < until {
        let call = json!({ "name": tool(server), "arguments": { "text": "x" } });
        let answer = mcp.modern("tools/call", call).await.json();
        match answer["result"]["isError"] == true || answer.get("error").is_some() {
            true => tally.failed.push(answer.to_string()),
            false => {
                assert_eq!(answer["result"]["content"][0]["text"], "x", "{server}");
                tally.answered += 1;
            }
        }
        // The pace of a model that keeps retrying.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    tally
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
async fn chaos_in_some_servers_does_not_affect_the_others() {
    let plexus = crate::plexus();
    let hub = plexus.up().await;
    let http_fixture = FixtureProcess::start(Eras::Stateless).await;
    write(&hub, HEALTHY[0], &json!({ "command": program(), "args": ["--stdio"] }));
    write(&hub, HEALTHY[1], &json!({ "url": http_fixture.url() }));
    ready(&plexus, &hub, HEALTHY.len()).await;
    let (token, other_token) = (hub.token("healthy").await.token, hub.token("other").await.token);
    // Warms up connections and caches.
    load(&hub, &token).await;
    let mut baseline = load(&hub, &token).await;

    for (name, how) in FAULTY {
        write(&hub, name, &stdio_server(&["--misbehave", how]));
    }
    write(&hub, FROZEN, &stdio_server(&[]));
    // All but the one that crashes at its start.
    ready(&plexus, &hub, HEALTHY.len() + FAULTY.len()).await;
    let frozen = upstream(&hub, FROZEN).await["pid"]
        .as_i64()
        .and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?))
        .unwrap();
    kill_process(frozen, Signal::STOP).unwrap();
    let mut callers = JoinSet::new();
    for name in FAULTY.iter().map(|(name, _)| *name).chain([FROZEN]) {
        callers.spawn(call_until(hub.mcp(&other_token), name, Instant::now() + LOAD));
    }
    let mut chaos = load(&hub, &token).await;
    for CallTally { server, answered, failed } in callers.join_all().await {
        let worst = failed.first().map_or("", String::as_str);
        eprintln!("{server}: {answered} calls answered, {} failed; the first: {worst}", failed.len());
        // Otherwise the fault did not occur.
        let expected = match server {
            "floods" => answered > 0,
            "crashes-later" => answered > 0 && !failed.is_empty(),
            _ => answered == 0 && !failed.is_empty(),
        };
        assert!(expected, "{server}");
    }

    let [baseline_p99, chaos_p99] = [&mut baseline, &mut chaos].map(|times| quantile(times, 0.99));
    eprintln!(
        "{} calls without faults: p50 {:.2?}, p99 {baseline_p99:.2?}; {} with faults: p50 {:.2?}, p99 {chaos_p99:.2?}; p99 {:.2} times",
        baseline.len(),
        quantile(&mut baseline.clone(), 0.5),
        chaos.len(),
        quantile(&mut chaos.clone(), 0.5),
        chaos_p99.as_secs_f64() / baseline_p99.as_secs_f64(),
    );
    let crashed = upstream(&hub, "crashes").await;
    assert!(["down", "failed", "starting"].contains(&crashed["state"].as_str().unwrap()), "{crashed}");
    assert!(crashed["last_error"].to_string().contains("ends before it has read anything"), "{crashed}");
    for name in HEALTHY {
        let healthy = upstream(&hub, name).await;
        assert_eq!((&healthy["state"], &healthy["restarts"]), (&json!("ready"), &json!(0)), "{healthy}");
    }
    let all = hub.list("/api/v1/upstreams", |_| false).await;
    let pids: Vec<u64> = all.iter().filter_map(|upstream| upstream["pid"].as_u64()).collect();
    assert!(hub.terminate().await.success());
    for pid in pids {
        assert!(!Path::new(&format!("/proc/{pid}")).exists(), "process {pid} outlives its hub");
    }
}
