use super::{ServerPrompt, listed, resolve};

fn prompt<'o>(server: &'o str, prompt: &'o str, bare: bool) -> ServerPrompt<'o> {
    ServerPrompt { server, prompt, bare }
}

#[test]
fn prompts_are_listed_by_server_and_name() {
    let prompts = [prompt("wiki", "summarise", false), prompt("git", "summarise", false)];
    let names: Vec<String> = listed(&prompts).into_keys().collect();
    assert_eq!(names, ["mcp__git__summarise", "mcp__wiki__summarise"]);
    assert_eq!(resolve(&prompts, "mcp__git__summarise"), Some(prompts[1]));
    assert_eq!(resolve(&prompts, "mcp:git:summarise"), Some(prompts[1]));
    assert_eq!(resolve(&prompts, "summarise"), None, "the name is ambiguous");
}

#[test]
fn bare_name_is_used_if_unique() {
    let prompts = [prompt("a", "one", true), prompt("b", "two", true), prompt("c", "two", true)];
    let names: Vec<String> = listed(&prompts).into_keys().collect();
    assert_eq!(names, ["mcp__b__two", "mcp__c__two", "one"]);
    assert_eq!(resolve(&prompts, "one"), Some(prompts[0]));
    assert_eq!(resolve(&prompts, "mcp__a__one"), Some(prompts[0]));
    let posing = [prompt("a", "mcp__b__two", true), prompt("b", "two", false)];
    assert_eq!(resolve(&posing, "mcp__b__two"), Some(posing[1]));
}

#[test]
fn colliding_prompt_names_get_a_hash() {
    let prompts = [prompt("a", "x y", false), prompt("a", "x_y", false)];
    let names = listed(&prompts);
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(names.keys().all(|name| name.starts_with("mcp__a__x_y_")), "{names:?}");
}
