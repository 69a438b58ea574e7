use std::path::Path;

use super::{Config, ConfigError, Durability, RawConfig};
use crate::Environment;

fn environment(vars: &[(&str, &str)]) -> Environment {
    vars.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

fn file(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    file
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
}

#[test]
fn a_misspelt_key_is_named_with_its_place() {
    let file = file("lisen = \"127.0.0.1:1\"\n");
    let error =
        Config::load(Some(file.path()), &environment(&[("HOME", "/h")]), RawConfig::default()).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("lisen") && text.contains("line 1") && text.contains("listen"), "{text}");
}

#[test]
fn a_listen_address_without_a_port_says_what_is_expected() {
    let flags = RawConfig { listen: Some("localhost".to_owned()), ..RawConfig::default() };
    let error = Config::load(None, &environment(&[("HOME", "/h")]), flags).unwrap_err();
    assert!(matches!(error, ConfigError::Value { .. }));
    assert!(error.to_string().contains("127.0.0.1:7420"), "{error}");
}

#[test]
fn the_data_folder_follows_xdg() {
    let load = |vars: &[(&str, &str)]| Config::load(None, &environment(vars), RawConfig::default());
    assert_eq!(load(&[("HOME", "/h")]).unwrap().data_dir, Path::new("/h/.local/share/plexus"));
    assert_eq!(load(&[("HOME", "/h"), ("XDG_DATA_HOME", "/x")]).unwrap().data_dir, Path::new("/x/plexus"));
    assert!(matches!(load(&[]).unwrap_err(), ConfigError::NoDataDir));
}

#[test]
fn a_tilde_is_the_home_folder_and_a_path_is_made_absolute() {
    let load = |dir: &str| {
        let flags = RawConfig { data_dir: Some(dir.into()), ..RawConfig::default() };
        Config::load(None, &environment(&[("HOME", "/h")]), flags).unwrap().data_dir
    };
    assert_eq!(load("~/d"), Path::new("/h/d"));
    assert_eq!(load("d"), std::env::current_dir().unwrap().join("d"));
    assert_eq!(load("/a/~/d"), Path::new("/a/~/d"));
}

#[test]
fn what_can_never_match_is_refused() {
    for (text, words) in [
        ("allowed_hosts = [\"https://foo.example\"]", "a host name"),
        ("allowed_origins = [\"foo.example\"]", "an origin"),
        ("public_url = \"hub.example.net\"", "a URL such as"),
    ] {
        let file = file(text);
        let loaded = Config::load(Some(file.path()), &environment(&[("HOME", "/h")]), RawConfig::default());
        assert!(loaded.unwrap_err().to_string().contains(words), "{text}");
    }
}
