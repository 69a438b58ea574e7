use super::{Part, Resolver, literal, parts};
use crate::Environment;

fn environment() -> Environment {
    [("NAME", "ann"), ("EMPTY", ""), ("HOME", "/home/ann")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into_iter()
        .collect()
}

#[test]
fn references_are_resolved() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("token"), "from a file\r\n").unwrap();
    std::fs::write(folder.path().join("lines"), "two\n\n").unwrap();
    let environment = environment();
    let resolver = Resolver::new(&environment, folder.path());
    for (text, value) in [
        ("", ""),
        ("plain $NAME {x} $", "plain $NAME {x} $"),
        ("${env:NAME}", "ann"),
        ("<${env:NAME}${env:NAME}>", "<annann>"),
        ("${env:EMPTY:-else}", "else"),
        ("${env:MISSING:-}", ""),
        ("${env:MISSING:-a:-b}", "a:-b"),
        ("${file:token}", "from a file"),
        ("${file:lines}", "two\n"),
        ("$${env:NAME}", "${env:NAME}"),
        ("a$${b}${env:NAME}", "a${b}ann"),
        ("$$${env:NAME}", "$${env:NAME}"),
    ] {
        assert_eq!(resolver.resolve(text).as_deref(), Ok(value), "{text}");
    }
}

#[test]
fn resolve_error_states_the_cause() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("long"), "x".repeat(65 * 1024)).unwrap();
    std::fs::write(folder.path().join("bytes"), [0xff, 0xfe]).unwrap();
    let environment = environment();
    let resolver = Resolver::new(&environment, folder.path());
    for (text, what, missing) in [
        ("${env:MISSING}", "needs the variable MISSING, which is not set or empty", true),
        ("${env:EMPTY}", "needs the variable EMPTY, which is not set or empty", true),
        ("${NAME}", "has `${NAME}`, which names no source", false),
        ("${env:}", "has a `${env:…}` that names no variable", false),
        ("${env:A B}", "has a `${env:…}` that names no variable", false),
        ("${env:A:-${env:NAME}}", "has a reference in the default of `${env:A}`", false),
        ("${input:x}", "has a `${…}` that is neither `${env:NAME}` nor `${file:PATH}`", false),
        ("${env:NAME", "has a `${` without a `}`", false),
        ("${secret:x}", "uses `${secret:…}`, but vaults are not supported", false),
        ("${file:}", "has a `${file:…}` without a path", false),
    ] {
        let error = resolver.resolve(text).unwrap_err();
        assert_eq!((error.what.as_str(), error.missing), (what, missing), "{text}");
        assert!(!error.fix.is_empty(), "{text}");
    }
    let unset = resolver.resolve("${env:MISSING}").unwrap_err();
    assert_eq!(
        unset.fix,
        "set it where the hub is started and restart the hub, give a default as in `${env:MISSING:-default}`, or use \
         `${file:PATH}`"
    );
    for (file, why) in [
        ("none", "does not exist"),
        ("long", "is too long"),
        ("bytes", "is not UTF-8"),
        (".", "is not a file"),
    ] {
        let error = resolver.resolve(&format!("${{file:{file}}}")).unwrap_err();
        assert!(error.missing && error.what.ends_with(&format!(", which {why}")), "{error}");
    }
}

#[test]
fn parts_cover_the_whole_text() {
    let text = "a${env:B}c$${d}${e";
    let all: Vec<_> = parts(text).collect();
    let expected =
        [Part::Text("a"), Part::Reference("env:B"), Part::Text("c"), Part::Text("${"), Part::Text("d}")];
    assert_eq!(all[..5], expected);
    assert_eq!(all[5..], [Part::Open("${e")]);
    assert_eq!(literal(text), "ac${d}${e");
}
