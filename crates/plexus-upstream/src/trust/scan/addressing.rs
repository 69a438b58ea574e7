//! Detects text that instructs a model instead of describing a tool.
//!
//! Descriptions normally give advice on their own tool ("call this first", "you must pass an id"), which is
//! their purpose. The patterns look for instructions that no tool needs: to ignore other instructions, to
//! hide something from the user, to take precedence over all other tools, to collect secrets and pass them
//! on, and prompt markup. Each pattern is as narrow as possible without missing known phrasings.

use std::sync::LazyLock;

use regex::bytes::{Regex, RegexBuilder};

use super::confusables::{folded, unaccented};

/// Files that only their owner should read.
const PRIVATE_FILES: &str = r"(\.ssh\b|\bid_(rsa|dsa|ecdsa|ed25519)\b|/etc/(passwd|shadow|sudoers)|\.aws/|\.netrc|\.npmrc|\.pypirc|\.gnupg|\.kube/config|\.git-credentials|\.docker/config|\bmcp\.json|\.cursor/|\.claude(\.json|/)|\.codex/|claude_desktop_config|\bkeychain\b|\.bash_history|\.zsh_history|\bwallet\.dat)";
/// Such files and other private data.
const PRIVATE: &str = r"(\.ssh\b|\bid_(rsa|dsa|ecdsa|ed25519)\b|/etc/(passwd|shadow|sudoers)|\.aws/|\.netrc|\.npmrc|\.gnupg|\.kube/config|\.git-credentials|\bmcp\.json|\.cursor/|\.claude(\.json|/)|\.codex/|claude_desktop_config|\.env\b|\bprivate keys?\b|\bapi[ _-]?keys?\b|\bssh keys?\b|\bcredentials?\b|\bpasswords?\b|\bsecrets?\b|\b(access|session|auth) tokens?\b|\bcookies\b|\benvironment variables\b|\benv vars\b)";

/// Patterns for lower-case text with runs of blanks collapsed. `{private}` and `{files}` stand for the above.
const PATTERNS: &[&str] = &[
    // Ignore earlier instructions.
    r"\b(ignore|disregard|forget|override|bypass|discard)\b[^.!?]{0,40}\b(previous|prior|above|earlier|preceding|all|any|other|your|existing|system|original|these|safety)\b[^.!?]{0,30}\b(instructions?|prompts?|guidelines?|guardrails?|directives?|directions)\b",
    r"\b(ignore|disregard|forget|override|bypass)\b[^.!?]{0,20}\b(your|all) (previous |prior |safety |security )?(rules|polic(y|ies)|restrictions|constraints|training)\b",
    r"\b(forget|ignore|disregard) (everything|all|anything|whatever|what)( that)? you('ve| have)? ?(were|was|been)? ?(told|know|learned|learnt|instructed|taught)\b",
    r"\b(new|real|true|actual|updated|hidden|secret) (system )?(instructions?|prompt|directives?|orders) ?(:|are|is|for you|follow)",
    r"\byou are now (a|an|in (\w+ ){0,2}mode|acting|free|unrestricted|operating|dan|root|admin)\b",
    r"\bfrom (now|this point) on,? (you|always|never|every|all|treat|respond|act|do)\b",
    r"\b(developer|god|admin|debug|maintenance|jailbreak|unrestricted) mode (is )?(enabled|activated|on)\b",
    // Hide something from the user.
    r"\b(do not|don'?t|never|must not|mustn'?t|should not|shouldn'?t|avoid|refrain from|without) (\w+ ){0,3}?(tell|telling|inform|informing|mention|mentioning|reveal|revealing|disclose|disclosing|admit|admitting|confess)\b[^.!?]{0,50}\b(user|users|human|humans|person|operator|anyone|anybody|them|him|her|customer)\b",
    r"\b(do not|don'?t|never|must not|should not|without) (\w+ ){0,2}?(show|showing|alert|alerting|notify|notifying|warn|warning|let|letting|ask|asking|explain|explaining)\b[^.!?]{0,20}\b(the )?(user|human|operator)s?\b[^.!?]{0,20}\b(about (this|that|it|these)|of (this|that|it)|that you|know|this (step|tool|call|action|parameter|message)|what you|why)\b",
    r"\b(do not|don'?t|never|must not|should not) (mention|reveal|disclose|talk about|tell (anyone|anybody|them) about) (this|these|that|the (above|following|existence|contents? of this))\b",
    r"\bwithout (the )?(user|human|operator)('s|s)? (knowledge|knowing|consent|noticing|awareness|being (told|aware|informed))\b",
    r"\b(keep|hide|conceal) (this|these|it|that|them|the following)( \w+){0,3} (secret|hidden|confidential|private|invisible)? ?(from|to) (the )?(user|human|operator|anyone)\b",
    r"\b(secretly|covertly|stealthily|surreptitiously)\b",
    r"\b(even if|no matter what|regardless of what|whatever) the (user|human) (says|asks|wants|requests|tells|said|declines|refuses|objects|prefers)\b",
    // Take precedence over other tools.
    r"\bbefore (you )?(use|using|call|calling|invoke|invoking|run|running|execute|executing) (any|any other|all|all other|every|every other|each|the other|other|another) (\w+ )?(tools?|functions?|commands?)\b",
    r"\b(before|prior to) (any|every|all|each)( of the)? (other )?(\w+ )?(tool|function)s?( calls?| use| usage| invocations?)?\b",
    r"\b(whenever|every time|each time|any time|when) (any|another|any other|every|an?other) (\w+ )?tools? (is|are|was|gets?) (called|used|invoked|run)\b",
    r"\b(always|must|only) (use|call|invoke|run|prefer|choose|select) this (tool|function|one)? ?(first |exclusively )?(instead of|over|rather than|in place of|before) (any|all|every|each|other|the other)\b",
    r"\b(never|do not|don'?t|must not|stop) (use|using|call|calling|invoke|invoking) (any|the|all)? ?(other|another|built-?in|native|competing) (\w+ )?(tool|function|server)s?\b",
    r"\bthis tool (overrides|supersedes|replaces|takes (precedence|priority) over) (all|any|every|other|the other)\b",
    // Collect secrets and pass them on.
    r"\b(read|open|cat|load|fetch|access|get|copy|retrieve|extract|collect|gather|grab|look up|dump|list|find|obtain|take)\b[^!?]{0,60}{files}[^!?]{0,160}\b(pass|send|include|put|provide|append|attach|forward|upload|transmit|post|encode|insert|supply|place|add|submit|leak|exfiltrate|report|share|set)\b",
    // Secrets that many tools handle, such as keys and cookies, only match together with an owner or a
    // quantifier, and a destination.
    r"\b(read|open|cat|load|fetch|access|get|copy|retrieve|extract|collect|gather|grab|look up|dump|list|find|obtain|take)\b[^!?]{0,40}\b(your|the users?'?s?|users?'?s?|their|his|her) (\w+ ){0,2}?{private}[^!?]{0,120}\b(pass|send|include|put|provide|append|attach|forward|upload|transmit|post|encode|insert|supply|place|submit|leak|share)\b[^.!?]{0,40}\b(to|as|in|into|via|with|here)\b",
    r"\b(read|open|cat|load|fetch|access|get|copy|retrieve|extract|collect|gather|grab|look up|dump|find|obtain|take)\b[^.!?]{0,40}\b(all|every|any) (\w+ ){0,2}?{private}[^.!?]{0,100}\b(pass|send|include|put|append|attach|forward|upload|transmit|post|submit|leak|share)\b( \w+){0,3} (to|as|in|into|via)\b",
    r"\b(pass|send|include|put|provide|append|attach|forward|upload|transmit|post|encode|insert|supply|submit|exfiltrate|leak|share)\b[^.!?]{0,30}\b(the |your |user'?s? |all |any |every |full |raw |complete |their |his |her )(\w+ ){0,3}?(content|contents|copy|text|value|values|dump|output|list)? ?(of )?(the |your |any |all |user'?s? )*[^.!?]{0,20}{files}",
    r"\b(contents?|copy|text|dump|full text|raw bytes) (of|from|in) (the |your |user'?s? |~|\$home|/home)[^!?]{0,40}{files}",
    r"\b(send|forward|upload|transmit|exfiltrate|leak|post|report|copy|bcc|cc|submit|share|email|mail)\b[^.!?]{0,60}\b(your|the user'?s?|all|every|any|found|available) (\w+ ){0,2}?{private}[^!?]{0,60}\b(to|at|via|as|into)\b",
    r"{private}[^.!?]{0,80}\b(and|then) (pass|send|include|put|append|attach|forward|upload|transmit|post|submit|share) (them|it|those|these)\b[^.!?]{0,30}\b(to|in|as|into|via|with|here)\b",
    r"\b(read|open|cat|load|fetch|get|copy|extract|take)\b[^!?]{0,60}\.env\b[^!?]{0,100}\b(pass|send|include|put|append|attach|forward|upload|transmit|post|submit|share)\b[^.!?]{0,40}\b(in|into|as|to|via)\b",
    r"\b(pass|send|include|put|provide|paste|insert|append)\b[^.!?]{0,20}\b(contents?|copy|text|values?) of[^.!?]{0,20}\.env\b",
    r"\b(pass|send|include|put|provide|append|attach|insert|supply|submit)\b[^.!?]{0,20}\b(your|the users?'?s|users?'?s|their) (\w+ ){0,2}?(api[ _-]?keys?|passwords?|credentials?|private keys?|ssh keys?|cookies|(access|session|auth) tokens?)\b[^.!?]{0,30}\b(as|in|into|to|via|with)\b",
    r"\b(pass|send|include|put|provide|append|attach|insert|supply|submit)\b[^.!?]{0,20}\b\w*_(key|token|secret|password) (environment variable|env var|variable)s?\b",
    r"(^|[\n.!?:;,] ?|\b(then|and|must|should|always|please|also|silently|quietly) )exfiltrate\b",
    // Pass on the conversation so far.
    r"\b(include|pass|send|provide|put|append|attach|copy|forward|repeat|insert|paste|summari[sz]e|encode|write|add|dump|log|report|transmit|upload)\b[^.!?]{0,60}\b(entire|full|whole|complete|verbatim|exact|previous|preceding|current|recent|user'?s?|above|prior) (\w+ ){0,2}?(conversation|chat|dialogue?|message) ?(history|log|so far|transcript|context)?\b[^.!?]{0,60}\b(in|into|as|to|with|here|argument|parameter|field)\b",
    r"\b(include|pass|send|provide|put|append|attach|copy|forward|repeat|insert|paste|reveal|print|output|dump|disclose|encode|share|report|transmit)\b[^.!?]{0,40}\b(your|the|its|this|full|complete|entire|original) (\w+ ){0,2}?(system (prompt|message|instructions?)|hidden instructions?|context window|chain of thought|list of (all )?(your )?(available )?tools)\b",
    r"\b(put|pass|send|include|copy|insert|paste|append|attach)\b[^.!?]{0,20}\b(the|this|your|our) (chat|conversation) (history|log|so far|transcript)\b[^.!?]{0,40}\b(in|into|as|to|with)\b",
    r"\b(conversation|chat) (history|transcript|so far)\b[^.!?]{0,60}\b(must|should|has to|needs to) be (passed|sent|included|provided|put|forwarded|appended|copied)\b",
    // Send data to a given destination.
    r"\b(must|always|should|need to|have to|instead|also|first|silently|quietly|automatically|additionally)\b[^.!?]{0,80}\b(send|forward|bcc|cc|copy|redirect|deliver|email|mail|transfer|pay|wire|route|add|recipients?)\b[^!?]{0,80}[\w.+-]+@[\w-]+\.[\w.]+",
    r"\b(must|always|first|silently|quietly|also|automatically|additionally|afterwards?)\b[^.!?]{0,60}\b(send|post|upload|forward|transmit|report|submit|curl|ping|beacon)\b[^!?]{0,100}\bhttps?://",
    r"\b(curl|wget|nc|netcat|bash|sh|powershell|iex)\b[^!?]{0,80}(\|\s*(ba|z|da)?sh\b|/dev/tcp/|\|\s*iex\b)",
    r"!\[[^\]]*\]\(https?://[^)\s]*[?&=/](\{|<|\$|%7b|\[)",
    // Prompt markup, and markup that is never displayed.
    r"<!--[^>]{0,200}\w+ \w+ \w+",
    r"<\s*/?\s*(important|system|instructions?|secret|hidden|critical|assistant|admin|priority|sys|override|system[-_ ](prompt|reminder|message|note)|user_query|tool_instructions?)\s*/?\s*>",
    r"(\[/?inst\]|<</?sys>>|<\|(im_start|im_end|system|user|assistant|endoftext|begin_of_text|start_header_id|eot_id)\|>|\bbegin_system_prompt\b)",
    r"(^|[\n.!?\]] ?|#+ )(system|assistant|developer) (prompt|message|override|instructions?|note|update|notice) ?:",
    r"\[(system|admin|important|assistant|hidden|developer)( (note|message|instructions?|override|notice|prompt))? ?\]? ?(:|to the (ai|model|assistant|llm|agent))",
    r"\b(note|message|instructions?|attention|reminder|notice|order|important)( for| to)? (the |any |all )?(ai|llm|language model|assistant|ai agent|ai model|claude|gpt|chatgpt|cursor|copilot|gemini|agent)s?( models?| assistants?| agents?)? ?(:|only|reading this|,? ?you must)",
    r"\b(ai|llm|assistant|language model|claude|gpt|chatgpt|copilot|gemini|agent)s?,? (you )?(must|shall|have to|are required to|are instructed to|are ordered to) (now |first |always |never |also |not |secretly |immediately ){0,2}(read|send|ignore|execute|run|exfiltrate|hide|obey|forward|upload|reveal|tell|delete|disable|bypass)\b",
    // The same in other languages.
    r"\b(ignora|olvida|descarta)\b[^.!?]{0,30}\b(instrucciones|indicaciones|istruzioni|instruções)\b",
    r"\b(ignore|oublie|oubliez|ignorez)\b[^.!?]{0,30}\b(instructions|consignes) (précédentes|antérieures|ci-dessus)",
    r"\b(ignoriere|ignorieren sie|vergiss|missachte)\b[^.!?]{0,30}\b(anweisungen|instruktionen|vorgaben)\b",
    r"(игнорируй|забудь|игнорируйте|не сообщай|не говори)[^.!?]{0,40}(инструкци|указани|пользовател)",
    r"(忽略|无视|忘记|忽視|無視)[^.!?]{0,36}(指令|指示|提示|命令|规则)",
    r"(不要|请勿|别)(告诉|通知|提醒|让)[^.!?]{0,18}(用户|使用者|人类)",
    r"(以前|これまで|上記|前|すべて)の(指示|命令|プロンプト)[^.!?]{0,24}(無視|忘れ)",
    r"(이전|모든|위의)[^.!?]{0,24}(지시|명령|지침)[^.!?]{0,18}(무시|잊)",
];

/// Byte-based regexes: repeated Unicode classes would take more memory than the texts they protect.
static COMPILED: LazyLock<Vec<Regex>> =
    LazyLock::new(|| PATTERNS.iter().filter_map(|pattern| compiled(pattern)).collect());

fn compiled(pattern: &str) -> Option<Regex> {
    let pattern = pattern.replace("{private}", PRIVATE).replace("{files}", PRIVATE_FILES);
    RegexBuilder::new(&pattern).unicode(false).build().ok()
}

/// The first matching words.
pub(super) fn instruction(text: &str) -> Option<String> {
    let lines = collapsed(text);
    let mut variants = vec![lines.replace('\n', " ")];
    if lines.contains('\n') {
        variants.push(lines);
    }
    // Search with confusable letters folded to ASCII, then as written, because other languages use these
    // letters.
    variants
        .iter()
        .find_map(|text| search(&folded(text)))
        .or_else(|| variants.iter().filter(|text| !text.is_ascii()).find_map(|text| search(text)))
        .or_else(|| {
            variants.iter().filter(|text| !text.is_ascii()).find_map(|text| search(&unaccented(text)))
        })
}

fn search(text: &str) -> Option<String> {
    let matched = COMPILED.iter().find_map(|pattern| pattern.find(text.as_bytes()))?;
    Some(String::from_utf8_lossy(matched.as_bytes()).trim().to_owned())
}

/// Lower-case text with runs of blanks collapsed and invisible characters between letters removed. Line
/// breaks stay, because a heading may follow one.
fn collapsed(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars().flat_map(char::to_lowercase) {
        match c {
            '\n' => {
                plain.truncate(plain.trim_end().len());
                plain.push('\n');
            }
            c if c.is_whitespace() => {
                if !plain.ends_with([' ', '\n']) {
                    plain.push(' ');
                }
            }
            '\u{200B}'..='\u{200F}'
            | '\u{202A}'..='\u{202E}'
            | '\u{2060}'..='\u{2069}'
            | '\u{FEFF}'
            | '\u{AD}' => {}
            c => plain.push(c),
        }
    }
    plain
}

#[cfg(test)]
mod tests;
