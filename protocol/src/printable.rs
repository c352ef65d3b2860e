//! Texts of others, for terminals and pages.

/// A text without control characters, and at most 1000 characters long.
pub fn to_printable(text: &str) -> String {
    text.chars().filter(|character| !character.is_control()).take(1000).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_and_long_texts_are_cut() {
        assert_eq!(to_printable("red \x1b[31malert\n"), "red [31malert");
        assert_eq!(to_printable(&"x".repeat(5000)).len(), 1000);
    }
}
