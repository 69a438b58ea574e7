use super::{LetterCounts, MAX_COMPARED, MIN_SIMILARITY, nearest};

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
fn letter_counts_bound_the_similarity() {
    for one in WORDS {
        for other in WORDS {
            let bound = LetterCounts::of(one).max_similarity(&LetterCounts::of(other));
            let actual = strsim::normalized_damerau_levenshtein(&one.to_lowercase(), &other.to_lowercase());
            assert!(bound + 1e-9 >= actual, "{one} and {other}: {actual}, at most {bound}");
        }
    }
}

#[test]
fn nearest_is_found_among_many_similar_candidates() {
    let many: Vec<String> = (0..1_000).map(|n| format!("tool_number_{n:03}")).collect();
    let nearest_word = |word: &str| nearest(word, many.iter().map(String::as_str));
    assert!(many.len() > MAX_COMPARED && MIN_SIMILARITY < 1.0);
    assert_eq!(nearest_word("tool_number_7777"), Some("tool_number_777"));
    assert_eq!(nearest_word("tol_number_444"), Some("tool_number_444"));
    assert_eq!(nearest_word("quite something else"), None);
    assert_eq!(nearest("sear", ["search_in_all_the_files_there_are"].into_iter()).map(str::len), Some(33));
}
