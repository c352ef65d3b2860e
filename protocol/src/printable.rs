//! Texts of others, for terminals and pages.

/// A text without control characters and without characters that are not seen and change how the
/// others look, and at most 1000 characters long. The marks of direction (Unicode Standard Annex 9)
/// would let a text show an order of its words that it does not have.
pub fn to_printable(text: &str) -> String {
    text.chars().filter(|character| !character.is_control() && !is_invisible(*character)).take(1000).collect()
}

/// Whether a character is a mark of direction, a separator of lines or paragraphs, or has no width.
fn is_invisible(character: char) -> bool {
    matches!(
        character,
        '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_and_long_texts_are_cut() {
        assert_eq!(to_printable("red \x1b[31malert\n"), "red [31malert");
        assert_eq!(to_printable(&"x".repeat(5000)).len(), 1000);
    }

    #[test]
    fn characters_that_are_not_seen_are_cut() {
        #[rustfmt::skip]
        let table = [
            ("\u{61c}", false), ("\u{200a}", true), ("\u{200b}", false), ("\u{200d}", false), ("\u{200e}", false),
            ("\u{200f}", false), ("\u{2010}", true), ("\u{2027}", true), ("\u{2028}", false), ("\u{2029}", false),
            ("\u{202a}", false), ("\u{202e}", false), ("\u{202f}", true), ("\u{205f}", true), ("\u{2060}", false),
            ("\u{2066}", false), ("\u{2069}", false), ("\u{206a}", true), ("\u{feff}", false), ("é", true),
            ("א", true), ("人", true),
        ];
        for (character, is_kept) in table {
            let kept = to_printable(&format!("a{character}b"));
            assert_eq!(kept == format!("a{character}b"), is_kept, "{character:?}");
            assert!(kept.starts_with('a') && kept.ends_with('b'), "{character:?}");
        }
    }
}
