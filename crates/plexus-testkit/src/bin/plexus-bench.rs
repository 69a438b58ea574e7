//! `make bench`: what a hub costs, printed as a table.
//!
//! Every row of calls is measured in the same run and with the same client: first a bare HTTP server
//! that answers with a fixed body (what the machine and HTTP alone cost), then the hub with
//! everything on: authentication, scopes, validation, session log and durable audit.

#![expect(
    clippy::print_stdout,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a tool that reports to its caller"
)]

use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const LATENCY_CALLS: usize = 3_000;
const LOAD_CALLS: usize = 30_000;
const CONCURRENCY: usize = 32;
/// Argument that makes this program the bare server, a process of its own like the hub.
const ECHO: &str = "--bare-server";

#[tokio::main]
async fn main() {
    let mut args = std::env::args().skip(1);
    let plexus = PathBuf::from(args.next().expect("usage: plexus-bench PATH_OF_PLEXUS [--quick]"));
    if plexus == Path::new(ECHO) {
        return echo_server().await;
    }
    let scale = if args.any(|arg| arg == "--quick") { 10 } else { 1 };
    let dir = tempfile::tempdir().expect("a temporary folder");

    println!("binary        {:>8.1} MB", std::fs::metadata(&plexus).expect("the binary").len() as f64 / 1e6);
    drop(HubProcess::start(&plexus, dir.path()).await);
    let mut starts: Vec<f64> = Vec::new();
    for _ in 0..5 {
        starts.push(HubProcess::start(&plexus, dir.path()).await.started_in.as_secs_f64() * 1e3);
    }
    starts.sort_by(f64::total_cmp);
    println!("start         {:>8.1} ms   to ready, existing database, median of 5", starts[2]);
    let hub = HubProcess::start(&plexus, dir.path()).await;
    println!("RSS at rest   {:>8.1} MB", hub.rss_mb());
    println!();
    println!(
        "{:<34} {:>3} {:>9} {:>9} {:>9} {:>10} {:>12}",
        "call", "c", "p50 ms", "p99 ms", "max ms", "calls/s", "CPU ms/1000"
    );

    let (_bare, echo) = start_bare_server();
    let token = hub.token(&plexus, dir.path());
    let session = initialize(&hub.address, &token).await;
    let modern = |arguments: Value| modern_call(&hub.address, &token, arguments);
    let rows = [
        ("bare HTTP answer", echo.clone(), bare_request(&echo), None),
        ("todo list, 2026-07-28", hub.address.clone(), modern(json!({ "action": "list" })), Some(&hub)),
        (
            "todo list, 2025-11-25",
            hub.address.clone(),
            session_call(&hub.address, &token, &session, json!({ "action": "list" })),
            Some(&hub),
        ),
        (
            "todo update, 2026-07-28",
            hub.address.clone(),
            modern(json!({ "action": "update", "id": 1, "status": "done" })),
            Some(&hub),
        ),
        (
            "todo update, 2025-11-25",
            hub.address.clone(),
            session_call(
                &hub.address,
                &token,
                &session,
                json!({ "action": "update", "id": 1, "status": "done" }),
            ),
            Some(&hub),
        ),
    ];
    // An item to update, in the session of each era.
    for request in [
        modern(json!({ "action": "add", "text": "bench" })),
        session_call(&hub.address, &token, &session, json!({ "action": "add", "text": "bench" })),
    ] {
        let answer = Connection::open(&hub.address).await.call(&request).await;
        assert!(answer.contains("\"isError\":false"), "{answer}");
    }
    for (name, address, request, measured) in &rows {
        run(name, address, request, 1, LATENCY_CALLS / scale, *measured).await;
        run(name, address, request, CONCURRENCY, LOAD_CALLS / scale, *measured).await;
    }
    println!();
    println!("RSS after     {:>8.1} MB", hub.rss_mb());
}

/// Sends the same request over and over on `concurrency` connections.
async fn run(
    name: &str,
    address: &str,
    request: &str,
    concurrency: usize,
    calls: usize,
    hub: Option<&HubProcess>,
) {
    let each = calls / concurrency;
    let cpu = hub.map(HubProcess::cpu);
    let begun = Instant::now();
    let mut tasks = Vec::new();
    for _ in 0..concurrency {
        let (address, request) = (address.to_owned(), request.to_owned());
        tasks.push(tokio::spawn(async move {
            let mut connection = Connection::open(&address).await;
            let mut times = Histogram::<u64>::new_with_max(60_000_000_000, 3).expect("a histogram");
            for _ in 0..each {
                let begun = Instant::now();
                let answer = connection.call(&request).await;
                times.saturating_record(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX));
                assert!(!answer.contains("\"isError\":true") && !answer.contains("\"error\""), "{answer}");
            }
            times
        }));
    }
    let mut times = Histogram::<u64>::new_with_max(60_000_000_000, 3).expect("a histogram");
    for task in tasks {
        times.add(task.await.expect("a client")).expect("histograms of one kind");
    }
    let elapsed = begun.elapsed().as_secs_f64();
    let cpu = hub.zip(cpu).map_or("–".to_owned(), |(hub, before)| {
        format!("{:.1}", (hub.cpu() - before).as_secs_f64() * 1e3 / (times.len() as f64 / 1e3))
    });
    let ms = |nanos: u64| nanos as f64 / 1e6;
    println!(
        "{name:<34} {concurrency:>3} {:>9.3} {:>9.3} {:>9.3} {:>10.0} {cpu:>12}",
        ms(times.value_at_quantile(0.5)),
        ms(times.value_at_quantile(0.99)),
        ms(times.max()),
        times.len() as f64 / elapsed,
    );
}

fn body(meta: Value, arguments: Value) -> String {
    let mut params = json!({ "name": "todo", "arguments": arguments });
    if !meta.is_null() {
        params["_meta"] = meta;
    }
    json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string()
}

fn post(address: &str, headers: &str, body: &str) -> String {
    format!(
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn bare_request(address: &str) -> String {
    post(address, "", &body(Value::Null, json!({ "action": "list" })))
}

fn modern_call(address: &str, token: &str, arguments: Value) -> String {
    let headers = format!(
        "Authorization: Bearer {token}\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: todo\r\n"
    );
    post(address, &headers, &body(plexus_testkit::modern_meta(), arguments))
}

fn session_call(address: &str, token: &str, session: &str, arguments: Value) -> String {
    let headers = format!("Authorization: Bearer {token}\r\nMcp-Session-Id: {session}\r\n");
    post(address, &headers, &body(Value::Null, arguments))
}

async fn initialize(address: &str, token: &str) -> String {
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "bench", "version": "1" } });
    let body = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }).to_string();
    let request = post(address, &format!("Authorization: Bearer {token}\r\n"), &body);
    let answer = Connection::open(address).await.exchange(&request).await;
    let line = answer.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).expect("a session id");
    line.trim().to_owned()
}

/// HTTP/1.1 by hand: the client must cost less than what it measures.
struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    async fn open(address: &str) -> Self {
        let stream = TcpStream::connect(address).await.expect("a connection");
        stream.set_nodelay(true).expect("TCP_NODELAY");
        Self { stream, buffer: Vec::with_capacity(16 * 1024) }
    }

    /// Body of the answer.
    async fn call(&mut self, request: &str) -> String {
        let answer = self.exchange(request).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default()
    }

    /// Head and body of the answer.
    async fn exchange(&mut self, request: &str) -> String {
        self.stream.write_all(request.as_bytes()).await.expect("a request sent");
        self.buffer.clear();
        loop {
            let read = self.stream.read_buf(&mut self.buffer).await.expect("an answer");
            assert!(read > 0, "the connection was closed");
            let Some(end) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
            let head =
                std::str::from_utf8(&self.buffer[..end]).expect("a head in UTF-8").to_ascii_lowercase();
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: ")?.trim().parse::<usize>().ok());
            let whole = end + 4 + length.expect("an answer with a length");
            if self.buffer.len() >= whole {
                return String::from_utf8_lossy(&self.buffer[..whole]).into_owned();
            }
        }
    }
}

/// A process that is killed when dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start_bare_server() -> (Killed, String) {
    let me = std::env::current_exe().expect("the path of this program");
    let mut child = Command::new(me).arg(ECHO).stdout(Stdio::piped()).spawn().expect("the bare server");
    let mut address = String::new();
    let stdout = child.stdout.take().expect("its output");
    std::io::BufReader::new(stdout).read_line(&mut address).expect("its address");
    (Killed(child), address.trim().to_owned())
}

/// Answers every request with the same body, and looks at nothing.
async fn echo_server() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    println!("{}", listener.local_addr().expect("an address"));
    loop {
        let (stream, _) = listener.accept().await.expect("a connection");
        stream.set_nodelay(true).expect("TCP_NODELAY");
        tokio::spawn(async move {
            let service = hyper::service::service_fn(
                |request: hyper::Request<hyper::body::Incoming>| async move {
                    let _ = http_body_util::BodyExt::collect(request.into_body()).await?;
                    let body = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"ok"}],"isError":false}}"#;
                    Ok::<_, hyper::Error>(hyper::Response::new(body.to_owned()))
                },
            );
            let io = hyper_util::rt::TokioIo::new(stream);
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(io, service).await;
        });
    }
}

/// A hub as users run it.
struct HubProcess {
    child: Child,
    address: String,
    started_in: Duration,
}

impl HubProcess {
    async fn start(plexus: &Path, dir: &Path) -> Self {
        let address_file = dir.join("hub.json");
        let begun = Instant::now();
        let child = Command::new(plexus)
            .args(["up", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(dir)
            .env("PLEXUS_LOG", "warn")
            .stdout(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {}: {error}", plexus.display()));
        let mut hub = Self { child, address: String::new(), started_in: Duration::ZERO };
        while begun.elapsed() < Duration::from_secs(20) {
            // Written when the hub is ready, removed when it stops.
            let pid = u64::from(hub.child.id());
            let written = std::fs::read(&address_file)
                .ok()
                .and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
            if let Some(written) = written.filter(|written| written["pid"] == pid) {
                hub.started_in = begun.elapsed();
                hub.address =
                    written["url"].as_str().expect("a URL").trim_start_matches("http://").to_owned();
                return hub;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!("the hub did not get ready");
    }

    fn token(&self, plexus: &Path, dir: &Path) -> String {
        let output = Command::new(plexus)
            .args(["token", "create", "--kind", "agent", "--name", "bench", "--data-dir"])
            .arg(dir)
            .output()
            .expect("plexus token create");
        String::from_utf8(output.stdout).expect("a token").trim().to_owned()
    }

    fn proc(&self, file: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{file}", self.child.id())).expect("/proc")
    }

    fn rss_mb(&self) -> f64 {
        let status = self.proc("status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("VmRSS");
        line.trim().trim_end_matches(" kB").trim().parse::<f64>().expect("kB") * 1024.0 / 1e6
    }

    /// User and system time so far; the kernel counts in hundredths of a second.
    fn cpu(&self) -> Duration {
        let stat = self.proc("stat");
        let fields: Vec<&str> = stat.rsplit_once(')').expect("a name").1.split_whitespace().collect();
        let ticks: u64 =
            fields[11].parse::<u64>().expect("utime") + fields[12].parse::<u64>().expect("stime");
        Duration::from_millis(ticks * 10)
    }
}

impl Drop for HubProcess {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(15) {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
