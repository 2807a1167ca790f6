//! Characters that nobody sees, and that a model or a terminal takes all the same.
//!
//! A text can carry another one in them: in tags, in variation selectors behind one emoji, in a series of two characters
//! without width. Some belong into texts, so what counts is where a character stands, not the character alone. Hidden are:
//!
//! - control characters other than white space
//! - what Unicode lets a program ignore (`Default_Ignorable_Code_Point`): soft hyphens, fillers, characters without width,
//!   marks and overrides of the direction, tags
//! - the marks of annotations (U+FFF9 to U+FFFB)
//!
//! These are not hidden where they have a form that is in use:
//!
//! - tags that make a flag of a region: after a black flag, two letters, one to four letters or digits, and the end
//! - one joiner (U+200C, U+200D) after a letter of a script that has joiners, or after an emoji
//! - one variation selector after a character that can have variants
//!
//! [`instructions`](super::instructions) reports hidden characters in what servers offer, and the probe escapes them.
//!
//! ```
//! use mcp_proto::host::invisible::characters;
//!
//! let hidden = |text| characters(text).filter(|it| it.is_hidden).count();
//! assert_eq!(hidden("a\u{200B}b"), 1);
//! assert_eq!(hidden("\u{2764}\u{FE0F}"), 0, "a red heart");
//! assert_eq!(hidden("\u{2764}\u{FE0F}\u{FE01}\u{FE02}"), 2);
//! ```

use core::str::CharIndices;

/// A character of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Character {
    /// Its position, in bytes.
    pub at: usize,
    /// The character.
    pub char: char,
    /// Whether it is hidden where it stands.
    pub is_hidden: bool,
}

/// The characters of a text, in order.
pub fn characters(text: &str) -> Characters<'_> {
    Characters { chars: text.char_indices(), before: None, flag_end: 0 }
}

/// An iterator over [`Character`]s.
#[derive(Clone, Debug)]
pub struct Characters<'a> {
    chars: CharIndices<'a>,
    /// The character before, if it can have a joiner or a selector.
    before: Option<char>,
    /// Where the last flag ends.
    flag_end: usize,
}

impl Iterator for Characters<'_> {
    type Item = Character;

    fn next(&mut self) -> Option<Character> {
        let (at, char) = self.chars.next()?;
        let is_hidden = match Kind::of(char) {
            Kind::Visible => {
                if char == BLACK_FLAG {
                    self.flag_end = self.chars.offset().saturating_add(tags_of_flag(self.chars.as_str()));
                }
                false
            }
            Kind::Hidden => true,
            Kind::Tag => at >= self.flag_end,
            Kind::Joiner => !self.before.is_some_and(is_joined),
            Kind::Selector => !self.before.is_some_and(|base| has_variant(base, char)),
        };
        self.before = match Kind::of(char) {
            Kind::Visible => Some(char),
            // An emoji with a selector may be joined to another one.
            Kind::Selector if !is_hidden && char == EMOJI_STYLE => Some(char),
            Kind::Hidden | Kind::Tag | Kind::Joiner | Kind::Selector => None,
        };
        Some(Character { at, char, is_hidden })
    }
}

const BLACK_FLAG: char = '\u{1F3F4}';
const EMOJI_STYLE: char = '\u{FE0F}';

enum Kind {
    Visible,
    Hidden,
    Tag,
    Joiner,
    Selector,
}

impl Kind {
    /// The table of code points: the controls, and `Default_Ignorable_Code_Point` of Unicode 16.
    const fn of(char: char) -> Self {
        match char {
            '\t'..='\r' | ' '..='~' | '\u{85}' => Self::Visible,
            '\0'..='\u{9F}' | '\u{FFF9}'..='\u{FFFB}' => Self::Hidden,
            '\u{200C}' | '\u{200D}' => Self::Joiner,
            '\u{180B}'..='\u{180D}' | '\u{180F}' | '\u{FE00}'..='\u{FE0F}' | '\u{E0100}'..='\u{E01EF}' => {
                Self::Selector
            }
            '\u{E0020}'..='\u{E007F}' => Self::Tag,
            '\u{AD}'
            | '\u{34F}'
            | '\u{61C}'
            | '\u{115F}'
            | '\u{1160}'
            | '\u{17B4}'
            | '\u{17B5}'
            | '\u{180E}'
            | '\u{200B}'
            | '\u{200E}'
            | '\u{200F}'
            | '\u{202A}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}'
            | '\u{3164}'
            | '\u{FEFF}'
            | '\u{FFA0}'
            | '\u{FFF0}'..='\u{FFF8}'
            | '\u{1BCA0}'..='\u{1BCA3}'
            | '\u{1D173}'..='\u{1D17A}'
            | '\u{E0000}'..='\u{E0FFF}' => Self::Hidden,
            _ => Self::Visible,
        }
    }
}

/// The length of the tags that make a black flag the flag of a region; 0 if these are none.
fn tags_of_flag(text: &str) -> usize {
    const END: char = '\u{E007F}';
    /// Two letters, and at most four of the region.
    const LONGEST: usize = 6;
    let is_letter = |tag: char| matches!(tag, '\u{E0061}'..='\u{E007A}');
    let is_digit = |tag: char| matches!(tag, '\u{E0030}'..='\u{E0039}');
    let mut length = 0_usize;
    for (index, tag) in text.chars().enumerate().take(LONGEST.saturating_add(1)) {
        length = length.saturating_add(tag.len_utf8());
        match index {
            0 | 1 if is_letter(tag) => {}
            2 if is_letter(tag) || is_digit(tag) => {}
            3..LONGEST if is_letter(tag) || is_digit(tag) => {}
            3..=LONGEST if tag == END => return length,
            _ => return 0,
        }
    }
    0
}

/// Whether a joiner may follow: a letter of a script that has joiners, or an emoji.
const fn is_joined(char: char) -> bool {
    matches!(
        char,
        // Arabic, Syriac, N'Ko, Mandaic; the scripts of India and of South-East Asia; Mongolian; forms of Arabic letters.
        '\u{600}'..='\u{8FF}' | '\u{900}'..='\u{DFF}' | '\u{E80}'..='\u{109F}' | '\u{1700}'..='\u{18AF}'
            | '\u{1900}'..='\u{1CFF}' | '\u{A800}'..='\u{ABFF}' | '\u{FB50}'..='\u{FDFF}' | '\u{FE70}'..='\u{FEFC}'
            | '\u{10A00}'..='\u{11FFF}'
            // Emoji.
            | EMOJI_STYLE | '\u{2190}'..='\u{2BFF}' | '\u{1F000}'..='\u{1FAFF}'
    )
}

/// Whether a character can have this variation selector.
const fn has_variant(base: char, selector: char) -> bool {
    match selector {
        '\u{180B}'..='\u{180F}' => matches!(base, '\u{1800}'..='\u{18AF}'),
        // Ideographs.
        '\u{E0100}'..='\u{E01EF}' => {
            matches!(base, '\u{3400}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3FFFF}')
        }
        // Digits, `#` and `*` are keys; ideographs, punctuation, symbols and emoji begin at U+2010.
        _ => {
            matches!(base, '#' | '*' | '0'..='9' | '\u{A9}' | '\u{AE}' | '\u{1000}'..='\u{109F}' | '\u{2010}'..)
                && !matches!(
                    base,
                    '\u{2028}' | '\u{2029}' | '\u{202F}' | '\u{205F}' | '\u{2800}' | '\u{3000}' | EMOJI_STYLE
                )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::String;
    use proptest::prelude::*;

    fn hidden(text: &str) -> usize {
        characters(text).filter(|it| it.is_hidden).count()
    }

    /// `Default_Ignorable_Code_Point` (`DerivedCoreProperties.txt` of Unicode 16).
    const IGNORABLE: &[core::ops::RangeInclusive<char>] = &[
        '\u{AD}'..='\u{AD}',
        '\u{34F}'..='\u{34F}',
        '\u{61C}'..='\u{61C}',
        '\u{115F}'..='\u{1160}',
        '\u{17B4}'..='\u{17B5}',
        '\u{180B}'..='\u{180F}',
        '\u{200B}'..='\u{200B}',
        '\u{200C}'..='\u{200D}',
        '\u{200E}'..='\u{200F}',
        '\u{202A}'..='\u{202E}',
        '\u{2060}'..='\u{206F}',
        '\u{3164}'..='\u{3164}',
        '\u{FE00}'..='\u{FE0F}',
        '\u{FEFF}'..='\u{FEFF}',
        '\u{FFA0}'..='\u{FFA0}',
        '\u{FFF0}'..='\u{FFF8}',
        '\u{1BCA0}'..='\u{1BCA3}',
        '\u{1D173}'..='\u{1D17A}',
        '\u{E0000}'..='\u{E0FFF}',
    ];

    #[test]
    fn each_character_is_hidden_among_latin_letters_if_nobody_sees_it_and_no_other_is() {
        for char in '\0'..=char::MAX {
            let is_control = char.is_control() && !char.is_whitespace();
            let expected = is_control
                || matches!(char, '\u{FFF9}'..='\u{FFFB}')
                || IGNORABLE.iter().any(|range| range.contains(&char));
            assert_eq!(hidden(&format!("a{char}b")), usize::from(expected), "{}", char.escape_unicode());
        }
    }

    #[test]
    fn what_has_a_form_that_is_in_use_is_not_hidden() {
        for text in [
            "\u{1F3F4}\u{E0067}\u{E0062}\u{E0065}\u{E006E}\u{E0067}\u{E007F}",
            "\u{1F3F4}\u{E0075}\u{E0073}\u{E0063}\u{E0061}\u{E007F}.",
            "\u{1F468}\u{200D}\u{1F469}\u{200D}\u{1F467}",
            "\u{2764}\u{FE0F}\u{200D}\u{1F525}",
            "\u{1F3F3}\u{FE0F}\u{200D}\u{1F308}",
            "\u{1F9D1}\u{1F3FD}\u{200D}\u{1F4BB}",
            "1\u{FE0F}\u{20E3} #\u{FE0F}\u{20E3} \u{A9}\u{FE0F}",
            "\u{8FBB}\u{E0100}\u{FF0C}\u{FE00}",
            "می\u{200C}خواهم",
            "क्\u{200D}ष",
            "\u{182D}\u{180B}",
        ] {
            assert_eq!(hidden(text), 0, "{}", text.escape_unicode());
        }
    }

    #[test]
    fn what_has_another_form_is_hidden() {
        for text in [
            // Tags after a black flag: no end, no letters, too long, of no flag, twice.
            "\u{1F3F4}\u{E0067}\u{E0062}\u{E0065}\u{E006E}\u{E0067}",
            "\u{1F3F4}\u{E007F}",
            "\u{1F3F4}\u{E0067}\u{E0062}\u{E007F}",
            "\u{1F3F4}\u{E0067}\u{E0062}\u{E0065}\u{E006E}\u{E0067}\u{E0061}\u{E0061}\u{E007F}",
            "\u{1F3F4}\u{E0072}\u{E006D}\u{E0020}\u{E002D}\u{E007F}",
            "\u{1F3F4}\u{E0067}\u{E0062}\u{E0065}\u{E006E}\u{E0067}\u{E007F}\u{E0067}\u{E0062}\u{E0065}\u{E007F}",
            "\u{1F3F3}\u{E0067}\u{E0062}\u{E0065}\u{E006E}\u{E0067}\u{E007F}",
            "می\u{200C}\u{200C}خواهم",
            "\u{1F468}\u{200D}\u{200D}\u{1F469}",
            "\u{2764}\u{FE0F}\u{FE0F}",
            "\u{2764}\u{E0101}",
            " \u{FE0F}",
            "\u{FE0F}",
            "\u{200D}\u{1F469}",
            "\u{3000}\u{FE00}",
        ] {
            assert_ne!(hidden(text), 0, "{}", text.escape_unicode());
        }
    }

    proptest! {
        #[test]
        fn a_text_behind_any_cover_is_hidden_if_it_is_written_in_any_two_invisible_characters(
            cover in "[ -~]{0,8}(\\PC){0,4}",
            range in prop::sample::subsequence(IGNORABLE, 2),
            bits in prop::collection::vec(any::<bool>(), 3..40),
        ) {
            let [zero, one] = &range[..] else { panic!("two") };
            let carried: String = bits.iter().map(|bit| if *bit { *one.end() } else { *zero.start() }).collect();
            // A selector and a joiner may belong to the character before the series.
            let found = hidden(&format!("{cover}{carried}"));
            prop_assert!(found.saturating_add(2) >= bits.len(), "{} of {}", found, bits.len());
        }

        #[test]
        fn what_is_left_without_hidden_characters_has_none(text in "(\\PC|[\u{200C}\u{200D}\u{FE0F}\u{E0067}\u{E007F}\u{1F3F4}]){0,12}") {
            let left: String = characters(&text).filter(|it| !it.is_hidden).map(|it| it.char).collect();
            prop_assert_eq!(hidden(&left), 0);
        }

        #[test]
        fn the_characters_are_those_of_the_text(text in "\\PC{0,12}|.{0,12}") {
            let all = characters(&text).map(|it| (it.at, it.char));
            prop_assert!(all.eq(text.char_indices()));
        }
    }
}
