//! For any catalogue, any scopes, any profile and any spelling: nothing that is not granted is reached, or noticed.

use std::cell::Cell;
use std::sync::Arc;

use plexus_auth::Principal;
use plexus_auth::profiles::{LiveProfiles, Profiles};
use plexus_proto::tool_name;
use plexus_tools::{CallError, Registry, Tool};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, TestError, TestRunner};
use serde_json::json;

use super::{Naming, upstream};
use crate::hub::Hub;

/// Few words, so that names clash, contain each other and look like other servers'.
const WORDS: &[&str] =
    &["a", "b", "my", "server", "git", "hub", "x", "Run", "run", "mcp", "plexus", "todo", "tool"];
const JOINTS: &[&str] = &["_", "-", "__", ".", ":", "/", "", "*"];

const PROFILE: &str = "drawn";

#[derive(Debug, Clone)]
struct Case {
    /// Server, whether its tools are listed bare, tool.
    tools: Vec<(String, bool, String)>,
    scopes: Vec<String>,
    /// What is in `enabled_tools` of the profile of the caller, if it has one.
    profile: Option<Vec<String>>,
    written: Vec<String>,
}

fn words(joints: &'static [&'static str], most: usize) -> impl Strategy<Value = String> {
    let rest = prop::collection::vec((select(joints), select(WORDS)), 0..most);
    (select(WORDS), rest).prop_map(|(first, rest)| {
        rest.into_iter().fold(first.to_owned(), |text, (joint, word)| text + joint + word)
    })
}

fn server() -> impl Strategy<Value = String> {
    let names = words(&JOINTS[..4], 3);
    names.prop_filter("ours", |name| tool_name::slug(name).as_deref() != Some(tool_name::RESERVED_SLUG))
}

fn tool() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => words(&JOINTS[..6], 4),
        1 => words(&JOINTS[..6], 4).prop_map(|text| format!("_{text}")),
        1 => words(&JOINTS[..6], 4).prop_map(|text| text.repeat(20)),
        1 => Just("mcp__my__x".to_owned()),
    ]
}

/// A name of one of the tools, changed in a few places, or words without a meaning.
fn written(tools: Vec<(String, bool, String)>) -> impl Strategy<Value = String> {
    let joint = || select(&["_", "-", "__", ".", ":", "/"][..]);
    let forms = (any::<Index>(), joint(), joint(), 0..6_u8, any::<bool>());
    let from_tool = forms.prop_map(move |(which, one, two, form, upper)| {
        let (server, _, tool) = which.get(&tools);
        let slug = tool_name::slug(server).unwrap_or_default();
        let text = match form {
            0 => tool_name::canonical(&slug, tool),
            1 => tool.clone(),
            2 => format!("mcp{one}{server}{two}{tool}"),
            3 => format!("{server}{one}{tool}"),
            4 => format!("mcp__plexus__{}", tool_name::canonical(&slug, tool)),
            _ => format!("mcp{one}{slug}{two}{}", tool.replace(['_', '-'], one)),
        };
        if upper { text.to_uppercase() } else { text }
    });
    prop_oneof![
        6 => from_tool,
        2 => words(JOINTS, 4),
        1 => (words(JOINTS, 3), any::<char>()).prop_map(|(text, odd)| format!("{text}{odd}")),
    ]
}

fn scope() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => (server(), tool()).prop_map(|(server, tool)| format!("call:mcp__{server}__{tool}")),
        2 => (server(), tool()).prop_map(|(server, tool)| format!("call:mcp:{server}:{tool}")),
        2 => server().prop_map(|server| format!("call:mcp__{server}__*")),
        2 => words(JOINTS, 5).prop_map(|text| format!("call:{text}*")),
        1 => words(JOINTS, 5).prop_map(|text| format!("call:mcp__{text}")),
        1 => select(WORDS).prop_map(|word| format!("call:{word}")),
    ]
}

/// An entry of `enabled_tools`.
fn pattern(tools: Vec<(String, bool, String)>) -> impl Strategy<Value = String> {
    prop_oneof![
        4 => written(tools),
        1 => server().prop_map(|server| format!("mcp__{server}__*")),
        1 => words(JOINTS, 3),
        1 => Just("mcp__*".to_owned()),
        1 => Just("*".to_owned()),
    ]
}

fn case() -> impl Strategy<Value = Case> {
    let tools = prop::collection::vec((server(), any::<bool>(), tool()), 1..12);
    let scopes = prop::collection::vec(scope(), 1..5);
    (tools, scopes).prop_flat_map(|(tools, scopes)| {
        // A scope that names a tool of the catalogue, in one way or another, is one that matters.
        let named: Vec<_> =
            tools.iter().map(|(server, _, tool)| format!("call:mcp__{server}__{tool}")).collect();
        let scopes = (Just(scopes), prop::sample::subsequence(named, 0..=tools.len().min(4)))
            .prop_map(|(random, named)| [random, named].concat());
        let profile = prop::option::of(prop::collection::vec(pattern(tools.clone()), 0..6));
        let written = prop::collection::vec(written(tools.clone()), 1..12);
        (Just(tools), scopes, profile, written).prop_map(|(tools, scopes, profile, written)| Case {
            tools,
            scopes,
            profile,
            written,
        })
    })
}

fn catalogue(case: &Case) -> Vec<Tool> {
    let tools = case
        .tools
        .iter()
        .map(|(server, bare, tool)| upstream(server, if *bare { Naming::Bare } else { Naming::Full }, tool));
    tools.chain(plexus_tools::native::tools()).collect()
}

/// What one spelling comes to, to the last word.
fn outcome(registry: &Registry, principal: &Principal, written: &str) -> Result<String, CallError> {
    registry
        .visible_to(principal)
        .resolve(written)
        .map(|tool| format!("{} as {}", tool.spec().name, tool.name()))
}

/// A token as the case has it, one of the same scopes without a profile, and one that sees all.
struct Callers {
    narrowed: Arc<Principal>,
    free: Arc<Principal>,
    admin: Arc<Principal>,
}

/// The things that must hold. Whom a profile narrows is as one without a profile where there is nothing else.
fn holds(callers: &Callers, profiles: &Arc<Profiles>, case: &Case) -> Result<(), TestCaseError> {
    let Callers { narrowed: principal, free, admin } = callers;
    let all = Registry::new(catalogue(case));
    all.set_profiles(profiles.clone());
    let everything = all.visible_to(admin);
    let in_profile = case.profile.as_ref().map(|_| profiles.shown(PROFILE, &everything.candidates()).tools);
    let granted = catalogue(case).into_iter().filter(|tool| {
        all.visible_to(principal).tools().any(|visible_tool| visible_tool.spec().name == tool.spec().name)
    });
    let only_granted = Registry::new(granted);
    let listed = |registry: &Registry, principal: &Principal| -> Vec<String> {
        registry.visible_to(principal).tools().map(|tool| tool.name().to_owned()).collect()
    };
    prop_assert_eq!(
        listed(&all, principal),
        listed(&only_granted, free),
        "what is hidden changes names of what is not"
    );
    for written in &case.written {
        if let Ok(tool) = all.visible_to(principal).resolve(written) {
            let scope = tool.spec().scope();
            let actions =
                tool.spec().actions.iter().any(|action| principal.allows(&tool.spec().action_scope(action)));
            prop_assert!(principal.allows(&scope) || actions, "{written:?} reaches {scope}");
            let shown = in_profile.as_ref().is_none_or(|shown| shown.contains(&*tool.spec().name));
            prop_assert!(shown, "{written:?} reaches {scope}, which the profile does not show");
        }
        let (with_hidden, without) =
            (outcome(&all, principal, written), outcome(&only_granted, free, written));
        prop_assert_eq!(with_hidden, without, "{:?}: what is hidden is noticed", written);
    }
    Ok(())
}

#[test]
fn no_spelling_reaches_or_reveals_what_is_not_granted() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let hub = runtime.block_on(Hub::start());
    let folder = hub.dir.path().join("profiles");
    let live = LiveProfiles::open(folder.clone());
    hub.follow_profiles(&live);
    let mut runner = TestRunner::new(Config { cases: 600, failure_persistence: None, ..Config::default() });
    let (counted, with_profile) = (Cell::new(0_usize), Cell::new(0_usize));
    let result = runner.run(&case(), |case| {
        // Not every text with these words is a scope; what is refused grants nothing.
        let scopes: Vec<&str> = case.scopes.iter().map(String::as_str).collect();
        let mint = |profile| runtime.block_on(hub.try_agent("ann", &scopes, profile));
        if let Some(patterns) = &case.profile {
            std::fs::create_dir_all(folder.join(PROFILE)).unwrap();
            let config = json!({ "enabled_tools": patterns });
            std::fs::write(folder.join(PROFILE).join("config.json"), config.to_string()).unwrap();
            live.reload();
        }
        let (Some(narrowed), Some(free)) = (mint(case.profile.as_ref().map(|_| PROFILE)), mint(None)) else {
            return Ok(());
        };
        let registry = Registry::new(catalogue(&case));
        registry.set_profiles(live.load());
        let outcomes =
            case.written.iter().filter(|written| outcome(&registry, &narrowed, written).is_ok()).count();
        let counter = if case.profile.is_some() { &with_profile } else { &counted };
        counter.set(counter.get() + outcomes);
        let callers = Callers { narrowed, free, admin: hub.admin() };
        holds(&callers, &live.load(), &case)
    });
    let (resolved, narrowed) = (counted.get(), with_profile.get());
    match result {
        Ok(()) => {}
        Err(TestError::Fail(why, case)) => panic!("{why}\n{case:#?}"),
        Err(TestError::Abort(why)) => panic!("{why}"),
    }
    assert!(
        resolved > 100 && narrowed > 20,
        "only {resolved} and, with a profile, {narrowed} spellings stood for anything: the cases are too wild to tell much"
    );
}
