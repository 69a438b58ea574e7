use super::*;

#[test]
fn node_tools_are_visible_while_a_suitable_node_is_online() {
    let with =
        |nodes: &[&str]| VisibilityContext { online: Some(nodes.iter().map(|n| (*n).to_owned()).collect()) };
    for (placement, context, shown) in [
        (None, with(&[]), true),
        (Some("node"), VisibilityContext::default(), true),
        (Some("node"), with(&[]), false),
        (Some("node"), with(&["nas"]), true),
        (Some("node:nas"), with(&["laptop"]), false),
        (Some("node:nas"), with(&["laptop", "nas"]), true),
        (Some("node:nas"), VisibilityContext::default(), true),
        (Some("other"), with(&[]), true),
    ] {
        assert_eq!(is_shown(placement, &context), shown, "{placement:?} {context:?}");
    }
}
