use super::{MAX_LENGTH, Template};

fn matches(template: &str, uri: &str) -> bool {
    Template::parse(template).expect("a template").matches(uri)
}

#[test]
fn expansion_matches_its_template() {
    for (template, uri) in [
        ("test://template/{id}/data", "test://template/42/data"),
        ("file:///{+path}", "file:///a/b/c.txt"),
        ("file:///{path*}", "file:///a/b/c.txt"),
        ("db://{table}{?limit,after}", "db://users"),
        ("db://{table}{?limit,after}", "db://users?limit=3&after=4"),
        ("repo://x{/owner,name}", "repo://x/ann/tools"),
        ("doc://{name}{#part}", "doc://readme#top"),
        ("doc://{name}{.kind}", "doc://readme.md"),
        ("a://{x}-{y}", "a://1-2-3"),
        ("plain://text", "plain://text"),
    ] {
        assert!(matches(template, uri), "{template} {uri}");
    }
}

#[test]
fn other_uri_does_not_match() {
    for (template, uri) in [
        ("test://template/{id}/data", "test://template//data"),
        ("test://template/{id}/data", "test://template/1/2/data"),
        ("test://template/{id}/data", "test://template/1/data/more"),
        ("test://{id}", "test://1?x"),
        ("db://{table}{?limit}", "db://users/limit"),
        ("plain://text", "plain://text2"),
        ("a://{x}b", "a://b"),
    ] {
        assert!(!matches(template, uri), "{template} {uri}");
    }
}

#[test]
fn invalid_template_is_rejected() {
    for text in ["a://{", "a://}", "a://{}", "a://{x", "a://{x y}", "a://{+}", "a://{x,}"] {
        assert_eq!(Template::parse(text), None, "{text}");
    }
    assert_eq!(Template::parse(&"{x}".repeat(33)), None);
    assert_eq!(Template::parse(&"x".repeat(MAX_LENGTH + 1)), None);
}

#[test]
fn hostile_template_is_matched_quickly() {
    let template = Template::parse(&"{+x}a".repeat(16)).expect("a template");
    let began = std::time::Instant::now();
    assert!(!template.matches(&format!("{}b", "a".repeat(MAX_LENGTH - 1))));
    assert!(began.elapsed().as_secs() < 2, "{:?}", began.elapsed());
}

#[test]
fn literal_length_orders_templates_by_specificity() {
    let length = |text: &str| Template::parse(text).expect("a template").literal_length();
    assert!(length("file:///home/{+path}") > length("file:///{+path}"));
    assert_eq!(length("{+x}"), 0);
}
