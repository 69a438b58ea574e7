use std::path::Path;

use super::{Config, Durability, LiveConfig, Origin, RawConfig, SETTINGS, Value};
use crate::{Environment, Secret};

fn environment(vars: &[(&str, &str)]) -> Environment {
    vars.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

fn file(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    file
}

/// Loads this file with `HOME` set to `/h` and the given variables.
fn load(text: &str, vars: &[(&str, &str)]) -> Result<Config, super::ConfigError> {
    let file = file(text);
    let vars = [vars, &[("HOME", "/h")]].concat();
    Config::load(Some(file.path()), &environment(&vars), RawConfig::default())
}

/// The errors in a file, one text each, without the folder.
fn problems(text: &str, vars: &[(&str, &str)]) -> Vec<String> {
    let problems = load(text, vars).unwrap_err().problems;
    problems.iter().map(|problem| problem.to_string().rsplit('/').next().unwrap().to_owned()).collect()
}

#[test]
fn flags_win_over_environment_over_file_over_defaults() {
    let file = file("listen = \"127.0.0.1:1\"\ndata_dir = \"/from/file\"\ndurability = \"power\"\n");
    let environment = environment(&[("PLEXUS_LISTEN", "127.0.0.1:2"), ("PLEXUS_DATA_DIR", "/from/env")]);
    let flags = RawConfig { data_dir: Some("/from/flag".into()), ..RawConfig::default() };

    let config = Config::load(Some(file.path()), &environment, flags).unwrap();

    assert_eq!(config.data_dir, Path::new("/from/flag"));
    assert_eq!(config.listen.port(), 2);
    assert_eq!(config.durability, Durability::Power);
    assert_eq!(config.limits.json_depth, 64);
    let origin = |key| config.settings.get(key).unwrap().origin.to_string();
    assert_eq!(origin("data_dir"), "--data-dir");
    assert_eq!(origin("listen"), "PLEXUS_LISTEN");
    assert_eq!(origin("durability"), format!("{}:3", file.path().display()));
    assert_eq!(origin("limits.json_depth"), "default");
}

#[test]
fn every_setting_is_accepted_in_the_file_and_as_a_variable() {
    // A non-default value for each setting.
    let other = |setting: &super::Setting| match setting.key {
        "data_dir" => "/elsewhere",
        "listen" => "127.0.0.1:9",
        "database_url" => "sqlite:/elsewhere.db",
        "durability" => "power",
        "allowed_hosts" => "one.example, two.example",
        "public_url" | "allowed_origins" | "auth.authorization_servers" | "telemetry.otlp_endpoint" => {
            "https://one.example"
        }
        "telemetry.log" => "debug",
        "telemetry.log_format" => "json",
        "telemetry.metrics" | "nodes.local" => "false",
        "upstreams.dir" | "tools.dir" | "sync.workspace" => "/elsewhere/folder",
        "sync.max_bytes" => "4096",
        "nodes.key" => "0123456789abcdef0123456789abcdef",
        "tls.cert" | "tls.key" | "nodes.client_ca" => "/elsewhere/file.pem",
        "upstreams.private_networks" => "true",
        _ => "7",
    };
    for setting in SETTINGS {
        let text = other(setting);
        let wanted = Value::parse(setting.kind, text).unwrap();
        let written = match &wanted {
            Value::Secret(_) => format!("{text:?}"),
            value => value.shown(),
        };
        // Settings that this one requires.
        let beside: &[(&str, &str)] = match setting.key {
            "tls.cert" => &[("PLEXUS_TLS_KEY", "/elsewhere/key.pem")],
            "tls.key" => &[("PLEXUS_TLS_CERT", "/elsewhere/cert.pem")],
            "nodes.client_ca" => {
                &[("PLEXUS_TLS_CERT", "/elsewhere/cert.pem"), ("PLEXUS_TLS_KEY", "/elsewhere/key.pem")]
            }
            _ => &[],
        };
        for config in [
            load("", &[&[(setting.variable, text)], beside].concat()),
            load(&format!("{} = {written}", setting.key), beside),
        ] {
            let config = config.unwrap();
            let effective = config.settings.get(setting.key).unwrap();
            assert_eq!(effective.value, wanted, "{}", setting.key);
            assert_ne!(effective.origin, Origin::Default, "{}", setting.key);
            let defaults = match beside {
                [] => load("", &[]).unwrap(),
                // These two are only valid together.
                _ => load("", &[("PLEXUS_TLS_CERT", "/a"), ("PLEXUS_TLS_KEY", "/b")]).unwrap(),
            };
            let fields = |config: &Config| {
                format!("{:?}", Config { settings: super::Settings::default(), ..config.clone() })
            };
            // Debug output omits secrets.
            if !setting.is_secret() {
                assert_ne!(fields(&config), fields(&defaults), "{} has no effect", setting.key);
            }
        }
    }
}

#[test]
fn variables_are_named_after_their_key() {
    for setting in SETTINGS {
        let derived = format!("PLEXUS_{}", setting.key.to_uppercase().replace('.', "_"));
        // Two variables predate their keys, one is named after its flag, and one is shared with nodes.
        let short = ["PLEXUS_LOG", "PLEXUS_LOG_FORMAT", "PLEXUS_MCP_DIR", "PLEXUS_NODE_KEY"]
            .contains(&setting.variable);
        assert!(short || setting.variable == derived, "{}", setting.key);
        assert!(Value::parse(setting.kind, setting.default).is_some(), "{}", setting.key);
        assert!(!setting.about.is_empty() && !setting.expected.is_empty(), "{}", setting.key);
        assert!(!setting.default.is_empty() || !setting.unset.is_empty(), "{}", setting.key);
    }
}

#[test]
fn misspelt_key_error_has_location_and_suggestion() {
    let text =
        "lisen = \"127.0.0.1:1\"\nbody_bytes = 5\n\n[limit]\n[limits]\njson_deph = 3\n[zebra]\nx = 1\n";
    let found = problems(text, &[]);
    for (line, words) in [
        (1, "unknown key `lisen`, did you mean `listen`?"),
        (2, "unknown key `body_bytes`, did you mean `limits.body_bytes`?"),
        (4, "unknown key `limit`, did you mean `limits`?"),
        (6, "unknown key `limits.json_deph`, did you mean `limits.json_depth`?"),
        (7, "unknown key `zebra`; `plexus config default` lists all keys"),
    ] {
        let wanted = format!(":{line}: {words}");
        assert!(found.iter().any(|problem| problem.ends_with(&wanted)), "{wanted} not in {found:#?}");
    }
    assert_eq!(found.len(), 5, "{found:#?}");
}

#[test]
fn invalid_value_error_has_origin_and_expectation() {
    let found = problems(
        "listen = \"127.0.0.1\"\nallowed_hosts = \"one\"\n[limits]\nbody_bytes = \"x\"\njson_depth = 0\n",
        &[
            ("PLEXUS_LIMITS_OUTPUT_BYTES", "many"),
            ("PLEXUS_LOG_FORMAT", "yaml"),
            ("PLEXUS_TELEMETRY_METRICS", "perhaps"),
            // An invalid value in the file is reported even if a variable overrides it.
            ("PLEXUS_LISTEN", "127.0.0.1:1"),
        ],
    );
    for wanted in [
        ":1: `listen`: \"127.0.0.1\" is not an address with a port",
        ":2: `allowed_hosts`: \"one\" is not a list of host names",
        ":4: `limits.body_bytes`: \"x\" is not a whole number from 1",
        ":5: `limits.json_depth`: 0 is not a whole number from 1",
        "PLEXUS_LIMITS_OUTPUT_BYTES: \"many\" is not a whole number",
        "PLEXUS_LOG_FORMAT: \"yaml\" is not `text` or `json`",
        "PLEXUS_TELEMETRY_METRICS: \"perhaps\" is not `true` or `false`",
    ] {
        assert!(found.iter().any(|problem| problem.contains(wanted)), "{wanted} not in {found:#?}");
    }
    assert_eq!(found.len(), 7, "{found:#?}");
}

#[test]
fn syntax_error_names_the_line() {
    let found = problems("listen = \"127.0.0.1:1\"\nnonsense\n", &[]);
    assert!(found[0].contains(":2: "), "{found:?}");
}

#[test]
fn missing_quotes_are_reported_once() {
    let found = problems("json_deph = 1\nlisten = 127.0.0.1:7420\ndurability = power\n", &[]);
    assert_eq!(found.len(), 3, "{found:#?}");
    // In the order of the file.
    assert!(found[0].contains(":1: unknown key"), "{found:#?}");
    assert!(found[1].ends_with(":2: text needs quotes: listen = \"…\""), "{found:#?}");
    assert!(found[2].ends_with(":3: text needs quotes: durability = \"…\""), "{found:#?}");
    let secret = load("database_url = postgres://ann:hunter2@db/x\n", &[]).unwrap_err().to_string();
    assert!(secret.contains("needs quotes") && !secret.contains("hunter2"), "{secret}");
}

#[test]
fn warnings_are_kept_when_there_are_errors() {
    let error = load("lisen = 1\ndatabase_url = \"postgres://ann:hunter2@db/x\"\n", &[]).unwrap_err();
    assert_eq!((error.problems.len(), error.warnings.len()), (1, 1), "{error:?}");
}

#[test]
fn variable_derived_from_key_suggests_the_short_name() {
    let environment =
        environment(&[("PLEXUS_TELEMETRY_LOG", "debug"), ("PLEXUS_TELEMETRY_LOG_FORMAT", "json")]);
    let meant: Vec<_> = environment.unknown().into_iter().map(|(_, meant)| meant).collect();
    assert_eq!(meant, [Some("PLEXUS_LOG"), Some("PLEXUS_LOG_FORMAT")]);
}

#[test]
fn errors_and_reports_omit_secrets() {
    let secret = "hunter2";
    let wrong = load(&format!("database_url = [\"{secret}\"]"), &[]).unwrap_err();
    assert!(!format!("{wrong} {wrong:?}").contains(secret), "{wrong:?}");
    let url = format!("postgres://ann:{secret}@db.example/plexus");
    let config = load(&format!("database_url = \"{url}\""), &[]).unwrap();
    assert!(!format!("{config:?}").contains(secret));
    let report = config.settings.report();
    let shown = &report.iter().find(|setting| setting.key == "database_url").unwrap().value;
    assert_eq!(shown, "postgres://ann:***@db.example/plexus");
    // Works, but causes a warning.
    let warnings = config.warnings();
    assert!(warnings.len() == 1 && warnings[0].contains("PLEXUS_DATABASE_URL"), "{warnings:?}");
    assert!(!warnings[0].contains(secret), "{warnings:?}");
    assert!(load("", &[("PLEXUS_DATABASE_URL", &url)]).unwrap().warnings().is_empty());
}

#[test]
fn errors_and_reports_omit_collector_credentials() {
    let secret = "hunter2";
    for url in [format!("https://ann:{secret}@otel.example"), format!("https://otel.example?k={secret}")] {
        let config = load("", &[("PLEXUS_TELEMETRY_OTLP_ENDPOINT", &url)]).unwrap();
        let report = config.settings.report();
        let shown = &report.iter().find(|setting| setting.key == "telemetry.otlp_endpoint").unwrap().value;
        assert!(shown.as_str().unwrap().contains("otel.example"), "{shown}");
        assert!(!format!("{report:?} {config:?}").contains(secret), "{config:?}");
        let wrong =
            load("", &[("PLEXUS_TELEMETRY_OTLP_ENDPOINT", &url.replace("https", "grpc"))]).unwrap_err();
        assert!(!format!("{wrong} {wrong:?}").contains(secret), "{wrong:?}");
    }
}

#[test]
fn secret_may_reference_a_variable_or_a_file() {
    use crate::ExposeSecret;
    let text = "database_url = \"postgres://ann:${env:DB_PASSWORD}@db/plexus\"";
    let config = load(text, &[("DB_PASSWORD", "hunter2")]).unwrap();
    assert!(config.warnings().is_empty(), "{:?}", config.warnings());
    let url = config.database_url.unwrap();
    assert_eq!(url.expose_secret(), "postgres://ann:hunter2@db/plexus");
    let secret = file("hunter3\n");
    let text_of_file =
        format!("database_url = \"postgres://ann:${{file:{}}}@db/plexus\"", secret.path().display());
    let config = load(&text_of_file, &[]).unwrap();
    assert!(config.warnings().is_empty(), "{:?}", config.warnings());
    assert_eq!(config.database_url.unwrap().expose_secret(), "postgres://ann:hunter3@db/plexus");
    for (missing, words) in [
        (text, "`database_url`: needs the variable DB_PASSWORD, which is not set"),
        ("database_url = \"${file:/no/such/file}\"", "needs the file /no/such/file, which does not exist"),
        ("database_url = \"${vault:x}\"", "neither `${env:NAME}` nor `${file:PATH}`"),
        ("database_url = \"${env:X\"", "has a `${` without a `}`"),
    ] {
        let error = load(missing, &[]).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn listen_address_needs_a_port_and_accepts_localhost() {
    let listen = |text: &str| {
        let flags = RawConfig { listen: Some(text.to_owned()), ..RawConfig::default() };
        Config::load(None, &environment(&[("HOME", "/h")]), flags).map(|config| config.listen.to_string())
    };
    let error = listen("localhost").unwrap_err().to_string();
    assert!(error.contains("--listen: \"localhost\"") && error.contains("127.0.0.1:7420"), "{error}");
    assert_eq!(listen("localhost:7").unwrap(), "127.0.0.1:7");
    assert_eq!(listen("[::1]:7").unwrap(), "[::1]:7");
}

#[test]
fn data_folder_follows_xdg() {
    let load = |vars: &[(&str, &str)]| Config::load(None, &environment(vars), RawConfig::default());
    assert_eq!(load(&[("HOME", "/h")]).unwrap().data_dir, Path::new("/h/.local/share/plexus"));
    assert_eq!(load(&[("HOME", "/h"), ("XDG_DATA_HOME", "/x")]).unwrap().data_dir, Path::new("/x/plexus"));
    assert!(load(&[]).unwrap_err().to_string().contains("no data folder"));
}

#[test]
fn paths_are_absolute_and_tilde_is_expanded() {
    let load = |dir: &str| {
        let flags = RawConfig { data_dir: Some(dir.into()), ..RawConfig::default() };
        Config::load(None, &environment(&[("HOME", "/h")]), flags).unwrap().data_dir
    };
    assert_eq!(load("~/d"), Path::new("/h/d"));
    assert_eq!(load("d"), std::env::current_dir().unwrap().join("d"));
    assert_eq!(load("/a/~/d"), Path::new("/a/~/d"));
}

#[test]
fn config_file_defaults_to_the_data_folder() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("plexus.toml"), "limits.json_depth = 5\n").unwrap();
    let depth = |named: Option<&Path>| {
        let flags = RawConfig { data_dir: Some(folder.path().to_owned()), ..RawConfig::default() };
        Config::load(named, &Environment::default(), flags).unwrap().limits.json_depth
    };
    assert_eq!(depth(None), 5);
    assert_eq!(depth(Some(file("").path())), 64);
}

#[test]
fn values_that_can_never_match_are_rejected() {
    for (text, words) in [
        ("allowed_hosts = [\"https://foo.example\"]", "a list of host names"),
        ("allowed_origins = [\"foo.example\"]", "an origin in each entry"),
        ("public_url = \"hub.example.net\"", "a URL such as"),
        ("telemetry.log = \"no=such=level\"", "a log filter"),
    ] {
        let error = load(text, &[]).unwrap_err().to_string();
        assert!(error.contains(words), "{text}: {error}");
    }
}

#[test]
fn standard_trace_variable_is_a_fallback() {
    use crate::ExposeSecret;
    let theirs = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://theirs:4318/");
    let endpoint = |vars: &[(&str, &str)]| load("", vars).unwrap().telemetry.otlp_endpoint;
    assert_eq!(endpoint(&[theirs]).as_ref().map(|url| url.expose_secret()), Some("http://theirs:4318"));
    let ours = ("PLEXUS_TELEMETRY_OTLP_ENDPOINT", "http://ours:4318");
    assert_eq!(endpoint(&[theirs, ours]).as_ref().map(|url| url.expose_secret()), Some("http://ours:4318"));
    assert!(endpoint(&[]).is_none());
}

#[test]
fn reload_applies_only_reloadable_settings() {
    let live = LiveConfig::new(load("listen = \"127.0.0.1:1\"\n", &[]).unwrap());
    let mut read = load("listen = \"127.0.0.1:2\"\n[limits]\nbody_bytes = 9\n", &[]).unwrap();
    read.database_url = Some(Secret::from("sqlite:/not/from/settings"));

    let reloaded = live.reload(read);

    let keys = |changes: &[super::Change]| changes.iter().map(|change| change.key).collect::<Vec<_>>();
    assert_eq!(keys(&reloaded.changed), ["limits.body_bytes"]);
    assert_eq!(keys(&reloaded.needs_restart), ["listen"]);
    assert_eq!(reloaded.needs_restart[0].old, "\"127.0.0.1:1\"");
    assert_eq!(reloaded.needs_restart[0].new, "\"127.0.0.1:2\"");
    let now = live.snapshot();
    assert_eq!((now.limits.body_bytes, now.listen.port()), (9, 1));
    assert_eq!(now.settings.get("listen").unwrap().value, Value::Text("127.0.0.1:1".to_owned()));
    // Reverting a value is a change too.
    assert_eq!(
        keys(&live.reload(load("listen = \"127.0.0.1:1\"\n", &[]).unwrap()).changed),
        ["limits.body_bytes"]
    );
}

#[test]
fn unknown_variable_comes_with_a_suggestion() {
    let environment = environment(&[("PLEXUS_LITSEN", "x"), ("PLEXUS_LISTEN", "x"), ("PLEXUS_ZEBRA", "x")]);
    assert_eq!(environment.unknown(), [("PLEXUS_LITSEN", Some("PLEXUS_LISTEN")), ("PLEXUS_ZEBRA", None)]);
}

#[test]
fn colours_need_a_terminal_and_can_be_disabled() {
    assert!(environment(&[("TERM", "xterm-256color")]).wants_colours(true));
    assert!(!environment(&[("TERM", "xterm-256color")]).wants_colours(false));
    assert!(!environment(&[("NO_COLOR", "1")]).wants_colours(true));
    assert!(!environment(&[("TERM", "dumb")]).wants_colours(true));
}

#[test]
fn upstreams_folder_defaults_to_the_data_folder() {
    let dir = |text: &str, variables: &[(&str, &str)]| load(text, variables).unwrap().upstreams.dir;
    let config = load("data_dir = \"/data\"", &[]).unwrap();
    assert_eq!(config.upstreams.dir, Path::new("/data/mcp_servers.d"));
    assert_eq!(config.settings.get("upstreams.dir").unwrap().value.to_string(), "/data/mcp_servers.d");
    assert_eq!(dir("upstreams.dir = \"/etc/mcp\"", &[]), Path::new("/etc/mcp"));
    assert_eq!(dir("", &[("PLEXUS_MCP_DIR", "~/mcp")]), Path::new("/h/mcp"));
}

#[test]
fn commands_are_allowed_by_exact_name_or_full_path() {
    let upstreams = load("upstreams.commands = [\"npx\", \"/opt/server\"]", &[]).unwrap().upstreams;
    assert!(upstreams.allows("npx") && upstreams.allows("/opt/server"));
    assert!(!upstreams.allows("/tmp/npx") && !upstreams.allows("server") && !upstreams.allows("./npx"));
    assert!(load("", &[]).unwrap().upstreams.allows("uvx"));
    for wrong in ["bin/server", "npx -y", ""] {
        assert!(load(&format!("upstreams.commands = [\"{wrong}\"]"), &[]).is_err(), "{wrong}");
    }
}

#[test]
fn incomplete_tls_files_are_rejected_naming_the_missing_one() {
    for (text, words) in [
        ("[tls]\ncert = \"/c.pem\"\n", ":2: `tls.cert`: a certificate needs its key: set `tls.key` as well"),
        ("[tls]\nkey = \"/k.pem\"\n", ":2: `tls.key`: a key needs its certificate: set `tls.cert` as well"),
        ("[nodes]\nclient_ca = \"/ca.pem\"\n", ":2: `nodes.client_ca`: client certificates need TLS"),
    ] {
        let found = problems(text, &[]);
        assert!(found.len() == 1 && found[0].contains(words), "{words} not in {found:#?}");
    }
}
