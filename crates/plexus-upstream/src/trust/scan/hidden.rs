//! Detects characters that a person does not see but a model reads.
//!
//! Some of them have legitimate uses: joiners inside emoji and in scripts with joined letters, direction
//! marks in right-to-left text, one variation selector after a character that has variants. Single
//! occurrences in such places are accepted; a hidden message needs many in a row, or in places where they
//! have no use.

/// A run of blanks so long that text after it goes unnoticed, in characters and in lines.
const MAX_BLANKS: usize = 200;
const MAX_BLANK_LINES: usize = 25;

/// The first hidden text.
pub(super) fn hidden_text(text: &str) -> Option<String> {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\n' | b'\t' | b'\r')) {
        return padded(text);
    }
    let mut at = hidden_positions(text);
    match at.next() {
        Some((index, _)) => {
            let start = text[..index].char_indices().rev().nth(20).map_or(0, |(start, _)| start);
            Some(text[start..].chars().take(60).collect())
        }
        None => padded(text),
    }
}

/// A terminal control sequence.
pub(super) fn escape(text: &str) -> Option<String> {
    let index = text.find(['\u{1B}', '\u{9B}'])?;
    Some(text[index..].chars().take(40).collect())
}

/// The text with every hidden character written out: `<U+200B>`.
pub(crate) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut done = 0;
    for (index, c) in hidden_positions(text) {
        shown.push_str(&text[done..index]);
        shown.push_str(&format!("<U+{:04X}>", u32::from(c)));
        done = index + c.len_utf8();
    }
    shown.push_str(&text[done..]);
    shown
}

/// Text after a long run of blanks.
fn padded(text: &str) -> Option<String> {
    let (mut blanks, mut lines) = (0, 0);
    for (index, c) in text.char_indices() {
        if c.is_whitespace() {
            blanks += 1;
            lines += usize::from(c == '\n');
        } else {
            // Leading blanks do not push text out of sight.
            if blanks < index && (blanks >= MAX_BLANKS || lines >= MAX_BLANK_LINES) {
                let behind: String = text[index..].chars().take(60).collect();
                return Some(format!("after {blanks} blanks: {behind}"));
            }
            (blanks, lines) = (0, 0);
        }
    }
    None
}

/// The positions of hidden characters without a legitimate use there.
fn hidden_positions(text: &str) -> impl Iterator<Item = (usize, char)> {
    let mut before = PrecedingText::default();
    let is_rtl = text.chars().any(is_right_to_left);
    text.char_indices().filter(move |(index, c)| {
        let next = text[index + c.len_utf8()..].chars().next();
        let hidden = is_hidden(*c) && !before.is_legitimate(*c, next, is_rtl);
        before.advance(*c);
        hidden
    })
}

/// The context before a character.
#[derive(Default)]
struct PrecedingText {
    /// The preceding character.
    last: Option<char>,
    /// The last visible character.
    last_visible: Option<char>,
    /// Letters of a flag written in tag characters.
    tags: String,
    /// Number of accepted variation selectors.
    variants: usize,
}

impl PrecedingText {
    fn advance(&mut self, c: char) {
        match c {
            TAG_FIRST..=TAG_LAST => self.tags.extend(letter(c)),
            _ => self.tags.clear(),
        }
        self.variants += usize::from(is_rare_variant(c));
        if !is_hidden(c) && !is_modifier(c) {
            self.last_visible = Some(c);
        }
        self.last = Some(c);
    }

    /// Whether a hidden character has a legitimate use here.
    fn is_legitimate(&self, c: char, next: Option<char>, is_rtl: bool) -> bool {
        let (Some(last), Some(last_visible)) = (self.last, self.last_visible) else { return false };
        let follows_visible = !is_hidden(last) || last == '\u{FE0F}';
        match c {
            '\u{200D}' if is_pictograph(last_visible) => follows_visible && next.is_some_and(is_pictograph),
            '\u{200C}' | '\u{200D}' => !is_hidden(last) && joins(last) && next.is_none_or(joins_or_ends),
            '\u{200E}' | '\u{200F}' | '\u{061C}' => is_rtl && !is_hidden(last),
            '\u{FE0E}' | '\u{FE0F}' => {
                !is_hidden(last) && (is_pictograph(last) || matches!(last, '0'..='9' | '#' | '*'))
            }
            // Each letter could carry one of many selectors, which would encode a hidden text.
            c if is_rare_variant(c) => {
                self.variants < MAX_VARIANTS
                    && !is_hidden(last)
                    && (is_ideograph(last) || is_symbol(last) || joins(last))
            }
            TAG_FIRST..=TAG_LAST => {
                let continues_flag = |flag: &&str| {
                    flag.strip_prefix(self.tags.as_str()).is_some_and(|rest| rest.chars().next() == letter(c))
                };
                last_visible == '\u{1F3F4}' && FLAGS.iter().any(continues_flag)
            }
            _ => false,
        }
    }
}

/// Limit of rare variation selectors in one text.
const MAX_VARIANTS: usize = 4;
/// England, Scotland and Wales: a black flag, these letters, and the terminator.
const FLAGS: [&str; 3] = ["gbeng\u{7F}", "gbsct\u{7F}", "gbwls\u{7F}"];

const TAG_FIRST: char = '\u{E0020}';
const TAG_LAST: char = '\u{E007F}';

/// The letter that a tag character stands for.
fn letter(tag: char) -> Option<char> {
    char::from_u32(u32::from(tag) - 0xE0000)
}

fn is_rare_variant(c: char) -> bool {
    matches!(u32::from(c), 0xFE00..=0xFE0D | 0xE0100..=0xE01EF)
}

fn is_hidden(c: char) -> bool {
    matches!(
        u32::from(c),
        // Controls, except blanks.
        0x00..=0x08 | 0x0B..=0x0C | 0x0E..=0x1F | 0x7F..=0x9F
        // Soft hyphen, joiners, fillers, invisible letters and operators.
        | 0xAD | 0x034F | 0x115F..=0x1160 | 0x17B4..=0x17B5 | 0x180B..=0x180F | 0x200B..=0x200D | 0x2060..=0x2065
        | 0x206A..=0x206F | 0x2800 | 0x3164 | 0xFEFF | 0xFFA0 | 0xFFF0..=0xFFFB | 0x1BCA0..=0x1BCA3 | 0x1D173..=0x1D17A
        // Text direction.
        | 0x061C | 0x200E..=0x200F | 0x202A..=0x202E | 0x2066..=0x2069
        // Line breaks that most programs do not treat as such.
        | 0x2028..=0x2029
        // Variation selectors, and tag characters.
        | 0xFE00..=0xFE0F | 0xE0000..=0xE0FFF
    )
}

/// Hebrew, Arabic and related scripts.
fn is_right_to_left(c: char) -> bool {
    matches!(u32::from(c), 0x0590..=0x08FF | 0xFB1D..=0xFDFF | 0xFE70..=0xFEFC | 0x10800..=0x10FFF | 0x1E800..=0x1EFFF)
}

/// A letter of a script in which letters join or change their form in context.
fn joins(c: char) -> bool {
    matches!(
        u32::from(c),
        0x0600..=0x08FF | 0x0900..=0x0DFF | 0x1000..=0x109F | 0x1780..=0x17B3 | 0x17B6..=0x17FF | 0x1820..=0x18AF
            | 0xFB50..=0xFDFF | 0xFE70..=0xFEFC
    )
}

fn joins_or_ends(c: char) -> bool {
    joins(c) || c.is_whitespace() || c.is_ascii_punctuation()
}

fn is_pictograph(c: char) -> bool {
    matches!(
        u32::from(c),
        0xA9 | 0xAE | 0x203C | 0x2049 | 0x2100..=0x214F | 0x2190..=0x21FF | 0x2300..=0x23FF | 0x2460..=0x24FF
            | 0x25A0..=0x27BF | 0x2900..=0x297F | 0x2B00..=0x2BFF | 0x3030 | 0x303D | 0x3297..=0x3299 | 0x1F000..=0x1FAFF
    )
}

/// A skin tone, or the keycap frame.
fn is_modifier(c: char) -> bool {
    matches!(u32::from(c), 0x1F3FB..=0x1F3FF | 0x20E3)
}

fn is_ideograph(c: char) -> bool {
    matches!(u32::from(c), 0x3000..=0x30FF | 0x3400..=0x4DBF | 0x4E00..=0x9FFF | 0xF900..=0xFAFF | 0xFF00..=0xFF9F | 0x20000..=0x3FFFF)
}

fn is_symbol(c: char) -> bool {
    matches!(u32::from(c), 0x2200..=0x22FF | 0x2A00..=0x2AFF)
}
