use super::{Scope, ScopeSet};

fn set(scopes: &[&str]) -> ScopeSet {
    ScopeSet::parse(scopes).unwrap()
}

#[test]
fn scope_grants_matching_resources() {
    let table: &[(&str, &str, bool)] = &[
        ("call:*", "call:todo", true),
        ("call:*", "call:todo.list", true),
        ("call:todo", "call:todo.list", true),
        ("call:todo.list", "call:todo.add", false),
        ("call:todo.list", "call:todo", false),
        ("call:todo", "call:todos", false),
        ("call:todo", "call:todos.list", false),
        ("call:mcp__github__*", "call:mcp__github__search", true),
        ("call:mcp__github__*", "call:mcp__gitlab__search", false),
        ("call:mcp__github__*", "call:mcp__github.resources", false),
        ("call:mcp__github", "call:mcp__github.resources", true),
        ("call:mcp__github", "call:mcp__github__search", false),
        ("call:mcp__*", "call:mcp__github.prompts", true),
        ("call:mcp__github.prompts", "call:mcp__github.prompts.summarise", true),
        ("call:mcp__github.prompts", "call:mcp__github.resources", false),
        ("call:mcp__github.prompts.summarise", "call:mcp__github.prompts", false),
        ("call:*_list", "call:task_list", true),
        ("call:*_list", "call:task_list_all", false),
        ("read:*", "call:todo", false),
        ("admin", "read:audit", true),
        ("*:*", "call:todo", true),
        ("*:*", "admin", false),
    ];
    for (granted, wanted, expected) in table {
        assert_eq!(set(&[granted]).allows(wanted), *expected, "{granted} for {wanted}");
    }
}

#[test]
fn minting_is_limited_to_covered_scopes() {
    let table: &[(&str, &str, bool)] = &[
        ("call:*", "call:todo", true),
        ("call:*", "call:t*o", true),
        ("call:t*", "call:*", false),
        ("call:t*", "call:to*", true),
        ("call:t*", "call:*t", false),
        ("call:todo", "call:todo.*", true),
        ("call:todo.*", "call:todo", false),
        ("call:a*b", "call:a*", false),
        ("admin", "admin", true),
        ("call:*", "admin", false),
        ("*:*", "call:*", true),
        ("call:*", "*:*", false),
    ];
    for (own, asked, expected) in table {
        assert_eq!(set(&[own]).first_beyond(&set(&[asked])).is_none(), *expected, "{own} mints {asked}");
    }
}

/// If a set may mint a pattern, it grants everything that the pattern grants.
#[test]
fn minting_never_widens() {
    let alphabet = ["a", "b", "*", ".", "ab", "a.b"];
    let mut patterns = vec![String::new()];
    for _ in 0..3 {
        patterns = patterns.iter().flat_map(|p| alphabet.iter().map(move |a| format!("{p}{a}"))).collect();
    }
    let names = ["a", "b", "ab", "aab", "a.b", "ba.b", "abab", "b.a.b", "aaa", "a..b"];
    for own in patterns.iter().step_by(5) {
        for asked in patterns.iter().step_by(3) {
            let (own, asked) = (set(&[&format!("call:{own}")]), set(&[&format!("call:{asked}")]));
            if own.first_beyond(&asked).is_none() {
                for name in names {
                    let name = format!("call:{name}");
                    assert!(
                        !asked.allows(&name) || own.allows(&name),
                        "{own:?} minted {asked:?}, gaining {name}"
                    );
                }
            }
        }
    }
}

#[test]
fn malformed_scopes_are_rejected() {
    for text in ["", "call", "call:", ":todo", "Call:todo", "call:to do", "call:tödo", "admin:", "call:\n"] {
        assert!(text.parse::<Scope>().is_err(), "{text:?}");
    }
}

#[test]
fn scopes_that_grant_nothing_are_rejected() {
    for known in [
        "call:anything",
        "call:*",
        "read:*",
        "read:a*",
        "token:create",
        "*:*",
        "admin",
        "node:nas",
        "write:sessions",
    ] {
        assert_eq!(set(&[known]).check_known(), Ok(()), "{known}");
    }
    for (unknown, words) in [
        ("cal:todo", "call"),
        ("read:session", "read:sessions"),
        ("token:mint", "token:create"),
        ("write:session", "write:sessions"),
        ("call:mcp:*:search", "mcp__<server>__<tool>"),
        ("call:github/search", "mcp__<server>__<tool>"),
        ("call:mcp__plexus__*", "omit it"),
    ] {
        let error = set(&[unknown]).check_known().unwrap_err();
        assert!(error.contains(unknown) && error.contains(words), "{error}");
    }
}

#[test]
fn scope_spelling_variants_grant_the_same_tool() {
    let tools = [
        "todo",
        "todo.list",
        "mcp__my__server_x",
        "mcp__my_server__x",
        "mcp__my_server__x_y",
        "mcp__my_server__x-y",
        "mcp__my_server__xx",
        "mcp__my_server_x__x",
        "mcp__mcp__my_server_x",
        "mcp__other__x",
    ];
    let table: &[(&str, &[&str])] = &[
        ("call:mcp__my_server__x", &["mcp__my_server__x"]),
        ("call:mcp__my-server__x", &["mcp__my_server__x"]),
        ("call:mcp:my-server:x", &["mcp__my_server__x"]),
        ("call:mcp:my.server:x", &["mcp__my_server__x"]),
        ("call:mcp__my.server__x", &["mcp__my_server__x"]),
        ("call:mcp__my_server__x.y", &["mcp__my_server__x_y"]),
        ("call:mcp:my_server:x-y", &["mcp__my_server__x-y"]),
        ("call:mcp__plexus__mcp__my-server__x", &["mcp__my_server__x"]),
        ("call:mcp__plexus__todo.list", &["todo.list"]),
        ("call:mcp__plexus__todo", &["todo", "todo.list"]),
        (
            "call:mcp:my-server:x*",
            &["mcp__my_server__x", "mcp__my_server__x_y", "mcp__my_server__x-y", "mcp__my_server__xx"],
        ),
        // The parts between stars are sanitized like names.
        ("call:mcp__my_server__x.*", &["mcp__my_server__x_y"]),
        ("call:mcp:my-server:*.y", &["mcp__my_server__x_y"]),
        // Bare names and single underscores depend on the other tools, so they grant nothing.
        ("call:x", &[]),
        ("call:mcp_my_server_x", &[]),
        ("call:my_server.x", &[]),
        // Does not match the server `my`, although `my_*` would.
        ("call:mcp__my-*", &[]),
        ("call:mcp:my*:x", &[]),
        ("call:mcp__plexus__*", &[]),
        ("call:mcp__MY_server__x", &[]),
    ];
    for (scope, granted) in table {
        let set = set(&[scope]);
        let allowed: Vec<_> =
            tools.iter().filter(|tool| set.allows(&format!("call:{tool}"))).copied().collect();
        assert_eq!(allowed, *granted, "{scope}");
    }
    assert_eq!(set(&["call:mcp:my-server:x"]).0[0].to_string(), "call:mcp__my_server__x");
    // Both sides are canonical when a token mints another.
    let own = set(&["call:mcp__my-server__*"]);
    assert!(own.first_beyond(&set(&["call:mcp:my.server:x"])).is_none());
    assert!(own.first_beyond(&set(&["call:mcp:my:server__x"])).is_some());
}

#[test]
fn server_features_are_accepted_and_misspelt_ones_rejected() {
    let check = |scope: &str| set(&[scope]).check_known();
    for known in [
        "mcp__git.resources",
        "mcp__git.prompts",
        "mcp__git.prompts.sum_up",
        "mcp__git",
        "mcp__*.prompts",
        "mcp__git.*",
    ] {
        assert_eq!(check(&format!("call:{known}")), Ok(()), "{known}");
    }
    for wrong in ["mcp__git.resource", "mcp__git.resources.x", "mcp__my-git.resources", "mcp__git.tools"] {
        assert!(check(&format!("call:{wrong}")).unwrap_err().contains("grants nothing"), "{wrong}");
    }
}
