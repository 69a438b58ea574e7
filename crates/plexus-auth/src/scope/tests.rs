use super::{Scope, ScopeSet};

fn set(scopes: &[&str]) -> ScopeSet {
    ScopeSet::parse(scopes).unwrap()
}

#[test]
fn what_a_scope_grants() {
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
fn what_a_token_may_mint() {
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

/// If a set lets a pattern be minted, it grants everything the pattern grants.
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
fn nonsense_is_not_a_scope() {
    for text in ["", "call", "call:", ":todo", "Call:todo", "call:to do", "call:tödo", "admin:", "call:\n"] {
        assert!(text.parse::<Scope>().is_err(), "{text:?}");
    }
}

#[test]
fn a_scope_that_nothing_asks_for_is_told_apart() {
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
    ] {
        let error = set(&[unknown]).check_known().unwrap_err();
        assert!(error.contains(unknown) && error.contains(words), "{error}");
    }
}
