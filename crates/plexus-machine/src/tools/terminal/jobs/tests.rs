use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use plexus_kit::{Clock, Environment, Supervisor};
use plexus_proto::{CallId, SessionId};

use super::*;
use crate::policy::Policies;

fn opened(folder: &Path, limits: Limits) -> Jobs {
    let environment: Environment = [("PATH".to_owned(), "/usr/bin:/bin".to_owned())].into_iter().collect();
    let machine = Machine {
        data_dir: folder.to_owned(),
        policy: Policies::open(folder, &environment).unwrap(),
        environment,
        supervisor: Supervisor::new(),
        clock: Clock::system(),
        launcher: None,
    };
    Jobs::open(&machine, limits).unwrap()
}

fn request(line: &str) -> Request {
    Request {
        argv: vec!["/bin/sh".to_owned(), "-c".to_owned(), line.to_owned()],
        line: Some(line.to_owned()),
        cwd: PathBuf::from("/"),
        env: BTreeMap::new(),
        stdin: Stdin::Nothing,
        limit: Some(Duration::from_secs(60)),
        screen: None,
        leashed: false,
        by: "agent:tester".to_owned(),
        session_id: SessionId::new(),
        call_id: CallId::new(),
        sandbox: None,
        policy: Arc::new(Policy::standard(&Environment::default(), Path::new("/"))),
    }
}

async fn ended(job: &Job) {
    tokio::time::timeout(Duration::from_secs(30), job.ended()).await.expect("the job does not end");
}

#[tokio::test]
async fn number_of_running_jobs_is_limited() {
    let folder = tempfile::tempdir().unwrap();
    let jobs = opened(folder.path(), Limits { running: 2, ..Limits::default() });
    let first = jobs.start(request("sleep 1000")).unwrap();
    let second = jobs.start(request("sleep 1000")).unwrap();
    assert!(matches!(jobs.start(request("true")), Err(StartError::TooMany(2))));
    first.stop(StopReason::Killed);
    ended(&first).await;
    // Its slot is released shortly after its end is reported.
    let third = loop {
        match jobs.start(request("true")) {
            Ok(job) => break job,
            Err(StartError::TooMany(_)) => tokio::task::yield_now().await,
            Err(error) => panic!("{error}"),
        }
    };
    ended(&third).await;
    second.stop(StopReason::Killed);
    ended(&second).await;
}

#[tokio::test]
async fn oldest_ended_jobs_are_removed_first() {
    let folder = tempfile::tempdir().unwrap();
    let jobs = opened(folder.path(), Limits { ended: 3, ..Limits::default() });
    let mut ids = Vec::new();
    for n in 0..6 {
        let job = jobs.start(request(&format!("echo {n}"))).unwrap();
        ended(&job).await;
        ids.push(job.id.clone());
    }
    let running = jobs.start(request("sleep 1000")).unwrap();
    jobs.0.prune();
    let left: Vec<String> = jobs.all().iter().map(|job| job.id.clone()).collect();
    assert_eq!(left, [&running.id, &ids[5], &ids[4], &ids[3]].map(Clone::clone));
    assert!(!folder.path().join("jobs").join(&ids[0]).exists() && jobs.get(&ids[0]).is_none());
    running.stop(StopReason::Killed);
    ended(&running).await;
}

#[tokio::test]
async fn jobs_beyond_age_and_size_limits_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits { bytes: 300 << 10, ..Limits::default() };
    let jobs = opened(folder.path(), limits);
    let large = jobs.start(request("head -c 200000 /dev/zero")).unwrap();
    ended(&large).await;
    let larger = jobs.start(request("head -c 200000 /dev/zero")).unwrap();
    ended(&larger).await;
    jobs.0.prune();
    let left: Vec<String> = jobs.all().iter().map(|job| job.id.clone()).collect();
    assert_eq!(left, [larger.id.as_str()]);
    let aged = Limits { age: Duration::ZERO, ..Limits::default() };
    let again = opened(folder.path(), aged);
    assert!(again.all().is_empty());
}

/// No process is between a job and its output: it writes at full speed, and disk use stays limited.
#[tokio::test]
async fn endless_output_retains_both_ends_without_blocking_the_job() {
    let folder = tempfile::tempdir().unwrap();
    let cap = 1 << 20;
    let jobs = opened(folder.path(), Limits { spool: cap, ..Limits::default() });
    let line =
        "echo first; for i in 1 2 3 4 5 6 7 8; do head -c 2000000 /dev/zero; sleep 0.1; done; echo last";
    let job = jobs.start(request(line)).unwrap();
    ended(&job).await;
    let spool = job.spool(Stream::Stdout);
    assert_eq!(spool.size(), 16_000_000 + 11, "the size counts everything");
    assert!(spool.on_disk() <= cap + (64 << 10), "{} bytes are stored", spool.on_disk());
    assert!(spool.part(0, 10).unwrap().bytes.starts_with(b"first\n"));
    assert_eq!(spool.part(spool.size() - 5, 10).unwrap().bytes, b"last\n");
    let middle = spool.part(8_000_000, 10).unwrap();
    assert!(middle.skipped > 0 && middle.offset > 8_000_000, "the released bytes are reported as skipped");
}

/// The node was killed without stopping anything.
#[tokio::test]
async fn restart_ends_run_jobs_and_keeps_background_jobs() {
    let folder = tempfile::tempdir().unwrap();
    let before = opened(folder.path(), Limits::default());
    let waited_for = before.start(Request { leashed: true, ..request("sleep 1000") }).unwrap();
    let background = before.start(request("sleep 1000")).unwrap();
    for job in [&waited_for, &background] {
        while !job.folder().join(BORN).exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    let after = opened(folder.path(), Limits::default());
    let waited_for = after.get(&waited_for.id).unwrap();
    ended(&waited_for).await;
    assert_eq!(waited_for.end().unwrap().why, Some(StopReason::Interrupted));
    let background = after.get(&background.id).unwrap();
    assert_eq!(background.end(), None);
    background.stop(StopReason::Killed);
    ended(&background).await;
}

#[tokio::test]
async fn likely_secrets_are_redacted_in_the_record() {
    let folder = tempfile::tempdir().unwrap();
    let jobs = opened(folder.path(), Limits::default());
    let secret = ["ghp_", "0123456789abcdefghijABCDEFGHIJ012345"].concat();
    let mut request = request(&format!("cat >/dev/null; : --token {secret}"));
    request.stdin = Stdin::Text(secret.clone());
    let job = jobs.start(request).unwrap();
    ended(&job).await;
    assert!(!job.record.command.contains(&secret), "{}", job.record.command);
    for entry in std::fs::read_dir(job.folder()).unwrap() {
        let content = std::fs::read(entry.unwrap().path()).unwrap();
        assert!(!String::from_utf8_lossy(&content).contains(&secret));
    }
}
