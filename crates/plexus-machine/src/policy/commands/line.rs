//! Splits a shell line into commands.

/// Shell syntax whose meaning cannot be determined without a shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UnsupportedSyntax(pub(crate) &'static str);

/// The commands of a line that consists of words, quotes and command separators. All other syntax (variables,
/// substitution, redirection, glob patterns, reserved words) is refused, because the shell would then run something
/// other than the text as written.
pub(super) fn parse_commands(text: &str) -> Result<Vec<Vec<String>>, UnsupportedSyntax> {
    let mut commands = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut quoted = false;
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            ' ' | '\t' => finish(&mut commands, &mut word, &mut quoted)?,
            '\n' | ';' => {
                finish(&mut commands, &mut word, &mut quoted)?;
                commands.push(Vec::new());
            }
            '&' | '|' => {
                finish(&mut commands, &mut word, &mut quoted)?;
                let twice = chars.next_if_eq(&char).is_some();
                if char == '&' && !twice {
                    return Err(UnsupportedSyntax("a command in the background"));
                }
                if chars.peek() == Some(&'&') {
                    return Err(UnsupportedSyntax("a redirection"));
                }
                commands.push(Vec::new());
            }
            '\'' => {
                quoted = true;
                let word = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        Some('\'') => break,
                        Some(char) => word.push(char),
                        None => return Err(UnsupportedSyntax("a quote without an end")),
                    }
                }
            }
            '"' => {
                quoted = true;
                let word = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        Some('"') => break,
                        Some('$' | '`' | '\\' | '!') => {
                            return Err(UnsupportedSyntax("an expansion in double quotes"));
                        }
                        Some(char) => word.push(char),
                        None => return Err(UnsupportedSyntax("a quote without an end")),
                    }
                }
            }
            char if char.is_alphanumeric() || "_-./:=,+@%^".contains(char) => {
                word.get_or_insert_default().push(char);
            }
            '$' | '`' => return Err(UnsupportedSyntax("a variable or substitution")),
            '<' | '>' => return Err(UnsupportedSyntax("a redirection")),
            '*' | '?' | '[' | ']' | '{' | '}' | '~' => {
                return Err(UnsupportedSyntax("a pattern that the shell expands"));
            }
            _ => return Err(UnsupportedSyntax("a special character of the shell")),
        }
    }
    finish(&mut commands, &mut word, &mut quoted)?;
    commands.retain(|command| !command.is_empty());
    if commands.is_empty() { Err(UnsupportedSyntax("an empty line")) } else { Ok(commands) }
}

/// Reserved words and builtins that do not name a program, or that run their arguments or a file in the shell's own
/// process.
const SHELL_WORDS: &[&str] = &[
    "if", "then", "else", "elif", "fi", "case", "esac", "for", "select", "while", "until", "do", "done",
    "in", "function", "time", "coproc", "eval", "exec", "source", ".", "command", "builtin", "alias", "trap",
];

fn finish(
    commands: &mut [Vec<String>],
    word: &mut Option<String>,
    quoted: &mut bool,
) -> Result<(), UnsupportedSyntax> {
    let was_quoted = std::mem::take(quoted);
    let (Some(word), Some(command)) = (word.take(), commands.last_mut()) else { return Ok(()) };
    if command.is_empty() && !was_quoted {
        if word.contains('=') {
            return Err(UnsupportedSyntax("a variable assignment before a command"));
        }
        if SHELL_WORDS.contains(&word.as_str()) {
            return Err(UnsupportedSyntax("a reserved word or builtin of the shell"));
        }
    }
    if command.is_empty() && was_quoted && SHELL_WORDS.contains(&word.as_str()) {
        return Err(UnsupportedSyntax("a reserved word or builtin of the shell"));
    }
    command.push(word);
    Ok(())
}

/// All word sequences that may be a command, for the denylist: quotes are removed, and every word that may start a
/// command does.
pub(super) fn possible_commands(text: &str) -> Vec<Vec<String>> {
    let unquoted: String = text.chars().filter(|char| !matches!(char, '\'' | '"' | '\\')).collect();
    let parts = unquoted.split(['\n', ';', '&', '|', '(', ')', '{', '}', '`', '$']);
    let mut commands = Vec::new();
    for part in parts {
        let words: Vec<String> = part.split_whitespace().map(str::to_owned).collect();
        // A program may run its arguments as a command, so each word may start one.
        let count = if words.len() <= MAX_WORDS { words.len() } else { MAX_WORDS };
        commands.extend((0..count).map(|from| words[from..].to_vec()));
    }
    commands
}

/// The maximum number of words of one command that are tried as a start. Longer commands are rare, and the cost is
/// quadratic.
const MAX_WORDS: usize = 64;
