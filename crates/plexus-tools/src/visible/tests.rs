use super::{ALIKE, COMPARED, Letters, nearest};

const WORDS: [&str; 12] = [
    "a",
    "ab",
    "ba",
    "todo",
    "todos",
    "Todo",
    "tool_call",
    "tool_search",
    "mcp__git__x",
    "zzzz",
    "straße",
    "ﬁnd",
];

#[test]
fn words_are_never_more_alike_than_their_letters() {
    for one in WORDS {
        for other in WORDS {
            let most = Letters::of(one).likeness(&Letters::of(other));
            let real = strsim::normalized_damerau_levenshtein(&one.to_lowercase(), &other.to_lowercase());
            assert!(most + 1e-9 >= real, "{one} and {other}: {real}, at most {most}");
        }
    }
}

#[test]
fn the_nearest_is_found_among_many_that_are_near() {
    let many: Vec<String> = (0..1_000).map(|n| format!("tool_number_{n:03}")).collect();
    let near = |word: &str| nearest(word, many.iter().map(String::as_str));
    assert!(many.len() > COMPARED && ALIKE < 1.0);
    assert_eq!(near("tool_number_7777"), Some("tool_number_777"));
    assert_eq!(near("tol_number_444"), Some("tool_number_444"));
    assert_eq!(near("quite something else"), None);
    assert_eq!(nearest("sear", ["search_in_all_the_files_there_are"].into_iter()).map(str::len), Some(33));
}
