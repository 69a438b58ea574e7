use super::{MAX, MAX_SLUG, canonical, canonicalized, distinct, slug, split};

#[test]
fn names_fit_the_limit_and_split_back() {
    for (server, tool) in [
        ("github", "create_issue"),
        ("my server", "_private"),
        ("a-very-long-name-of-a-server-indeed", "and_a_tool_with_a_name_that_goes_on_and_on"),
        ("x", "ünïcode/töol"),
    ] {
        let slug = slug(server).unwrap();
        assert!(slug.len() <= MAX_SLUG && !slug.contains("__"), "{slug}");
        for name in [canonical(&slug, tool), distinct(&slug, tool)] {
            assert!(name.len() <= MAX, "{name}");
            assert_eq!(split(&name).unwrap().0, slug, "{name}");
        }
    }
}

#[test]
fn long_names_with_a_common_prefix_stay_distinct() {
    let [a, b] = ["a", "b"].map(|end| canonical("s", &format!("{}{end}", "x".repeat(60))));
    assert_ne!(a, b);
    let [a, b] = ["a", "b"].map(|end| slug(&format!("{}{end}", "server".repeat(6))));
    assert_ne!(a, b);
}

#[test]
fn slug_depends_only_on_words() {
    for (one, other) in [("my-server", "my.server"), ("my--server", " my server "), ("x", "-x-")] {
        assert_eq!(slug(one), slug(other));
        let long = |name: &str| slug(&format!("{name} with a name that is too long for a slug"));
        assert_eq!(long(one), long(other));
    }
    assert_ne!(slug("github"), slug("GitHub"));
    let cut = slug("a-very-long-name-of-a-server-indeed").unwrap();
    assert_eq!(slug(&cut).unwrap(), cut);
}

#[test]
fn canonical_names_are_stable_across_versions() {
    for (server, tool, name) in [
        ("github", "create_issue", "mcp__github__create_issue"),
        ("my server", "_private", "mcp__my_server___private"),
        ("x", "naïve/tool name", "mcp__x__na_ve_tool_name"),
        ("GitHub", "Create-Issue", "mcp__GitHub__Create-Issue"),
        ("s", "list__all", "mcp__s__list__all"),
        (
            "a-very-long-name-of-a-server-indeed",
            "and_a_tool_with_a_name_that_goes_on_and_on",
            "mcp__a_very_long_name_ba421a__and_a_tool_wit_26e6c3",
        ),
    ] {
        assert_eq!(canonical(&slug(server).unwrap(), tool), name);
    }
}

#[test]
fn rules_are_canonicalized_from_other_spellings() {
    let long = "a_tool_with_a_name_that_goes_on_and_on_and_on_and_on";
    let cut = canonical("s", long);
    let written_long = format!("mcp:s:{long}");
    for (written, expected) in [
        ("todo", "todo"),
        ("todo.list", "todo.list"),
        ("mcp__github__create_issue", "mcp__github__create_issue"),
        ("mcp:github:create_issue", "mcp__github__create_issue"),
        ("mcp:my-server:x", "mcp__my_server__x"),
        ("mcp__my-server__x-y", "mcp__my_server__x-y"),
        ("mcp__my.server__x.y", "mcp__my_server__x_y"),
        ("mcp:a:b:c", "mcp__a__b_c"),
        ("mcp__a__b__c", "mcp__a__b__c"),
        (written_long.as_str(), cut.as_str()),
        (cut.as_str(), cut.as_str()),
        ("mcp__plexus__todo", "todo"),
        ("mcp:plexus:todo.list", "todo.list"),
        ("mcp__plexus__mcp__my-server__x", "mcp__my_server__x"),
        ("mcp__plexus__mcp__plexus__x", "mcp__plexus__x"),
        // Patterns.
        ("*", "*"),
        ("mcp__*", "mcp__*"),
        ("mcp:github:*", "mcp__github__*"),
        ("mcp:my-server:get-*", "mcp__my_server__get-*"),
        ("mcp__my-server__*.x", "mcp__my_server__*_x"),
        ("mcp:github:issues.*", "mcp__github__issues_*"),
        ("mcp__my-*", "mcp__my-*"),
        ("mcp__my-*__x", "mcp__my-*__x"),
        ("mcp:*:x", "mcp:*:x"),
        ("mcp__plexus__*", "mcp__plexus__*"),
        // Not valid names.
        ("mcp__", "mcp__"),
        ("mcp____x", "mcp____x"),
        ("mcp:github:", "mcp:github:"),
        ("mcp:github", "mcp:github"),
        ("mcp:-:x", "mcp:-:x"),
        ("mcp__plexus__", "mcp__plexus__"),
        ("mcp__g\u{456}thub__x", "mcp__g\u{456}thub__x"),
        ("mcp:github:x ", "mcp:github:x "),
    ] {
        assert_eq!(canonicalized(written), expected, "{written}");
        let again = canonicalized(expected).into_owned();
        assert!(
            again == expected || written.contains("plexus__mcp__plexus"),
            "{written} is canonicalized to {again} on the second pass"
        );
    }
}
