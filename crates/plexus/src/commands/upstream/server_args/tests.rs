use super::missing_separator;
use crate::failure::Failure;

#[test]
fn missing_separator_is_added_in_the_hint() {
    let hint = |line: &str| {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        missing_separator(&words)?.downcast::<Failure>().ok()?.hint
    };
    assert_eq!(
        hint("plexus upstream add u8 npx -y pkg").as_deref(),
        Some("plexus upstream add u8 -- npx -y pkg")
    );
    assert_eq!(
        hint("plexus --json upstream add u8 --lazy --env A=b npx -y a*b").as_deref(),
        Some("plexus upstream add u8 --lazy --env A=b -- npx -y 'a*b'")
    );
    for other in [
        "plexus upstream add u8 https://mcp.example.net --heder A:b",
        "plexus upstream add u8 -- npx -y",
        "plexus upstream list x",
        "plexus upstream add",
    ] {
        assert_eq!(hint(other), None, "{other}");
    }
}
