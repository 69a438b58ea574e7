//! Changes of the audit record: `plexus audit verify` names the entry and exits with 3.

mod chain;

use plexus_testkit::{HubProcess, Plexus};
use serde_json::{Value, json};

pub(crate) use chain::AuditTable;

/// Calls before the tampering; each has two entries.
const CALLS: i64 = 50;
/// Deletes the five newest entries.
pub(crate) const CUT: &str = "DELETE FROM audit WHERE n > (SELECT MAX(n) FROM audit) - 5";

/// A problem in a report.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) kind: String,
    pub(crate) n: i64,
    pub(crate) message: String,
}

/// A hub with a record of [`CALLS`] calls.
async fn recorded() -> (Plexus, HubProcess) {
    let plexus = crate::plexus();
    let hub = plexus.up().await;
    let token = hub.token("codex").await;
    for number in 0..CALLS {
        call(&hub, &token.token, number).await;
    }
    (plexus, hub)
}

/// The same, stopped: the whole record is in the database, and its head is signed.
pub(crate) async fn stopped() -> Plexus {
    let (plexus, hub) = recorded().await;
    assert!(hub.terminate().await.success());
    plexus
}

pub(crate) async fn call(hub: &HubProcess, token: &str, number: i64) {
    let arguments = json!({ "action": "add", "text": format!("step {number}") });
    let result = hub.mcp(token).tool("todo", arguments).await;
    assert_eq!(result["isError"], false, "{result}");
}

/// Number of the newest entry.
pub(crate) async fn newest(plexus: &Plexus) -> i64 {
    let n = AuditTable::open(&plexus.data_dir()).await.text("SELECT CAST(MAX(n) AS TEXT) FROM audit").await;
    let n = n.and_then(|n| n.parse().ok()).expect("entries");
    assert!(n >= 2 * CALLS, "only {n} entries");
    n
}

/// Waits until the newest entry is the signed one.
pub(crate) async fn wait_until_signed(hub: &HubProcess) {
    hub.api_until("/api/v1/audit/verify", |report| report["signed"] == report["head"]).await;
}

/// Verifies with JSON and text output, which must agree; returns the problems.
pub(crate) async fn verify(plexus: &Plexus) -> Vec<Problem> {
    let (json, printed) =
        tokio::join!(plexus.run(&["audit", "verify", "--json"]), plexus.run(&["audit", "verify"]),);
    assert_eq!(json.code, printed.code, "{json:?} {printed:?}");
    let intact = json.code == Some(0);
    let report = json.json(if intact { 0 } else { 3 });
    let problems = report["problems"].as_array().expect("problems");
    assert_eq!((&report["ok"], problems.is_empty()), (&Value::Bool(intact), intact), "{report}");
    assert_eq!(report["problem_count"], json!(problems.len()), "{report}");
    if intact {
        assert!(printed.stdout.starts_with("Intact: "), "{printed:?}");
        assert_eq!(printed.stderr, "", "{printed:?}");
    } else {
        assert_eq!(printed.stdout.lines().count(), problems.len(), "{printed:?}");
        assert!(printed.stderr.contains("error: the audit record is not intact"), "{printed:?}");
    }
    let problem = |(problem, line): (&Value, &str)| {
        let (kind, n) = (problem["kind"].as_str().expect("a kind"), problem["n"].as_i64().expect("a number"));
        let message = problem["message"].as_str().expect("a message");
        assert_eq!(line, format!("{}: entry {n}: {message}", kind.replace('_', " ")));
        Problem { kind: kind.to_owned(), n, message: message.to_owned() }
    };
    problems.iter().zip(printed.stdout.lines()).map(problem).collect()
}

/// The kinds and entries of the problems.
fn kinds_and_entries(problems: &[Problem]) -> Vec<(&str, i64)> {
    problems.iter().map(|problem| (problem.kind.as_str(), problem.n)).collect()
}

/// Tampers with the table of a stopped hub and starts it again.
async fn restarted_after(sql: &[&str]) -> (Plexus, HubProcess) {
    let plexus = stopped().await;
    let mut table = AuditTable::open(&plexus.data_dir()).await;
    for sql in sql {
        assert!(table.execute(sql).await > 0, "{sql} changes nothing");
    }
    drop(table);
    let hub = plexus.up().await;
    (plexus, hub)
}

#[tokio::test]
async fn unchanged_record_is_intact() {
    let plexus = stopped().await;
    let mut table = AuditTable::open(&plexus.data_dir()).await;
    // The documented hash equals that of the hub; otherwise the other tests would prove nothing.
    let (mut prev, newest) = ("0".repeat(64), newest(&plexus).await);
    for n in 1..=newest {
        let hash = table.text(&format!("SELECT hash FROM audit WHERE n = {n}")).await.expect("a hash");
        assert_eq!(table.computed(n, &prev).await, hash, "entry {n}");
        prev = hash;
    }
    drop(table);
    let hub = plexus.up().await;
    assert!(verify(&plexus).await.is_empty());
    let status = hub.api("/api/v1/status").await;
    assert_eq!(status["audit"]["intact_at_start"], true, "{status}");
    assert_eq!(status["audit"]["head"]["n"], newest, "{status}");
}

#[tokio::test]
async fn changed_field_is_reported() {
    let (plexus, _hub) = restarted_after(&["UPDATE audit SET actor = 'agent:mallory' WHERE n = 40"]).await;
    assert_eq!(kinds_and_entries(&verify(&plexus).await), [("changed", 40)]);
}

#[tokio::test]
async fn deleted_entry_is_reported() {
    let (plexus, _hub) = restarted_after(&["DELETE FROM audit WHERE n = 31"]).await;
    assert_eq!(kinds_and_entries(&verify(&plexus).await), [("missing", 31)]);
}

#[tokio::test]
async fn deleted_first_entries_are_reported() {
    let (plexus, _hub) = restarted_after(&["DELETE FROM audit WHERE n <= 3"]).await;
    let problems = verify(&plexus).await;
    assert_eq!(kinds_and_entries(&problems), [("missing", 1)]);
    assert_eq!(problems[0].message, "entries 1 to 3 are missing");
}

#[tokio::test]
async fn swapped_entries_are_reported_as_reordered() {
    let plexus = stopped().await;
    AuditTable::open(&plexus.data_dir()).await.swap(10, 11).await;
    let _hub = plexus.up().await;
    let problems = verify(&plexus).await;
    let (kinds, numbers): (Vec<_>, Vec<_>) = kinds_and_entries(&problems).into_iter().unzip();
    assert!(kinds.iter().all(|kind| *kind == "reordered"), "{problems:?}");
    assert!(numbers.starts_with(&[10, 11]), "{problems:?}");
}

#[tokio::test]
async fn swapped_entries_with_recomputed_hashes_are_reported_as_reordered() {
    let plexus = stopped().await;
    let mut table = AuditTable::open(&plexus.data_dir()).await;
    table.swap(10, 11).await;
    table.rehash(10).await;
    table.rehash(11).await;
    drop(table);
    let _hub = plexus.up().await;
    assert_eq!(
        kinds_and_entries(&verify(&plexus).await),
        [("reordered", 10), ("reordered", 11), ("reordered", 12)]
    );
}

#[tokio::test]
async fn consistently_rewritten_chain_is_found_at_the_next_start() {
    let plexus = stopped().await;
    let newest = newest(&plexus).await;
    let mut table = AuditTable::open(&plexus.data_dir()).await;
    table.execute("UPDATE audit SET detail = '{}' WHERE n = 40").await;
    table.rewrite_from(40).await;
    drop(table);
    let hub = plexus.up().await;
    let problems = verify(&plexus).await;
    assert_eq!(kinds_and_entries(&problems), [("break_at_start", newest + 1)]);
    let words = format!("entry {newest} is not the one that was signed");
    assert!(problems[0].message.contains(&words), "{problems:?}");
    check_break_is_permanent(&plexus, hub).await;
}

#[tokio::test]
async fn cut_off_end_is_found_at_the_next_start() {
    let plexus = stopped().await;
    let newest = newest(&plexus).await;
    assert_eq!(AuditTable::open(&plexus.data_dir()).await.execute(CUT).await, 5);
    let hub = plexus.up().await;
    let problems = verify(&plexus).await;
    assert_eq!(kinds_and_entries(&problems), [("break_at_start", newest - 4)]);
    for words in [format!("entry {newest} was signed as the newest"), format!("ends at {}", newest - 5)] {
        assert!(problems[0].message.contains(&words), "{words:?} is not in {problems:?}");
    }
    check_break_is_permanent(&plexus, hub).await;
}

#[tokio::test]
async fn deleted_record_is_found_at_the_next_start() {
    let (plexus, hub) = restarted_after(&["DELETE FROM audit"]).await;
    let problems = verify(&plexus).await;
    assert_eq!(kinds_and_entries(&problems), [("break_at_start", 1)]);
    assert!(problems[0].message.contains("ends at 0"), "{problems:?}");
    check_break_is_permanent(&plexus, hub).await;
}

/// Checks that a break is still reported after new calls and a restart, and that its evidence is kept.
async fn check_break_is_permanent(plexus: &Plexus, hub: HubProcess) {
    let before = kinds_and_entries_owned(&verify(plexus).await);
    let status = plexus.run(&["status"]).await;
    assert!(status.ok().contains("did NOT match its signed head"), "{status:?}");
    assert!(status.stdout.contains("plexus audit verify"), "{status:?}");
    assert!(hub.log().contains("does not match its signed head"), "not in the log");
    let token = hub.token("codex").await;
    for number in 0..10 {
        call(&hub, &token.token, number).await;
    }
    assert_eq!(kinds_and_entries_owned(&verify(plexus).await), before, "after new calls");
    assert!(hub.terminate().await.success());
    let _hub = plexus.up().await;
    assert_eq!(kinds_and_entries_owned(&verify(plexus).await), before, "after another start");
    let evidence = std::fs::read_dir(plexus.data_dir()).expect("the data folder");
    let evidence: Vec<_> = evidence
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"))
        .filter(|name| name.starts_with("audit.head.broken-"))
        .collect();
    assert_eq!(evidence.len(), 1, "{evidence:?}");
}

fn kinds_and_entries_owned(problems: &[Problem]) -> Vec<(String, i64)> {
    problems.iter().map(|problem| (problem.kind.clone(), problem.n)).collect()
}

#[tokio::test]
async fn every_column_is_covered_while_the_hub_runs() {
    let (plexus, hub) = recorded().await;
    wait_until_signed(&hub).await;
    let mut table = AuditTable::open(&plexus.data_dir()).await;
    let columns = ["phase", "call_id", "token_id", "actor", "session_id", "tool", "via", "outcome", "detail"];
    let mut changes: Vec<_> = columns.iter().map(|column| (*column, "'x'")).collect();
    // An empty value differs from NULL, and times differ by a millisecond.
    changes.extend([("call_id", "NULL"), ("session_id", "''"), ("at", "at + 1")]);
    for (column, value) in changes {
        table.execute("CREATE TEMP TABLE kept AS SELECT * FROM audit WHERE n = 40").await;
        let changed = table.execute(&format!("UPDATE audit SET {column} = {value} WHERE n = 40")).await;
        assert_eq!(changed, 1);
        assert_eq!(kinds_and_entries(&verify(&plexus).await), [("changed", 40)], "{column} = {value}");
        table.execute("REPLACE INTO audit SELECT * FROM kept").await;
        table.execute("DROP TABLE kept").await;
    }
    for column in ["prev_hash", "hash"] {
        let sql = format!("SELECT {column} FROM audit WHERE n = 40");
        let original = table.text(&sql).await.expect("a hash");
        table.execute(&format!("UPDATE audit SET {column} = '{}' WHERE n = 40", "f".repeat(64))).await;
        assert_eq!(kinds_and_entries(&verify(&plexus).await)[0], ("changed", 40), "{column}");
        table.execute(&format!("UPDATE audit SET {column} = '{original}' WHERE n = 40")).await;
    }
    table.execute("UPDATE audit SET hub = 'other' WHERE n = 40").await;
    assert_eq!(kinds_and_entries(&verify(&plexus).await), [("missing", 40)]);
    table.execute("UPDATE audit SET hub = 'main' WHERE n = 40").await;
    assert!(verify(&plexus).await.is_empty(), "after restoring everything");
}

#[tokio::test]
async fn chain_rewritten_while_the_hub_runs_differs_from_the_signed_head() {
    let (plexus, hub) = recorded().await;
    wait_until_signed(&hub).await;
    let mut table = AuditTable::open(&plexus.data_dir()).await;
    table.execute("UPDATE audit SET detail = '{}' WHERE n = 40").await;
    table.rewrite_from(40).await;
    assert_eq!(kinds_and_entries(&verify(&plexus).await), [("rewritten", newest(&plexus).await)]);
}

#[tokio::test]
async fn end_cut_off_while_the_hub_runs_is_reported_permanently() {
    let (plexus, hub) = recorded().await;
    wait_until_signed(&hub).await;
    let first_gone = newest(&plexus).await - 4;
    assert_eq!(AuditTable::open(&plexus.data_dir()).await.execute(CUT).await, 5);
    assert_eq!(kinds_and_entries(&verify(&plexus).await), [("cut_off", first_gone)]);
    let token = hub.token("codex").await;
    call(&hub, &token.token, 0).await;
    assert_eq!(kinds_and_entries(&verify(&plexus).await), [("missing", first_gone)]);
    assert!(hub.terminate().await.success());
    let _hub = plexus.up().await;
    assert_eq!(kinds_and_entries(&verify(&plexus).await), [("missing", first_gone)]);
}
