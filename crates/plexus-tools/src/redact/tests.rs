//! Tests that secrets are redacted, and that redacting text and values gives the same result.

use serde_json::{Value, json};

use super::{bounded, is_secret_name, json as redacted, json_text, raw, value};

#[test]
fn only_secrets_are_redacted() {
    let jwt = ["eyJhbGciOiJFZERTQSJ9", "eyJqdGkiOiIwMTkifQ", "c2lnbmF0dXJlLXBhcnQ"].join(".");
    let mut arguments = json!({
        "password": "hunter2",
        "API-Key": "k",
        "nested": [{ "client_secret": { "a": 1 }, "max_tokens": 5, "text": format!("use {jwt} now") }],
        "url": "postgres://ann:pw@db/x",
        "header": "Authorization: Bearer abcdefgh12345",
        "pem": "-----BEGIN PRIVATE KEY-----\nMC4CAQ\n-----END PRIVATE KEY-----\nafter",
        "plain": "a token of appreciation",
        "redis": "redis://:p@ss@host/0",
        "query": "https://x.example/a?b=1&access_token=abc&c=2",
        "env": "AWS_SECRET_ACCESS_KEY=abc123 HOME=/root",
    });
    value(&mut arguments);
    assert_eq!(
        arguments,
        json!({
            "password": "[redacted]",
            "API-Key": "[redacted]",
            "nested": [{ "client_secret": "[redacted]", "max_tokens": 5, "text": "use [redacted] now" }],
            "url": "postgres[redacted]db/x",
            "header": "Authorization: [redacted]",
            "pem": "[redacted]\nafter",
            "plain": "a token of appreciation",
            "redis": "redis[redacted]host/0",
            "query": "https://x.example/a?b=1[redacted]&c=2",
            "env": "[redacted] HOME=/root",
        })
    );
}

#[test]
fn credentials_in_keys_are_redacted_without_losing_fields() {
    let (one, other) = (format!("ghp_{}", "a".repeat(36)), format!("ghp_{}", "b".repeat(36)));
    let mut by_token = json!({ &one: 1, &other: { format!("of {one}"): true }, "[redacted]": 3, "plain": 4 });
    let text = by_token.to_string();
    value(&mut by_token);
    let redacted_value = by_token.to_string();
    assert!(
        !redacted_value.contains("ghp_") && redacted_value.contains(r#"{"of [redacted]":true}"#),
        "{redacted_value}"
    );
    let names: Vec<_> = by_token.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(names.len(), 4, "{names:?}");
    assert_eq!(json_text(&text), redacted_value);
}

#[test]
fn bounded_value_is_truncated_to_valid_json() {
    let text = bounded(&json!({ "content": "ü".repeat(10_000) }).to_string(), 1000).into_owned();
    let parsed: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(parsed["truncated"], true);
    assert!(text.len() < 1200, "{}", text.len());
}

#[test]
fn secret_names_are_recognized_by_suffix_ignoring_separators() {
    for name in ["password", "PASSWORD", "db_password", "pass-word_", "X-Api-Key", "p_a_s_s_w_d", "authToken"]
    {
        assert!(is_secret_name(name), "{name}");
    }
    for name in ["", "max_tokens", "tokens", "oken", "passwords", "key", "api", "pässword1"] {
        assert!(!is_secret_name(name), "{name}");
    }
}

/// A seeded random number generator (SplitMix64).
struct SeededRandom(u64);

impl SeededRandom {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % limit as u64) as usize
    }

    fn choose<'l>(&mut self, list: &[&'l str]) -> &'l str {
        list[self.below(list.len())]
    }

    /// Text of secrets, parts of secrets, near misses, and separators.
    fn text(&mut self) -> String {
        const PIECES: &[&str] = &[
            "eyJhbGciOiJFZERTQSJ9.",
            "eyJqdGkiOiIwMTkifQ.",
            "c2lnbmF0dXJlLXBhcnQ",
            "Bearer ",
            "basic\n",
            "BASIC\t",
            "abcdefgh12345",
            "sk-",
            "rk_",
            "0123456789abcdef01",
            "npm_",
            "hf-",
            "dop_v1_",
            "ghp_",
            "github_pat_",
            "abcdefghijklmnopqrst",
            "glpat-",
            "xoxb-",
            "AKIA",
            "ABCDEFGHIJKLMNOP",
            "AIza",
            "-----BEGIN ",
            "RSA ",
            "PRIVATE KEY-----",
            "-----END PRIVATE KEY-----",
            "://",
            ":/",
            "/",
            "ann",
            ":",
            "pw",
            "@",
            "host",
            "?",
            "&",
            "access_token",
            "sig",
            "signature",
            "Key",
            "SECRET",
            "=",
            "password",
            "PassWord",
            "token",
            "api_key",
            "apikey",
            "to\u{212A}en",
            "\u{17F}ecret",
            "\"",
            "'",
            " ",
            "\n",
            "\t",
            "\r",
            "\\",
            "\u{8}",
            "\u{0}",
            "\u{b}",
            "\u{a0}",
            "é",
            "n",
            "b",
            "_",
            "-",
            ",",
            ";",
            "x",
            "1e5",
            "{",
            "}",
            "[",
            "]",
            "\\u0041",
        ];
        (0..self.below(9)).map(|_| self.choose(PIECES)).collect()
    }

    fn name(&mut self) -> String {
        if self.below(3) == 0 {
            return self.text();
        }
        const NAMES: &[&str] = &[
            "password",
            "pass",
            "word",
            "-",
            "_",
            "API",
            "key",
            "token",
            "s",
            "max_tokens",
            "text",
            "Cookie",
            "id",
            "é",
            "se",
            "cret",
            "author",
            "ization",
            "\n",
            "/",
            "\"",
            " ",
        ];
        (0..=self.below(4)).map(|_| self.choose(NAMES)).collect()
    }

    fn value(&mut self, depth: usize) -> Value {
        match self.below(if depth == 0 { 5 } else { 8 }) {
            0 => Value::Null,
            1 => json!(self.below(2) == 0),
            2 => json!(self.below(100_000) as f64 / 7.0),
            3 | 4 => Value::from(self.text()),
            5 => (0..self.below(4)).map(|_| self.value(depth - 1)).collect(),
            _ => Value::Object((0..self.below(4)).map(|_| (self.name(), self.value(depth - 1))).collect()),
        }
    }

    /// Writes a value with white space and unnecessary escapes.
    fn render(&mut self, value: &Value, out: &mut String) {
        match value {
            Value::String(text) => self.string(text, out),
            Value::Array(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    out.push_str(if index == 0 { "" } else { "," });
                    self.space(out);
                    self.render(item, out);
                }
                self.space(out);
                out.push(']');
            }
            Value::Object(fields) => {
                out.push('{');
                for (index, (name, field)) in fields.iter().enumerate() {
                    out.push_str(if index == 0 { "" } else { "," });
                    self.space(out);
                    self.string(name, out);
                    self.space(out);
                    out.push(':');
                    self.space(out);
                    self.render(field, out);
                }
                out.push('}');
            }
            other => out.push_str(&other.to_string()),
        }
    }

    fn space(&mut self, out: &mut String) {
        out.push_str(["", "", "", "", " ", "  ", "\n"][self.below(7)]);
    }

    fn string(&mut self, text: &str, out: &mut String) {
        let plain = Value::from(text).to_string();
        match self.below(6) {
            0 => out.push_str(&plain.replace('/', "\\/")),
            1 => {
                out.push('"');
                for unit in text.encode_utf16() {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
                out.push('"');
            }
            _ => out.push_str(&plain),
        }
    }
}

/// The fast path, which does not parse clean text, gives the same result as redacting the parsed value.
#[test]
fn redacting_text_equals_redacting_the_parsed_value() {
    let (mut clean, mut changed) = (0, 0);
    let mut random = SeededRandom(20_261_116);
    for round in 0..60_000 {
        let mut expected = random.value(3);
        let mut text = String::new();
        random.render(&expected, &mut text);
        let original = expected.clone();
        value(&mut expected);
        changed += usize::from(expected != original);
        clean += usize::from(raw::is_clean(&text));
        let redacted_value: Value = serde_json::from_str(&json_text(&text)).unwrap();
        assert_eq!(redacted_value, expected, "round {round}: {text}");
        let redacted_value: Value = serde_json::from_str(&redacted(&original)).unwrap();
        assert_eq!(redacted_value, expected, "round {round}: {original}");
    }
    // Both paths are covered often.
    assert!(clean > 10_000 && changed > 5_000, "{clean} clean, {changed} redacted");
}

#[test]
fn ordinary_results_take_the_fast_path() {
    for text in [
        r#"{"content":[{"type":"text","text":"The quick brown fox jumps over the lazy dog."}],"structured":null}"#,
        r#"{"text":"{\"items\":[{\"id\":1,\"url\":\"https://example.net/a?b=1\"}]}\nmax_tokens: 5, by ann@example.net"}"#,
        r#"{"max_tokens":5,"tasks":["task_a_name_that_is_rather_long"],"n":-1.5,"note":"a token of appreciation"}"#,
    ] {
        assert!(raw::is_clean(text), "{text}");
    }
}

#[test]
fn unparsable_json_is_kept_as_text() {
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    for text in ["1e400", "[1E999]", &deep, &"9".repeat(400)] {
        let redacted_value: Value = serde_json::from_str(&json_text(text)).unwrap();
        assert_eq!(redacted_value, Value::from(text));
    }
    assert_eq!(json_text("{\"a\":\n1}"), r#"{"a":1}"#);
}

#[test]
fn unparsable_json_with_a_possible_secret_is_dropped() {
    let deep = |inner: &str| format!("{}{inner}{}", "[".repeat(200), "]".repeat(200));
    let key = format!("sk-{}", "a1".repeat(12));
    for text in [
        r#"{"password":"hunter2","n":1e400}"#.to_owned(),
        r#"{"n":1e400,"API-Key" : {"hunter2":[1]}}"#.to_owned(),
        r#"{"n":1e400,"p\u0061ssword":"hunter2"}"#.to_owned(),
        deep(r#"{"client_secret":"hunter2"}"#),
        deep(&format!(r#"{{"note":"use {key} hunter2"}}"#)),
        deep(&format!(r#"{{"{key}":"hunter2"}}"#)),
    ] {
        let redacted_value: Value = serde_json::from_str(&json_text(&text)).unwrap();
        assert_eq!(redacted_value, json!({ "unreadable": true, "bytes": text.len() }), "{text}");
    }
}

#[test]
fn many_credential_keys_stay_distinct_in_linear_time() {
    let count = 20_000;
    let mut fields: Value = (0..count).map(|n| (format!("ghp_{n:036}"), Value::from(n))).collect();
    let started = std::time::Instant::now();
    value(&mut fields);
    assert_eq!(fields.as_object().unwrap().len(), count);
    assert!(!fields.to_string().contains("ghp_"));
    // A quadratic search for a free name takes minutes.
    assert!(started.elapsed() < std::time::Duration::from_secs(20), "{:?}", started.elapsed());
}

#[test]
fn unrecorded_fields_keep_length_and_only_long_ones_a_hash() {
    let long = "x".repeat(2000);
    let value = serde_json::json!({ "path": "/a", "data": "hunter2", "parts": [{ "data": long, "at": 5 }], "n": { "data": 7 } });
    let remaining = super::without(&value, &["data"]).into_owned();
    assert_eq!(remaining["data"], serde_json::json!({ "not_recorded": 7 }));
    assert_eq!(remaining["parts"][0]["data"]["not_recorded"], 2000);
    assert_eq!(remaining["parts"][0]["data"]["sha256"].as_str().map(str::len), Some(64));
    assert_eq!(
        (&remaining["path"], &remaining["parts"][0]["at"], &remaining["n"]["data"]),
        (&"/a".into(), &5.into(), &7.into())
    );
    assert!(!remaining.to_string().contains("hunter2") && !remaining.to_string().contains("xxx"));
    assert!(matches!(super::without(&value, &[]), std::borrow::Cow::Borrowed(_)));
}
