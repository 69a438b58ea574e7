//! Which hub and which database a data folder belongs to: no command uses another one in their place.

use std::path::{Path, PathBuf};

use plexus_testkit::{HubProcess, Plexus, ProgramOutput, postgres};
use serde_json::{Value, json};
use sqlx::{Connection as _, PgConnection};

use crate::tampering::{AuditTable, call, stopped, wait_until_signed};

/// The doctor also checks the default port, which another hub of this machine may use.
const ANY_PORT: (&str, &str) = ("PLEXUS_LISTEN", "127.0.0.1:0");

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// A running hub with a few calls, and a copy of its data folder.
async fn copied() -> (Plexus, HubProcess, PathBuf) {
    let plexus = crate::plexus();
    let hub = plexus.up().await;
    let token = hub.token("codex").await;
    for number in 0..3 {
        call(&hub, &token.token, number).await;
    }
    wait_until_signed(&hub).await;
    let copy = plexus.home().join("copy");
    plexus.shell(&format!("cp -a {} {}", text(&plexus.data_dir()), text(&copy))).await.ok();
    assert!(copy.join("hub.json").exists(), "the copy contains the address of the original hub");
    (plexus, hub, copy)
}

/// Standard error of a command that must have exited with this code.
fn stderr_with_code(output: &ProgramOutput, code: i32) -> &str {
    assert_eq!(output.code, Some(code), "{output:?}");
    &output.stderr
}

fn findings<'r>(report: &'r Value, check: &'r str) -> impl Iterator<Item = &'r Value> {
    let all = report["findings"].as_array().expect("findings");
    all.iter().filter(move |finding| finding["check"] == check)
}

#[tokio::test]
async fn audit_verify_reads_the_named_folder_and_not_the_original_hub() {
    let (plexus, hub, copy) = copied().await;
    let verify = ["audit", "verify", "--data-dir", text(&copy)];
    let intact = plexus.run(&verify).await;
    assert!(intact.ok().contains(text(&copy)) && !intact.stdout.contains(&hub.url("")), "{intact:?}");
    let changed =
        AuditTable::open(&copy).await.execute("UPDATE audit SET actor = 'agent:mallory' WHERE n = 2").await;
    assert_eq!(changed, 1);
    let broken = plexus.run(&verify).await;
    assert!(stderr_with_code(&broken, 3).contains(text(&copy)), "{broken:?}");
    assert!(broken.stdout.contains("changed: entry 2"), "{broken:?}");
    let report = plexus.run(&["audit", "verify", "--json", "--data-dir", text(&copy)]).await.json(3);
    assert_eq!((&report["verified"]["kind"], &report["ok"]), (&json!("data_folder"), &json!(false)));

    let original = plexus.run(&["audit", "verify"]).await;
    let expected = [hub.url(""), text(&plexus.data_dir()).to_owned()];
    assert!(expected.iter().all(|name| original.ok().contains(name.as_str())), "{original:?}");
}

#[tokio::test]
async fn folder_is_verified_without_a_running_hub() {
    let plexus = stopped().await;
    let intact = plexus.run(&["audit", "verify"]).await;
    assert!(intact.ok().contains("without a hub"), "{intact:?}");
    AuditTable::open(&plexus.data_dir()).await.execute("DELETE FROM audit WHERE n > 95").await;
    let cut = plexus.run(&["audit", "verify"]).await;
    assert!(stderr_with_code(&cut, 3).contains("not intact") && cut.stdout.contains("cut off"), "{cut:?}");
}

#[tokio::test]
async fn backup_is_verified_without_being_restored() {
    let plexus = stopped().await;
    let file = plexus.home().join("backup.tar.gz");
    plexus.run(&["db", "backup", text(&file)]).await.ok();
    let intact = plexus.run(&["audit", "verify", text(&file)]).await;
    assert!(intact.ok().starts_with("Intact: ") && intact.stdout.contains(text(&file)), "{intact:?}");

    AuditTable::open(&plexus.data_dir()).await.execute("UPDATE audit SET tool = 'other' WHERE n = 40").await;
    stderr_with_code(&plexus.run(&["db", "backup", "--force", text(&file)]).await, 3);
    let broken = plexus.run(&["audit", "verify", text(&file)]).await;
    assert!(
        stderr_with_code(&broken, 3).contains(text(&file)) && broken.stdout.contains("entry 40"),
        "{broken:?}"
    );

    let bytes = std::fs::read(&file).expect("the backup");
    std::fs::write(&file, &bytes[..bytes.len() / 2]).expect("it can be written");
    let cut = plexus.run(&["audit", "verify", text(&file)]).await;
    assert!(cut.failed(3).contains("does not verify"), "{cut:?}");
    plexus.run(&["audit", "verify", text(plexus.home())]).await.failed(2);
}

#[tokio::test]
async fn doctor_checks_the_named_folder_and_not_the_original_hub() {
    let (plexus, hub, copy) = copied().await;
    AuditTable::open(&copy).await.execute("UPDATE audit SET actor = 'agent:mallory' WHERE n = 2").await;
    let report = plexus.run(&["doctor", "--json", "--data-dir", text(&copy)]).await.json(1);
    let found: Vec<_> = findings(&report, "hub").collect();
    let message = found[0]["message"].as_str().expect("text");
    assert!(message.contains(text(&copy)) && found[0]["level"] == "problem", "{report:#}");
    assert!(findings(&report, "audit").any(|found| found["level"] == "problem"), "{report:#}");
    assert!(findings(&report, "version").next().is_none(), "another hub was asked: {report:#}");
    let original = plexus.run(&["doctor", "--json"]).await.json(0);
    let message = findings(&original, "hub").next().expect("the check")["message"].as_str().expect("text");
    assert!(message.contains(&hub.url("")) && message.contains(text(&plexus.data_dir())), "{original:#}");
}

#[tokio::test]
async fn audit_verify_names_the_data_folder_of_a_named_hub() {
    let plexus = crate::plexus();
    let hub = plexus.up().await;
    let folder = text(&plexus.data_dir()).to_owned();
    let url = hub.url("");
    let variables = [("PLEXUS_TOKEN", hub.admin_token())];
    let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let elsewhere = crate::plexus();
    let verified = elsewhere.run_with(&["audit", "verify", "--hub", &url], &variables).await;
    assert!(
        verified.ok().contains(&format!("by the hub at {url} on the data folder {folder}")),
        "{verified:?}"
    );
    let verified =
        elsewhere.run_with(&["audit", "verify", "--json", "--hub", &url], &variables).await.json(0);
    let expected = json!({ "kind": "hub", "url": url, "data_dir": folder });
    assert_eq!(verified["verified"], expected, "{verified:#}");
}

#[tokio::test]
async fn doctor_says_which_findings_are_about_another_hub() {
    let (plexus, other) = (stopped().await, crate::plexus());
    let other_hub = other.up().await;
    let url = other_hub.url("");
    let token = other_hub.admin_token();
    let variables = [ANY_PORT, ("PLEXUS_TOKEN", token.as_str()), ("PLEXUS_HUB", url.as_str())];
    let folder = text(&plexus.data_dir()).to_owned();
    let subject = format!("the hub at {url} (not the hub of the data folder {folder})");
    for (args, variables) in
        [(&["doctor", "--json"][..], &variables[..]), (&["doctor", "--json", "--hub", &url], &variables[..2])]
    {
        let report = plexus.run_with(args, variables).await.json(0);
        for check in ["hub", "version", "clock"] {
            let found = findings(&report, check).next().expect("the check");
            assert!(found["message"].as_str().expect("text").contains(&subject), "{check}: {report:#}");
        }
        for check in ["database", "audit"] {
            let found = findings(&report, check).next().expect("the check");
            let message = found["message"].as_str().expect("text");
            assert!(message.contains(&folder) && !message.contains(&url), "{check}: {report:#}");
        }
    }
    // A hub whose status the token may not read, and one that does not respond.
    let refused = plexus.run_with(&["doctor", "--json", "--hub", &url], &[("PLEXUS_TOKEN", "x")]).await;
    let report = refused.json(1);
    let found = findings(&report, "version").next().expect("the check");
    assert!(found["message"].as_str().expect("text").contains(&subject), "{report:#}");
    assert!(other_hub.terminate().await.success());
    let report = plexus.run(&["doctor", "--json", "--hub", &url]).await.json(1);
    let found = findings(&report, "hub").next().expect("the check");
    assert_eq!(found["message"], format!("no response from {subject}"), "{report:#}");
}

#[tokio::test]
async fn doctor_recognizes_the_hub_of_the_folder_by_another_loopback_name() {
    let plexus = crate::plexus();
    let hub = plexus.up().await;
    let url = format!("http://localhost:{}", hub.address().port());
    let report = plexus.run(&["doctor", "--json", "--hub", &url]).await.json(0);
    let found = findings(&report, "hub").next().expect("the check")["message"].as_str().expect("text");
    assert!(found.contains(&format!("on the data folder {}", text(&plexus.data_dir()))), "{report:#}");
    assert!(!report.to_string().contains("not the hub of"), "{report:#}");
}

#[tokio::test]
async fn doctor_verifies_the_newest_entries_and_reports_the_last_full_check() {
    let plexus = stopped().await;
    let hub = plexus.up().await;
    let audit = async |code| {
        let report = plexus.run(&["doctor", "--json"]).await.json(code);
        let messages =
            findings(&report, "audit").map(|found| found["message"].as_str().expect("text").to_owned());
        messages.collect::<Vec<_>>().join("; ")
    };
    let never = audit(0).await;
    let intact = format!("entries of {} are intact, as read ", text(&plexus.data_dir()));
    assert!(never.contains(&format!("{intact}by the hub at")), "{never}");
    assert!(never.contains("never verified"), "{never}");
    plexus.run(&["audit", "verify"]).await.ok();
    let verified = audit(0).await;
    assert!(verified.contains("last verified completely 20") && verified.contains(" entries"), "{verified}");
    assert!(hub.terminate().await.success());
    let after_stop = audit(1).await;
    assert!(
        after_stop.contains(&format!("{intact}from the database"))
            && after_stop.contains("last verified completely 20"),
        "kept after the hub has stopped: {after_stop}"
    );
    AuditTable::open(&plexus.data_dir()).await.execute("UPDATE audit SET actor = 'x' WHERE n = 90").await;
    let _hub = plexus.up().await;
    assert!(audit(1).await.contains("entry 90"), "a recent change is found by the running hub");
}

#[tokio::test]
async fn missing_database_is_not_replaced_by_an_empty_one() {
    let plexus = stopped().await;
    let database = plexus.data_dir().join("plexus.db");
    let moved_database = plexus.home().join("plexus.db");
    std::fs::rename(&database, &moved_database).expect("it can be moved");
    let refused = plexus.run(&["up", "--listen", "127.0.0.1:0"]).await;
    assert!(refused.failed(1).contains("is missing") && !database.exists(), "{refused:?}");
    // Also without the database note, which older hubs did not write.
    std::fs::remove_file(plexus.data_dir().join("database.json")).expect("the note");
    let refused = plexus.run(&["up", "--listen", "127.0.0.1:0"]).await;
    assert!(refused.failed(1).contains("is missing") && !database.exists(), "{refused:?}");
    std::fs::rename(&moved_database, &database).expect("it can be moved");
    let hub = plexus.up().await;
    assert_eq!(hub.api("/api/v1/status").await["audit"]["intact_at_start"], true);
}

#[tokio::test]
async fn folder_is_not_started_on_another_kind_of_database() {
    let Some(url) = postgres::database().await else { return };
    let plexus = stopped().await;
    let variables = [("PLEXUS_DATABASE_URL", url.as_str())];
    let refused = plexus.run_with(&["up", "--listen", "127.0.0.1:0"], &variables).await;
    assert!(refused.failed(1).contains("belongs to the SQLite database"), "{refused:?}");
    let hub = plexus.up().await;
    assert_eq!(hub.api("/api/v1/status").await["audit"]["intact_at_start"], true);
}

#[tokio::test]
async fn folder_is_not_started_on_another_postgres_database_which_stays_empty() {
    let (Some(own), Some(other)) = (postgres::database().await, postgres::database().await) else { return };
    let plexus = crate::plexus();
    let hub = plexus.up_with(&["--database-url", &own]).await;
    assert!(hub.terminate().await.success());
    let refused = plexus.run(&["up", "--listen", "127.0.0.1:0", "--database-url", &other]).await;
    assert!(refused.failed(1).contains("belongs to the PostgreSQL database"), "{refused:?}");
    let mut connection = PgConnection::connect(&other).await.expect("the server answers");
    let tables = sqlx::query("SELECT tablename FROM pg_tables WHERE schemaname = 'public'");
    assert_eq!(tables.fetch_all(&mut connection).await.expect("tables").len(), 0);
}

#[tokio::test]
async fn hub_on_postgres_is_healthy_without_its_url_and_not_started_without_it() {
    let Some(url) = postgres::database().await else { return };
    let plexus = crate::plexus();
    let hub = plexus.up_with(&["--database-url", &url]).await;
    let token = hub.token("codex").await;
    call(&hub, &token.token, 1).await;
    let report = plexus.run(&["doctor", "--json"]).await.json(0);
    let found: Vec<_> = findings(&report, "database").collect();
    let message = found[0]["message"].as_str().expect("text");
    assert!(message.starts_with("postgresql: ") && found.len() == 1, "{report:#}");
    assert!(findings(&report, "audit").any(|found| found["message"].to_string().contains("are intact")));

    let name = url.rsplit_once('/').expect("a database").1.split('?').next().expect("a name");
    let note = std::fs::read_to_string(plexus.data_dir().join("database.json")).expect("the note");
    let noted: Value = serde_json::from_str(&note).expect("JSON");
    assert_eq!((&noted["kind"], &noted["database"]), (&json!("postgresql"), &json!(name)), "{note}");
    let known = ["kind", "host", "port", "database", "store_id"];
    assert!(noted.as_object().expect("an object").keys().all(|key| known.contains(&key.as_str())), "{note}");

    assert!(hub.terminate().await.success());
    let refused = plexus.run(&["up", "--listen", "127.0.0.1:0"]).await;
    assert!(refused.failed(1).contains(&format!("the PostgreSQL database {name} at ")), "{refused:?}");
    assert!(refused.stderr.contains("PLEXUS_DATABASE_URL"), "{refused:?}");
    assert!(!plexus.data_dir().join("plexus.db").exists(), "an empty database was created");
    let unknown = plexus.run(&["audit", "verify"]).await;
    assert!(unknown.failed(1).contains(name), "{unknown:?}");
    let report = plexus.run(&["doctor", "--json"]).await.json(1);
    for check in ["database", "audit"] {
        let found = findings(&report, check).next().expect("the check");
        assert_eq!(found["level"], "warning", "{report:#}");
        assert!(found["message"].as_str().expect("text").contains(name), "{report:#}");
    }
    let verified = plexus.run(&["audit", "verify", "--database-url", &url]).await;
    assert!(verified.ok().starts_with("Intact: ") && verified.stdout.contains(name), "{verified:?}");
    let hub = plexus.up_with(&["--database-url", &url]).await;
    assert_eq!(hub.api("/api/v1/status").await["audit"]["intact_at_start"], true);
}

#[tokio::test]
async fn status_of_a_folder_without_a_hub_queries_no_other_hub() {
    let (plexus, hub, copy) = copied().await;
    let page = plexus.run(&["status", "--data-dir", text(&copy)]).await;
    let stderr = stderr_with_code(&page, 4);
    assert!(stderr.contains(&format!("no hub runs on the data folder {}", text(&copy))), "{page:?}");
    assert!(
        stderr.contains("which contains the data of a hub") && stderr.contains(" up --data-dir "),
        "{page:?}"
    );
    assert!(!page.stdout.contains(&hub.url("")), "{page:?}");
    assert!(page.stdout.contains(&format!("data folder\t{}\n", text(&copy))), "{page:?}");
    // A killed hub leaves its address file behind.
    hub.kill().await;
    let killed = plexus.run(&["status"]).await;
    assert!(stderr_with_code(&killed, 4).contains(text(&plexus.data_dir())), "{killed:?}");
}

#[tokio::test]
async fn named_folder_takes_precedence_over_the_hub_variable() {
    let (plexus, hub, copy) = copied().await;
    AuditTable::open(&copy).await.execute("UPDATE audit SET actor = 'agent:mallory' WHERE n = 2").await;
    let variables = [("PLEXUS_HUB", hub.url(""))];
    let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let of_copy = plexus.run_with(&["audit", "verify", "--data-dir", text(&copy)], &variables).await;
    assert!(stderr_with_code(&of_copy, 3).contains(text(&copy)), "{of_copy:?}");
    let report = plexus.run_with(&["doctor", "--json", "--data-dir", text(&copy)], &variables).await.json(1);
    assert!(findings(&report, "version").next().is_none(), "another hub was asked: {report:#}");
    let status = plexus.run_with(&["status", "--data-dir", text(&copy)], &variables).await;
    assert!(!status.stdout.contains(&hub.url("")), "{status:?}");

    // A hub that runs on the named folder is asked, whichever hub the variable names.
    let unreachable = [("PLEXUS_HUB", "http://127.0.0.1:1")];
    let original = text(&plexus.data_dir()).to_owned();
    let of_original = plexus.run_with(&["audit", "verify", "--data-dir", &original], &unreachable).await;
    assert!(of_original.ok().contains(&hub.url("")), "{of_original:?}");
    // Without --data-dir the variable decides.
    plexus.run_with(&["audit", "verify"], &unreachable).await.failed(4);
}

#[tokio::test]
async fn copy_of_a_folder_gives_no_access_to_the_hub_of_the_original() {
    let (plexus, hub, copy) = copied().await;
    for args in [
        &["token", "create", "--kind", "agent", "--name", "intruder"][..],
        &["keys", "list"],
        &["audit", "list"],
    ] {
        let of_copy = plexus.run(&[args, &["--data-dir", text(&copy)]].concat()).await;
        assert!(
            stderr_with_code(&of_copy, 5)
                .contains(&format!("no hub runs on the data folder {}", text(&copy)))
        );
        let of_original = plexus.run(&[args, &["--data-dir", text(&plexus.data_dir())]].concat()).await;
        assert_eq!(of_original.code, Some(0), "{of_original:?}");
    }
    let tokens = hub.list("/api/v1/tokens", |_| false).await;
    let made = tokens.iter().filter(|token| token["name"] == "intruder").count();
    assert_eq!(made, 1, "only through the original folder: {tokens:#?}");
}

#[tokio::test]
async fn folder_with_a_sqlite_file_elsewhere_is_found_without_its_url() {
    let plexus = crate::plexus();
    let file = plexus.home().join("elsewhere.db");
    let url = format!("sqlite:{}", text(&file));
    let hub = plexus.up_with(&["--database-url", &url]).await;
    let token = hub.token("codex").await;
    call(&hub, &token.token, 1).await;
    wait_until_signed(&hub).await;
    let database = |report: &Value| {
        findings(report, "database").next().expect("the check")["message"].as_str().expect("text").to_owned()
    };
    let running = plexus.run(&["doctor", "--json"]).await.json(0);
    assert!(database(&running).contains(text(&file)), "{running:#}");
    assert!(hub.terminate().await.success());

    let stopped = plexus.run_with(&["doctor", "--json"], &[ANY_PORT]).await.json(1);
    assert!(database(&stopped).contains(text(&file)), "{stopped:#}");
    let problems = stopped["findings"].as_array().expect("findings").iter();
    let problems: Vec<_> = problems.filter(|found| found["level"] == "problem").collect();
    assert!(problems.len() == 1 && problems[0]["check"] == "hub", "{stopped:#}");
    assert!(plexus.run(&["db", "status"]).await.ok().contains(text(&file)));
    let backup = plexus.home().join("backup.tar.gz");
    plexus.run(&["db", "backup", text(&backup)]).await.ok();
    assert!(plexus.run(&["audit", "verify", text(&backup)]).await.ok().starts_with("Intact: "));

    std::fs::remove_file(&file).expect("it can be removed");
    let without_token = plexus.run(&["db", "status"]).await;
    assert!(
        without_token.failed(1).contains(text(&file)) && without_token.stderr.contains("does not exist"),
        "{without_token:?}"
    );
}
