//! `plexus config`: effective values, their origins, and mistakes.

use plexus_testkit::Plexus;
use serde_json::Value;

fn write(plexus: &Plexus, text: &str) -> String {
    let path = plexus.home().join("plexus.toml");
    std::fs::write(&path, text).expect("a file");
    path.to_str().expect("UTF-8").to_owned()
}

/// The cells of a line of `config show --origin`.
fn setting<'a>(shown: &'a str, key: &str) -> Vec<&'a str> {
    let line = shown.lines().find(|line| line.split('\t').next() == Some(key));
    line.unwrap_or_else(|| panic!("no {key} in {shown}")).split('\t').collect()
}

#[tokio::test]
async fn values_are_shown_with_their_origin() {
    let plexus = crate::plexus();
    let file = write(&plexus, "listen = \"localhost:7\"\n\n[limits]\njson_depth = 9\noutput_bytes = 5\n");
    let args = ["config", "show", "--origin", "--config", &file, "--data-dir", "/d"];
    let variables = [("PLEXUS_LIMITS_OUTPUT_BYTES", "6")];
    let run_output = plexus.run_with(&args, &variables).await;
    let shown = run_output.ok();
    assert_eq!(setting(shown, "data_dir"), ["data_dir", "/d", "--data-dir"]);
    assert_eq!(setting(shown, "listen")[2], format!("{file}:1"));
    assert_eq!(setting(shown, "limits.json_depth"), ["limits.json_depth", "9", &format!("{file}:4")]);
    assert_eq!(setting(shown, "limits.output_bytes")[1..], ["6", "PLEXUS_LIMITS_OUTPUT_BYTES"]);
    assert_eq!(setting(shown, "limits.body_bytes")[1..], ["4194304", "default"]);

    let json = plexus.run_with(&[&args[..], &["--json"]].concat(), &variables).await.json(0);
    let items = json["items"].as_array().expect("items");
    assert_eq!(items.len(), shown.lines().count());
    let depth: &Value = items.iter().find(|item| item["key"] == "limits.json_depth").expect("the setting");
    assert_eq!(depth["value"], 9, "{depth}");
    assert_eq!((&depth["origin"], &depth["reloadable"]), (&format!("{file}:4").into(), &true.into()));
}

#[tokio::test]
async fn password_causes_a_warning_and_is_never_shown() {
    let plexus = crate::plexus();
    let secret = "hunter2";
    let file = write(&plexus, &format!("database_url = \"postgres://ann:{secret}@db.example/plexus\"\n"));
    let mut output = String::new();
    for args in [
        &["config", "show", "--origin"][..],
        &["config", "show", "--json"],
        &["config", "check"],
        &["config", "check", "--json"],
    ] {
        let run_output = plexus.run(&[args, &["--config", &file]].concat()).await;
        output.push_str(run_output.ok());
        output.push_str(&run_output.stderr);
    }
    assert!(!output.contains(secret), "{output}");
    assert!(output.contains("postgres://ann:***@db.example/plexus"), "{output}");
    assert!(output.contains("warning: ") && output.contains("PLEXUS_DATABASE_URL"), "{output}");
}

#[tokio::test]
async fn check_lists_all_problems() {
    let plexus = crate::plexus();
    let file = write(&plexus, "lisen = \"127.0.0.1:1\"\n[limits]\nbody_bytes = \"much\"\n");
    let args = ["config", "check", "--config", &file];
    let run_output = plexus.run_with(&args, &[("PLEXUS_DURABILITY", "always")]).await;
    let output = run_output.failed(2);
    for words in [
        format!("{file}:1: unknown key `lisen`, did you mean `listen`?"),
        format!("{file}:3: `limits.body_bytes`: \"much\" is not a whole number"),
        "PLEXUS_DURABILITY: \"always\" is not `process` or `power`".to_owned(),
    ] {
        assert!(output.contains(&words), "{words} not in {output}");
    }
    let json = plexus.run(&[&args[..], &["--json"]].concat()).await.json(2);
    assert_eq!((&json["ok"], &json["warnings"]), (&false.into(), &Value::Array(vec![])), "{json}");
    let first = &json["problems"][0];
    let message = "unknown key `lisen`, did you mean `listen`?";
    let expected = serde_json::json!({ "origin": format!("{file}:1"), "key": "lisen", "message": message });
    assert_eq!(first, &expected);
    assert_eq!(json["problems"][1]["key"], "limits.body_bytes", "{json}");
}

#[tokio::test]
async fn printed_default_file_is_valid() {
    let plexus = crate::plexus();
    plexus.shell("plexus config default > mine.toml && plexus config check --config mine.toml").await.ok();
}

#[tokio::test]
async fn hub_starts_with_a_file_in_its_otherwise_empty_folder() {
    let plexus = crate::plexus();
    std::fs::create_dir_all(plexus.data_dir()).expect("a folder");
    std::fs::write(plexus.data_dir().join("plexus.toml"), "durability = \"power\"\n").expect("a file");
    let hub = plexus.up().await;
    assert_eq!(hub.api("/api/v1/status").await["durability"], "power");
}

#[tokio::test]
async fn misspelt_variable_causes_a_warning() {
    let plexus = crate::plexus();
    let run_output = plexus.run_with(&["config", "check"], &[("PLEXUS_LITSEN", "x")]).await;
    run_output.ok();
    let output = "warning: unknown environment variable PLEXUS_LITSEN; did you mean PLEXUS_LISTEN?\n";
    assert!(run_output.stderr.starts_with(output), "{run_output:?}");
}

#[tokio::test]
async fn json_errors_are_objects() {
    let plexus = crate::plexus();
    let unreachable = plexus.run(&["status", "--json", "--hub", "http://127.0.0.1:1"]).await;
    let error: Value = serde_json::from_str(unreachable.failed(4)).expect("one object");
    assert_eq!(error["code"], "unreachable");
    assert!(error["hint"].as_str().is_some_and(|hint| hint.contains("plexus up")), "{error}");
    let usage = plexus.run(&["status", "--json", "--no-such-flag"]).await;
    let error: Value = serde_json::from_str(usage.failed(2)).expect("one object");
    assert!(error["message"].as_str().is_some_and(|message| message.contains("--no-such-flag")), "{error}");
    let _hub = plexus.up().await;
    let refused = plexus.run(&["tools", "show", "nothing", "--json"]).await;
    let error: Value = serde_json::from_str(refused.failed(1)).expect("one object");
    assert_eq!(error["code"], "unknown_tool", "{error}");
}
