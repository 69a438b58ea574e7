use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

use super::{
    Candidate, CandidateServer, DEFAULT, LiveProfiles, ProfileSource, Profiles, ProfilesChange,
    ToolSelection, schema,
};

/// A folder of profiles: id, `config.json`.
fn folder(profiles: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (id, config) in profiles {
        write(dir.path(), id, config);
    }
    dir
}

fn write(dir: &Path, id: &str, config: &str) {
    std::fs::create_dir_all(dir.join(id)).unwrap();
    std::fs::write(dir.join(id).join("config.json"), config).unwrap();
}

fn read(dir: &Path) -> Profiles {
    (*LiveProfiles::open(dir.to_owned()).load()).clone()
}

/// Errors of one profile as displayed, without the folder.
fn problems(config: &str) -> Vec<String> {
    let dir = folder(&[("p", config)]);
    let profiles = read(dir.path());
    let Err(problems) = &profiles.get("p").unwrap().profile else { return Vec::new() };
    let prefix = format!("{}/", dir.path().display());
    problems.iter().map(|problem| problem.to_string().replace(&prefix, "")).collect()
}

/// Available tools: name, listed name, groups.
type Tools<'t> = Vec<(&'t str, Option<&'t str>, Vec<String>)>;

fn tools() -> Tools<'static> {
    let groups = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    vec![
        ("todo", None, groups(&[])),
        ("scratchpad", None, groups(&[])),
        ("mcp_status", None, groups(&[])),
        ("spawn", None, groups(&[])),
        ("mcp__github__create_issue", None, groups(&["issues", "write"])),
        ("mcp__github__list_issues", None, groups(&["issues"])),
        ("mcp__github__search", None, groups(&[])),
        ("mcp__my_server__search", None, groups(&["read"])),
        ("mcp__my_server__a-b", None, groups(&[])),
        ("mcp__my_server__a_b", None, groups(&[])),
        ("mcp__bare__todoist", Some("todoist"), groups(&[])),
        ("mcp__x_y__z", None, groups(&[])),
        ("mcp__x__y_z", None, groups(&[])),
    ]
}

fn candidates<'t>(tools: &'t Tools<'_>) -> Vec<Candidate<'t>> {
    let candidate = |(name, listed, groups): &'t (&'t str, Option<&'t str>, Vec<String>)| Candidate {
        name,
        listed: listed.unwrap_or(name),
        server: plexus_proto::tool_name::split(name).map(|(slug, _)| CandidateServer { slug, groups }),
        starts_agents: *name == "spawn",
    };
    tools.iter().map(candidate).collect()
}

fn select_tools(config: &Value) -> (ToolSelection, ToolSelection) {
    select_among(&tools(), config)
}

fn select_among(tools: &Tools<'_>, config: &Value) -> (ToolSelection, ToolSelection) {
    let dir = folder(&[("p", &config.to_string())]);
    let profiles = read(dir.path());
    let profile = profiles.find("p").unwrap_or_else(|why| panic!("{config}: {why} {:?}", profiles.get("p")));
    (profile.shown(&candidates(tools)), profile.subagent_view(&candidates(tools)))
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

const HUB: &[&str] = &["mcp_status", "scratchpad", "spawn", "todo"];

#[test]
fn enabled_tools_selects_tools_by_name_and_glob() {
    let github = ["mcp__github__create_issue", "mcp__github__list_issues", "mcp__github__search"];
    let upstream: Vec<&str> = tools().iter().map(|tool| tool.0).filter(|name| name.contains("__")).collect();
    for (listed, shown) in [
        (json!(["todo"]), &["todo"][..]),
        (json!([]), &[]),
        (json!(["*"]), HUB),
        (json!(["t*"]), &["todo"]),
        (json!(["*o*"]), &["todo"]),
        // Matches tools of the hub only, even if a server's tool would match.
        (json!(["*search"]), &[]),
        (json!(["mcp_*"]), &["mcp_status"]),
        (json!(["mcp__*"]), &upstream),
        (json!(["mcp:*"]), &upstream),
        (json!(["mcp__github__*"]), &github),
        (json!(["mcp:github:*"]), &github),
        (json!(["mcp:my server:*search"]), &["mcp__my_server__search"]),
        (json!(["mcp__*__search"]), &["mcp__github__search", "mcp__my_server__search"]),
        // A tool does not select its group.
        (json!(["mcp__github__create_issue"]), &["mcp__github__create_issue"]),
        (json!(["mcp:github:create_issue"]), &["mcp__github__create_issue"]),
        (json!(["mcp_github_create_issue"]), &["mcp__github__create_issue"]),
        (json!(["mcp__github__create-issue"]), &["mcp__github__create_issue"]),
        (json!(["mcp-github-create-issue"]), &["mcp__github__create_issue"]),
        (json!(["mcp__my-server__search"]), &["mcp__my_server__search"]),
        // Exact names take precedence over similar ones.
        (json!(["mcp__my_server__a-b"]), &["mcp__my_server__a-b"]),
        (json!(["mcp__my_server__a_b"]), &["mcp__my_server__a_b"]),
        // Matches the listed name, but not a part of a server tool's name.
        (json!(["todoist"]), &["mcp__bare__todoist"]),
        (json!(["search"]), &[]),
        (json!(["create_issue"]), &[]),
        // Ambiguous names match nothing.
        (json!(["mcp_x_y_z"]), &[]),
        (json!(["mcp__x__y_z"]), &["mcp__x__y_z"]),
        (json!(["Todo", "nonsense", "mcp__gone__x", "mcp__gone__*"]), &[]),
    ] {
        let (selection, subagents) = select_tools(&json!({ "enabled_tools": listed }));
        assert_eq!(selection.tools, names(shown), "{listed}");
        // An empty list falls back; tools that start agents are always excluded.
        let without: Vec<&str> = shown.iter().copied().filter(|name| *name != "spawn").collect();
        assert_eq!(subagents.tools, names(&without), "{listed}");
    }
    assert_eq!(select_tools(&json!({})).0.tools, names(HUB), "all tools of the hub and no others");
}

#[test]
fn mcp_servers_selects_tools_by_group() {
    let shown =
        |servers: Value| select_tools(&json!({ "enabled_tools": ["todo"], "mcp_servers": servers })).0;
    for (servers, tools) in [
        (json!({}), &[][..]),
        (
            json!({ "github": ["*"] }),
            &["mcp__github__create_issue", "mcp__github__list_issues", "mcp__github__search"],
        ),
        (json!({ "github": ["issues"] }), &["mcp__github__create_issue", "mcp__github__list_issues"]),
        (json!({ "github": ["write", "nonsense"] }), &["mcp__github__create_issue"]),
        (json!({ "github": [] }), &[]),
        (json!({ "my server": ["read"], "gone": ["*"] }), &["mcp__my_server__search"]),
        (json!({ "GitHub": ["*"] }), &[]),
    ] {
        let selection = shown(servers.clone());
        let mut expected = names(tools);
        assert_eq!(
            selection.servers.values().flatten().cloned().collect::<BTreeSet<_>>(),
            expected,
            "{servers}"
        );
        expected.insert("todo".to_owned());
        assert_eq!(selection.tools, expected, "{servers}");
    }
    let both = select_tools(&json!({ "mcp_servers": { "bare": ["*"] } })).0.tools;
    assert_eq!(both, names(&["mcp__bare__todoist", "mcp_status", "scratchpad", "spawn", "todo"]));
}

#[test]
fn sub_agent_sees_the_intersection_with_its_profile() {
    let base =
        json!({ "enabled_tools": ["todo", "spawn", "scratchpad"], "mcp_servers": { "github": ["issues"] } });
    let view = |listed: Value| {
        let mut config = base.clone();
        config["subagent_tools"] = listed;
        select_tools(&config).1
    };
    for (listed, shown) in [
        // As `enabled_tools`: tools of `mcp_servers` are for the agent itself.
        (json!([]), &["todo", "scratchpad"][..]),
        (json!(["todo"]), &["todo"]),
        (json!(["*"]), &["todo", "scratchpad"]),
        (json!(["mcp__github__list_issues"]), &["mcp__github__list_issues"]),
        (json!(["mcp__*"]), &["mcp__github__create_issue", "mcp__github__list_issues"]),
        (json!(["nonsense"]), &[]),
        (json!(["spawn"]), &[]),
        // Exists, but is not shown by this profile.
        (json!(["mcp__my_server__search"]), &[]),
    ] {
        assert_eq!(view(listed.clone()).tools, names(shown), "{listed}");
    }
    let told = view(json!(["nonsense", "mcp__my_server__search"])).warnings;
    assert_eq!(
        told,
        [
            "subagent_tools: there is no tool nonsense at present",
            "subagent_tools: the profile itself does not show mcp__my_server__search",
        ]
    );
}

#[test]
fn thin_profile_lists_discovery_and_pinned_tools() {
    let mut existing = tools();
    existing.extend(["tool_call", "tool_search"].map(|name| (name, None, Vec::new())));
    let thin = |mut config: Value| {
        config["thin"] = json!(true);
        select_among(&existing, &config).0
    };
    let selection = thin(json!({ "enabled_tools": ["todo", "mcp__github__*"] }));
    assert_eq!(selection.listed, Some(names(&["tool_call", "tool_search"])));
    // The profile includes them implicitly.
    let all = ["mcp__github__create_issue", "mcp__github__list_issues", "mcp__github__search"];
    assert_eq!(selection.tools, names(&[all.as_slice(), &["todo", "tool_call", "tool_search"]].concat()));
    let pinned = ["todo", "mcp__github__*_issue*", "scratchpad", "nothing"];
    let selection = thin(json!({ "enabled_tools": ["todo", "mcp__github__*"], "pinned": pinned }));
    let listed =
        ["todo", "tool_call", "tool_search", "mcp__github__create_issue", "mcp__github__list_issues"];
    assert_eq!(selection.listed, Some(names(&listed)));
    assert_eq!(
        selection.warnings,
        ["pinned: there is no tool nothing at present", "pinned: the profile does not show scratchpad"]
    );
    let selection = select_tools(&json!({ "pinned": ["todo"] })).0;
    assert_eq!(selection.listed, None, "all are listed");
    assert_eq!(selection.warnings, ["pinned: has no effect without \"thin\": true"]);
    let wrong = problems(r#"{"thin": "yes", "pinned": ["todo", " "]}"#).join("\n");
    assert!(wrong.contains("`thin`: expected boolean") && wrong.contains("`pinned[1]`"), "{wrong}");
}

#[test]
fn unmatched_names_are_reported_with_suggestions() {
    let config = json!({
        "enabled_tools": ["todos", "search", "mcp_x_y_z", "zz*", "mcp__*", "*"],
        "mcp_servers": { "gone": ["*"], "github": ["isues"] },
    });
    assert_eq!(
        select_tools(&config).0.warnings,
        [
            "enabled_tools: there is no tool todos at present; did you mean todo?",
            "enabled_tools: there is no tool search at present; did you mean mcp__github__search or mcp__my_server__search?",
            "enabled_tools: mcp_x_y_z is ambiguous (mcp__x_y__z or mcp__x__y_z): choose one",
            "enabled_tools: nothing matches zz* at present",
            "mcp_servers: no tool of github is in a group isues at present; did you mean issues?",
            "mcp_servers: there are no tools of gone at present",
        ]
    );
}

#[test]
fn all_errors_of_a_file_are_reported_at_once() {
    let config = json!({
        "id": "q",
        "enabled_tool": [],
        "temperature": 3,
        "model": 5,
        "max_iterations": "many",
        "enabled_tools": ["todo", " x", 7],
        "mcp_servers": { "a b": ["*"], "a-b": [], "*": ["*"], "--": [] },
        "full_description": { "when_to_us": "" },
        "approve": null,
        "budgets": {},
        "planning_enabled": false,
        "planning_mandatory": true,
    });
    let mut found = problems(&config.to_string());
    found.sort();
    assert_eq!(
        found,
        [
            "p/config.json: `approve`: is not supported yet; remove it",
            "p/config.json: `budgets`: is not supported yet; remove it",
            "p/config.json: `enabled_tools[1]`: is not a valid tool name: it is empty, or has control characters or surrounding blanks",
            "p/config.json: `enabled_tools[2]`: expected string, got 7",
            "p/config.json: `full_description`: unknown key `when_to_us`; did you mean `when_to_use`?",
            "p/config.json: `id`: is \"q\", but the folder is \"p\": they must be the same",
            "p/config.json: `max_iterations`: expected integer, got \"many\"",
            "p/config.json: `mcp_servers.*`: must name a single server; for the tools of all servers, add \"mcp__*\" to enabled_tools",
            "p/config.json: `mcp_servers.--`: \"--\" is not a valid server name: it contains no letters or digits",
            "p/config.json: `mcp_servers.a-b`: is the same server as \"a b\" (a_b); merge the entries",
            "p/config.json: `model`: expected text, or a list of texts, got 5",
            "p/config.json: `planning_mandatory`: cannot be true where planning_enabled is false",
            "p/config.json: `temperature`: 3 is greater than the maximum of 2.0",
            "p/config.json: unknown key `enabled_tool`; did you mean `enabled_tools`?",
        ]
    );
}

#[test]
fn invalid_files_are_rejected() {
    for (config, words) in [
        ("", "is not JSON"),
        ("{", "is not JSON: EOF while parsing an object at line 1"),
        ("[]", "is not an object"),
        (r#"{"enabled_tools": null}"#, "`enabled_tools`: expected array, got null"),
        (r#"{"enabled_tools": "*"}"#, "`enabled_tools`: expected array"),
        (r#"{"enabled_tools": [], "enabled_tools": ["*"]}"#, "duplicate field `enabled_tools`"),
        (r#"{"mcp_servers": ["github"]}"#, "`mcp_servers`: expected object"),
        (r#"{"mcp_servers": {"github": "*"}}"#, "`mcp_servers.github`: expected array"),
        (r#"{"model": []}"#, "`model`: expected text, or a list of texts"),
        (r#"{"max_iterations": 0}"#, "`max_iterations`: 0 is less than the minimum of 1"),
        (r#"{"zebra": 1}"#, "unknown key `zebra`; known keys: "),
    ] {
        let found = problems(config);
        assert!(found.len() == 1 && found[0].contains(words), "{config}: {found:?}");
    }
    let long = json!({ "description": "x".repeat(70_000) }).to_string();
    assert!(problems(&long)[0].ends_with("has more than 65536 bytes"));
}

#[test]
fn model_may_be_one_or_several() {
    for (model, models) in [(json!("a"), vec!["a"]), (json!(["a", "b"]), vec!["a", "b"])] {
        let dir = folder(&[("p", &json!({ "model": model, "$schema": "x" }).to_string())]);
        assert_eq!(read(dir.path()).find("p").unwrap().models, models);
    }
}

#[test]
fn invalid_profile_affects_only_itself_and_shows_nothing() {
    let dir =
        folder(&[("good", "{}"), ("bad", "{"), ("discuss", r#"{"enabled_tool": []}"#), ("no-config", "{}")]);
    std::fs::remove_file(dir.path().join("no-config/config.json")).unwrap();
    std::fs::create_dir(dir.path().join("b@d")).unwrap();
    std::fs::create_dir(dir.path().join(".git")).unwrap();
    std::fs::write(dir.path().join("README.md"), "notes").unwrap();
    write(dir.path(), "prompt", "{}");
    std::fs::write(dir.path().join("prompt/system_prompt.txt"), [0xff, 0xfe]).unwrap();
    let profiles = read(dir.path());
    let tools = tools();
    let shows = |id: &str| profiles.shown(id, &candidates(&tools)).tools.len();
    for (id, count) in [
        ("good", HUB.len()),
        ("bad", 0),
        // Does not fall back to the built-in profile of the same id.
        ("discuss", 0),
        ("no-config", 0),
        ("b@d", 0),
        ("prompt", 0),
        ("never-there", 0),
    ] {
        assert_eq!(shows(id), count, "{id}");
    }
    assert!(shows("secretary") > 0);
    assert!(profiles.get(".git").is_none() && profiles.get("README.md").is_none());
    let why = profiles.find("never-there").unwrap_err();
    assert_eq!(
        why,
        "there is no profile never-there; available profiles: developer, good, modeler_3d, secretary, server_admin, tool_developer"
    );
    assert!(profiles.find("bad").unwrap_err().contains("plexus profile show bad"));
}

#[test]
fn unreadable_folder_leaves_no_profile() {
    let dir = tempfile::tempdir().unwrap();
    let not_a_folder = dir.path().join("profiles");
    std::fs::write(&not_a_folder, "").unwrap();
    assert_eq!(read(&not_a_folder).usable().count(), 0);
    // A missing folder contains no profiles.
    assert_eq!(read(&dir.path().join("gone")), Profiles::shipped());
}

#[test]
fn profiles_are_reloaded_when_their_files_change() {
    let dir = folder(&[("a", "{}")]);
    let live = LiveProfiles::open(dir.path().to_owned());
    assert_eq!(live.reload(), ProfilesChange::default());
    write(dir.path(), "b", "{}");
    write(dir.path(), "a", r#"{"enabled_tools":[]}"#);
    let change = live.reload();
    assert_eq!((change.added, change.changed, change.removed), (vec!["b".into()], vec!["a".into()], vec![]));
    std::fs::write(dir.path().join("b/system_prompt.txt"), "Be kind.\n").unwrap();
    assert_eq!(live.reload().changed, ["b"]);
    assert_eq!(live.load().find("b").unwrap().system_prompt.as_deref(), Some("Be kind.\n"));
    std::fs::remove_dir_all(dir.path().join("a")).unwrap();
    write(dir.path(), "discuss", "{}");
    let change = live.reload();
    assert_eq!((change.removed, change.changed), (vec!["a".into()], vec!["discuss".into()]));
    // The built-in profile is restored.
    std::fs::remove_dir_all(dir.path().join("discuss")).unwrap();
    assert_eq!(live.reload().changed, ["discuss"]);
    assert_eq!(live.load().get("discuss").unwrap().source, ProfileSource::Shipped);
}

#[test]
fn shipped_profiles_are_valid() {
    let profiles = Profiles::shipped();
    let ids: Vec<&str> = profiles.iter().map(|(id, _)| id).collect();
    assert_eq!(ids, ["developer", "discuss", "modeler_3d", "secretary", "server_admin", "tool_developer"]);
    assert_eq!(DEFAULT, "secretary");
    for (id, entry) in profiles.iter() {
        let profile = entry.profile.as_ref().unwrap_or_else(|problems| panic!("{id}: {problems:?}"));
        let texts = [&profile.description, &profile.full_description.when_to_use];
        assert!(texts.iter().all(|text| !text.is_empty()), "{id}");
        for prompt in [&profile.system_prompt, &profile.subagent_system_prompt] {
            let length = prompt.as_ref().map_or(0, String::len);
            assert!((200..2_000).contains(&length), "{id}: a prompt of {length} bytes");
        }
    }
}

#[test]
fn profile_schema_in_docs_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema/profile.schema.json");
    let current = format!("{:#}\n", schema());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &current).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == current,
        "docs/schema/profile.schema.json is not what the code says; look at the change after\n  make generated"
    );
    for (key, described) in schema()["properties"].as_object().unwrap() {
        assert!(described["description"].is_string(), "{key} has no description");
    }
}
