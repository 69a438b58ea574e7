//! Recognizes refused system calls in the output of programs.
//!
//! A sandbox refuses system calls, and a program that reports one names what it could not use, or the number of the
//! error. Refusals by servers, logins and programs that change the user have the same words, but are no system calls
//! that the sandbox refused.

/// The texts of the C library and of Go, in lower case.
const TEXTS: [&str; 3] = ["permission denied", "operation not permitted", "read-only file system"];
/// The codes that Node.js and Ruby print.
const CODES: [&str; 3] = ["EACCES", "EPERM", "EROFS"];
/// The numbers of these errors, as Rust, Python and rsync print them.
const NUMBERS: [u8; 3] = [1, 13, 30];
/// Programs that are refused by other hosts or by the rules for changing the user, and the prefix of a git server.
const OTHERS: [&str; 7] = ["ssh", "scp", "sftp", "sudo", "su", "doas", "remote"];
/// Words that begin an error message without naming its program.
const NO_PROGRAMS: [&str; 4] = ["error", "fatal", "warning", "usage"];

pub(super) fn reports_refusal(output: &str) -> bool {
    output.lines().any(|line| is_refusal(line.trim()))
}

fn is_refusal(line: &str) -> bool {
    let lower = line.to_ascii_lowercase();
    let first = lower.split(':').next().unwrap_or_default();
    if OTHERS.contains(&first) || comes_from_a_server(&lower) {
        return false;
    }
    if words(line).any(|word| CODES.contains(&word)) {
        return true;
    }
    TEXTS.iter().filter_map(|text| lower.split_once(text)).any(|(before, after)| {
        has_number(before, after) || (ends_clause(after) && names_subject(before, after))
    })
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_ascii_alphanumeric())
}

fn comes_from_a_server(lower: &str) -> bool {
    ["http://", "https://", "http/"].iter().any(|scheme| lower.contains(scheme))
        || words(lower).any(|word| word == "403")
}

/// Whether the number of the error is beside its text: `[errno 13] TEXT`, `(13: TEXT)`, `TEXT (13)`, `TEXT (os error 13)`.
fn has_number(before: &str, after: &str) -> bool {
    NUMBERS.iter().any(|number| {
        before.ends_with(&format!("[errno {number}] "))
            || before.ends_with(&format!("({number}: "))
            || after.starts_with(&format!(" ({number})"))
            || after.starts_with(&format!(" (os error {number})"))
    })
}

/// Whether the text is a complete clause. In `permission denied for table t`, it is not.
fn ends_clause(after: &str) -> bool {
    let rest = after.trim_start_matches(['.', ')', '\'', '"']);
    rest.is_empty() || [":", ",", " @ ", " at "].iter().any(|next| rest.starts_with(next))
}

/// Whether the line names what could not be used: a path or a quoted name anywhere, or a name after the program's.
fn names_subject(before: &str, after: &str) -> bool {
    let is_name = |word: &str| {
        let word = word.trim_start_matches(['(', '[']);
        word.starts_with(['/', '\'', '"', '`', '‘', '“']) || word.starts_with("~/") || word.starts_with("./")
    };
    if before.split_whitespace().chain(after.split_whitespace()).any(is_name) {
        return true;
    }
    let mut parts = before.split(": ").filter(|part| !part.trim().is_empty());
    let has_program = parts.next().is_some_and(is_program);
    let named_after = after.strip_prefix(": ").is_some_and(|name| name.split_whitespace().count() == 1);
    has_program && (parts.next().is_some() || named_after)
}

fn is_program(word: &str) -> bool {
    !NO_PROGRAMS.contains(&word) && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_.+/".contains(c))
}

#[cfg(test)]
mod tests;
