//! Handles confusable letters (homoglyphs), which make a program compare something else than a person reads.

use unicode_security::skeleton;

/// Replaces every letter that is confusable with an ASCII one by that one.
pub(crate) fn folded(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut one = [0; 4];
    for c in text.chars() {
        match c.is_ascii() {
            true => plain.push(c),
            false => {
                let alike: String = skeleton(c.encode_utf8(&mut one)).collect();
                plain.push_str(if alike.is_ascii() && !alike.is_empty() {
                    &alike
                } else {
                    c.encode_utf8(&mut one)
                });
            }
        }
    }
    plain
}

/// Like [`folded`], and also removes accents, which change how a word looks but not how a model reads it.
pub(super) fn unaccented(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut one = [0; 4];
    for c in text.chars() {
        if c.is_ascii() || is_accent(c) {
            plain.extend(Some(c).filter(char::is_ascii));
            continue;
        }
        let bare: String = skeleton(c.encode_utf8(&mut one)).filter(|part| !is_accent(*part)).collect();
        match bare.is_ascii() && !bare.is_empty() {
            true => plain.push_str(&bare),
            false => plain.push(c),
        }
    }
    plain
}

fn is_accent(c: char) -> bool {
    matches!(u32::from(c), 0x0300..=0x036F)
}

/// A comparison key for names, equal for names that look the same: lower case without separators, with one
/// representative per group of confusable characters.
pub(crate) fn look_alike_key(name: &str) -> String {
    let plain = folded(name).to_lowercase().replace("rn", "m").replace("vv", "w");
    let alike = |c: char| match c {
        '0' => 'o',
        '1' | 'i' | '|' | '!' => 'l',
        '5' => 's',
        c => c,
    };
    plain.chars().filter(|c| c.is_alphanumeric() || "|!".contains(*c)).map(alike).collect()
}

/// A word that mixes two scripts and looks like pure ASCII, which only occurs as a disguise.
pub(super) fn mixed_script_word(text: &str) -> Option<String> {
    if text.is_ascii() {
        return None;
    }
    let words = text.split(|c: char| !c.is_alphanumeric());
    let disguised = |word: &&str| {
        let foreign = |c: char| matches!(u32::from(c), 0x0370..=0x058F | 0x13A0..=0x13FF | 0xAB70..=0xABBF);
        word.chars().any(|c| c.is_ascii_alphabetic())
            && word.chars().any(foreign)
            && word.chars().count() > 2
            && folded(word).is_ascii()
    };
    words.into_iter().find(disguised).map(|word| {
        let odd = word.chars().find(|c| !c.is_ascii()).map_or(0, u32::from);
        format!("{word} contains U+{odd:04X}, which looks like {}", folded(word))
    })
}
