//! The table of names: what callers write, and what that is.

use plexus_proto::ErrorCode;
use plexus_tools::Visible;
use serde_json::json;

use super::Naming::{Bare, Full};
use super::{Naming, upstream};
use crate::hub::{Hub, bounded};

const LONG_1: &str = "a_tool_with_a_name_that_goes_on_and_on_until_it_ends_1";
const LONG_2: &str = "a_tool_with_a_name_that_goes_on_and_on_until_it_ends_2";
const LONG_SERVER: &str = "a-very-long-name-of-a-server-indeed";

/// Servers, how their tools are listed, and the tools. Those of the hub itself are there too.
const SERVERS: &[(&str, Naming, &[&str])] = &[
    ("github", Full, &["create_issue", "issues.create", "search", "list-repos", "get_me", "Zen"]),
    ("gitlab", Full, &["create_issue", "search", "zen"]),
    ("my-server", Full, &["x", "get-weather", "_private", "über"]),
    ("my", Full, &["server_x", "github_get_me"]),
    ("a", Full, &["b__c", "ns:tool"]),
    ("a b", Full, &["c"]),
    ("github issues", Full, &["create"]),
    ("Case", Full, &["Run", "run"]),
    ("mcp", Full, &["ping"]),
    ("far", Full, &[LONG_1, LONG_2]),
    (LONG_SERVER, Full, &["fetch"]),
    ("files", Bare, &["read_file", "write-file", "todo", "shared", "mcp__github__steal", "dot.ted"]),
    ("notes", Bare, &["note", "shared"]),
];

#[derive(Debug)]
enum Answer {
    /// The tool of this canonical name.
    Is(&'static str),
    /// Any of these, by the names they are listed by.
    OneOf(&'static [&'static str]),
    /// Nothing, and the hint has these words.
    Unknown(&'static str),
}
use Answer::{Is, OneOf, Unknown};

const NOTHING_NEAR: &str = "List the tools";

const TABLE: &[(&str, &[(&str, Answer)])] = &[
    (
        "exact",
        &[
            ("todo", Is("todo")),
            ("mcp__github__search", Is("mcp__github__search")),
            ("mcp__github__list-repos", Is("mcp__github__list-repos")),
            ("mcp__github__issues_create", Is("mcp__github__issues_create")),
            ("mcp__my_server___private", Is("mcp__my_server___private")),
            ("mcp__a__b__c", Is("mcp__a__b__c")),
            ("mcp__a_b__c", Is("mcp__a_b__c")),
            ("mcp__Case__run", Is("mcp__Case__run")),
            ("mcp__Case__Run", Is("mcp__Case__Run")),
        ],
    ),
    (
        "listed by its own name, and by the canonical one all the same",
        &[
            ("read_file", Is("mcp__files__read_file")),
            ("mcp__files__read_file", Is("mcp__files__read_file")),
            ("note", Is("mcp__notes__note")),
            ("dot_ted", Is("mcp__files__dot_ted")),
            ("dot.ted", Is("mcp__files__dot_ted")),
            ("write_file", Is("mcp__files__write-file")),
            // Two servers want this one, so neither has it.
            ("shared", OneOf(&["mcp__files__shared", "mcp__notes__shared"])),
            ("mcp__notes__shared", Is("mcp__notes__shared")),
            // The hub's own tool has the name.
            ("mcp__files__todo", Is("mcp__files__todo")),
        ],
    ),
    (
        "without the server",
        &[
            ("get_me", Is("mcp__github__get_me")),
            ("list-repos", Is("mcp__github__list-repos")),
            ("issues.create", Is("mcp__github__issues_create")),
            ("issues_create", Is("mcp__github__issues_create")),
            ("_private", Is("mcp__my_server___private")),
            ("b__c", Is("mcp__a__b__c")),
            ("ns:tool", Is("mcp__a__ns_tool")),
            ("x", Is("mcp__my_server__x")),
            ("create_issue", OneOf(&["mcp__github__create_issue", "mcp__gitlab__create_issue"])),
            ("search", OneOf(&["mcp__github__search", "mcp__gitlab__search"])),
            (LONG_1, Is("mcp__far__a_tool_with_a_name_that_goes_on_an_6e414a")),
            (LONG_2, Is("mcp__far__a_tool_with_a_name_that_goes_on_an_6e42f7")),
        ],
    ),
    (
        "dashes and underscores",
        &[
            ("list_repos", Is("mcp__github__list-repos")),
            ("list-tools", Is("list_tools")),
            ("session-info", Is("session_info")),
            ("get_weather", Is("mcp__my_server__get-weather")),
            ("mcp__my-server__x", Is("mcp__my_server__x")),
            ("mcp__my-server__get_weather", Is("mcp__my_server__get-weather")),
            ("mcp__my.server__x", Is("mcp__my_server__x")),
            ("mcp__my--server__x", Is("mcp__my_server__x")),
            ("mcp__a-b__c", Is("mcp__a_b__c")),
            ("mcp--github--search", Is("mcp__github__search")),
            ("mcp__github__issues.create", Is("mcp__github__issues_create")),
            ("create-issue", OneOf(&["mcp__github__create_issue", "mcp__gitlab__create_issue"])),
            ("mcp__a-very-long-name-of-a-server-indeed__fetch", Is("mcp__a_very_long_name_ba421a__fetch")),
            ("mcp__a_very_long_name_of_a_server_indeed__fetch", Is("mcp__a_very_long_name_ba421a__fetch")),
        ],
    ),
    (
        "one underscore",
        &[
            ("mcp_github_search", Is("mcp__github__search")),
            ("mcp_github_list_repos", Is("mcp__github__list-repos")),
            ("mcp-github-list-repos", Is("mcp__github__list-repos")),
            ("mcp__github_search", Is("mcp__github__search")),
            ("mcp_github__search", Is("mcp__github__search")),
            ("mcp_my-server_get-weather", Is("mcp__my_server__get-weather")),
            ("mcp_files_read_file", Is("mcp__files__read_file")),
            ("mcp_my_server_x", OneOf(&["mcp__my__server_x", "mcp__my_server__x"])),
            ("mcp_a_b_c", OneOf(&["mcp__a__b__c", "mcp__a_b__c"])),
        ],
    ),
    (
        "colons, dots and slashes",
        &[
            ("mcp:github:search", Is("mcp__github__search")),
            ("mcp:github:issues.create", Is("mcp__github__issues_create")),
            ("mcp:my-server:get_weather", Is("mcp__my_server__get-weather")),
            ("mcp:my_server:x", Is("mcp__my_server__x")),
            ("mcp:my:server_x", Is("mcp__my__server_x")),
            ("mcp:a:ns:tool", Is("mcp__a__ns_tool")),
            // `a:b` is how the server `a b` may be written; `b:c` is not how `b__c` is.
            ("mcp:a:b:c", Is("mcp__a_b__c")),
            ("mcp:a:b__c", Is("mcp__a__b__c")),
            ("mcp/github/search", Is("mcp__github__search")),
            ("mcp.github.search", Is("mcp__github__search")),
            (
                "mcp_github_issues.create",
                OneOf(&["mcp__github__issues_create", "mcp__github_issues__create"]),
            ),
            ("mcp:github.issues:create", Is("mcp__github_issues__create")),
            ("mcp:github_search", Is("mcp__github__search")),
            ("mcp_github:search", Is("mcp__github__search")),
            ("mcp:github-list-repos", Is("mcp__github__list-repos")),
            ("mcp::github::search", Is("mcp__github__search")),
        ],
    ),
    (
        "the server without mcp",
        &[
            ("github:search", Is("mcp__github__search")),
            ("github.search", Is("mcp__github__search")),
            ("github/search", Is("mcp__github__search")),
            ("github__search", Is("mcp__github__search")),
            ("github_create_issue", Is("mcp__github__create_issue")),
            ("my-server.get-weather", Is("mcp__my_server__get-weather")),
            ("my_server_x", OneOf(&["mcp__my__server_x", "mcp__my_server__x"])),
            ("my_server:x", Is("mcp__my_server__x")),
            ("my:server_x", Is("mcp__my__server_x")),
            // A tool that is called so comes before a server and its tool.
            ("github_get_me", Is("mcp__my__github_get_me")),
            ("mcp_ping", Is("mcp__mcp__ping")),
        ],
    ),
    (
        "letters of another case, when nothing is written so",
        &[
            ("ToDo", Is("todo")),
            ("GitHub_Create_Issue", Is("mcp__github__create_issue")),
            ("MCP__GITHUB__SEARCH", Is("mcp__github__search")),
            ("List_Repos", Is("mcp__github__list-repos")),
            ("mcp__case__Run", OneOf(&["mcp__Case__Run", "mcp__Case__run"])),
            ("zen", Is("mcp__gitlab__zen")),
            ("Zen", Is("mcp__github__Zen")),
            ("ZEN", OneOf(&["mcp__github__Zen", "mcp__gitlab__zen"])),
        ],
    ),
    (
        "what clients put in front",
        &[
            ("mcp__plexus__todo", Is("todo")),
            ("mcp__plexus__mcp__github__search", Is("mcp__github__search")),
            ("mcp__plexus__read_file", Is("mcp__files__read_file")),
            ("mcp_plexus_list-tools", Is("list_tools")),
            ("mcp:plexus:github:search", Is("mcp__github__search")),
            ("plexus__todo", Is("todo")),
            ("plexus.todo", Is("todo")),
            ("mcp__plexus__create_issue", OneOf(&["mcp__github__create_issue", "mcp__gitlab__create_issue"])),
            ("mcp__plexus__mcp__plexus__todo", Unknown(NOTHING_NEAR)),
            ("mcp__plexus__", Unknown(NOTHING_NEAR)),
        ],
    ),
    (
        "look-alikes",
        &[
            // Cyrillic і, о and с.
            (
                "mcp__g\u{456}thub__search",
                Unknown("mcp__github__search? The name contains the character U+0456"),
            ),
            ("t\u{43e}do", Unknown("todo? The name contains the character U+043E")),
            ("sear\u{441}h", Unknown("__search? The name contains the character U+0441")),
            // No width, a soft hyphen, a change of direction, a full-width letter.
            ("todo\u{200b}", Unknown("Did you mean todo? The name contains the character U+200B")),
            ("t\u{200d}o\u{200d}d\u{200d}o", Unknown("Did you mean todo?")),
            ("to\u{ad}do", Unknown("U+00AD")),
            ("\u{202e}odot", Unknown("U+202E")),
            ("\u{ff54}odo", Unknown("U+FF54")),
            ("mcp__my\u{2010}server__x", Unknown("U+2010")),
            (" todo", Unknown("Did you mean todo?")),
            ("todo ", Unknown("U+0020")),
            ("todo\n", Unknown("U+000A")),
            ("todo\0", Unknown("U+0000")),
            ("über", Unknown("U+00FC")),
            ("_ber", Is("mcp__my_server___ber")),
        ],
    ),
    (
        "nothing",
        &[
            ("", Unknown(NOTHING_NEAR)),
            ("_", Unknown(NOTHING_NEAR)),
            ("mcp", Unknown("mcp__")),
            ("mcp__", Unknown("mcp__")),
            ("mcp__github__", Unknown("")),
            ("mcp____search", Unknown("")),
            ("mcp__github__searching", Unknown("mcp__github__search")),
            ("create_isue", Unknown("mcp__git")),
            ("todo.", Unknown("todo")),
            ("todo_", Unknown("todo")),
            ("todo.list", Unknown(NOTHING_NEAR)),
            ("mcp__github__search__", Unknown("mcp__github__search")),
            ("mcp:github:todo", Unknown("")),
            ("mcp__bitbucket__search", Unknown("")),
            // A tool may not take the form of another server's.
            ("mcp__github__steal", Is("mcp__files__mcp__github__steal")),
        ],
    ),
];

async fn hub() -> Hub {
    let tools = SERVERS
        .iter()
        .flat_map(|(server, naming, tools)| tools.iter().map(|tool| upstream(server, *naming, tool)));
    Hub::with(tools).await
}

/// What is not as the table says.
fn differs(visible: &Visible, written: &str, answer: &Answer) -> Option<String> {
    let resolved = visible.resolve(written).map(|tool| tool.spec().name.to_string());
    let as_expected = match (answer, &resolved) {
        (Is(name), Ok(resolved_name)) => resolved_name == name,
        (OneOf(names), Err(error)) => {
            error.code == ErrorCode::UnknownTool
                && error.details["candidates"] == json!(names)
                && names.iter().all(|name| error.text().contains(name))
        }
        (Unknown(hint), Err(error)) => {
            error.code == ErrorCode::UnknownTool
                && error.details.is_null()
                && error.message.starts_with("Unknown tool: ")
                && error.hint.as_ref().is_some_and(|text| text.contains(hint))
        }
        _ => false,
    };
    let resolved_name = resolved.unwrap_or_else(|error| error.text());
    (!as_expected).then(|| format!("{written:?} is {resolved_name:?} and not {answer:?}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_is_what_the_table_says() {
    bounded(async {
        let hub = hub().await;
        let visible = hub.dispatcher.registry().visible_to(&hub.admin());
        let cases = TABLE.iter().flat_map(|(_, cases)| cases.iter());
        let wrong: Vec<_> =
            cases.filter_map(|(written, answer)| differs(&visible, written, answer)).collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
    })
    .await;
}

/// The same catalogue, seen by a token that has less of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invisible_tools_neither_conflict_nor_resolve() {
    bounded(async {
        let hub = hub().await;
        let agent =
            hub.agent("ann", &["call:mcp__gitlab__*", "call:mcp:my-server:x", "call:mcp__notes__*"]).await;
        let visible = hub.dispatcher.registry().visible_to(&agent);
        let names: Vec<&str> = visible.tools().map(|tool| tool.name()).collect();
        assert_eq!(
            names,
            [
                "mcp__gitlab__create_issue",
                "mcp__gitlab__search",
                "mcp__gitlab__zen",
                "mcp__my_server__x",
                "note",
                // Nobody else whom this caller sees wants the name.
                "shared",
            ]
        );
        let cases = [
            ("search", Is("mcp__gitlab__search")),
            ("create-issue", Is("mcp__gitlab__create_issue")),
            ("ZEN", Is("mcp__gitlab__zen")),
            ("shared", Is("mcp__notes__shared")),
            ("mcp_my_server_x", Is("mcp__my_server__x")),
            ("mcp__github__search", Unknown("mcp__gitlab__search")),
            ("mcp__files__shared", Unknown("mcp__gitlab")),
            ("todo", Unknown(NOTHING_NEAR)),
            ("read_file", Unknown(NOTHING_NEAR)),
        ];
        let wrong: Vec<_> =
            cases.iter().filter_map(|(written, answer)| differs(&visible, written, answer)).collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_names_some_of_many_candidates_and_counts_the_others() {
    bounded(async {
        let tools = (10..50).map(|n| upstream(&format!("server {n}"), Full, "search"));
        let hub = Hub::with(tools).await;
        let error = hub.err(&hub.admin(), "search", json!({})).await;
        assert_eq!(error.details["candidates"].as_array().unwrap().len(), 10);
        assert!(error.text().contains("matches 40 tools"), "{}", error.text());
        assert!(error.text().contains("mcp__server_19__search or one of 30 more"), "{}", error.text());
        let endless = "search".repeat(100_000);
        let error = hub.err(&hub.admin(), &endless, json!({})).await;
        assert!(error.text().len() < 400, "{}", error.text());
    })
    .await;
}
