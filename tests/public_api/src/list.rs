//! The list of public items as a text: sections with one line for each item.

use std::collections::HashSet;

use similar::TextDiff;

const HEAD: &str = "\
# The public items of selfsame-actors. `make public-api` compares this list with the crate;
# `make accept-public-api` writes it anew after a change that is meant.
";

/// A title, and the lines below it.
pub struct Section {
    title: String,
    lines: Vec<String>,
}

impl Section {
    /// The items that the crate always has.
    pub fn without_features(lines: Vec<String>) -> Self {
        Self { title: "# Without features".to_owned(), lines }
    }

    /// What a feature adds to the items that the crate always has. A line that it takes away gets
    /// a minus sign.
    pub fn beyond(feature: Option<&str>, without_features: &Self, lines: Vec<String>) -> Self {
        let title = format!("# With the feature {}", feature.unwrap_or_default());
        let before: HashSet<&String> = without_features.lines.iter().collect();
        let after: HashSet<&String> = lines.iter().collect();
        let removed = without_features.lines.iter().filter(|line| !after.contains(line));
        let added = lines.iter().filter(|line| !before.contains(line));
        let lines = removed.map(|line| format!("- {line}")).chain(added.cloned()).collect();
        Self { title, lines }
    }
}

/// The text of the list.
pub fn render(sections: &[Section]) -> String {
    let sections = sections.iter().map(|Section { title, lines }| format!("\n{title}\n{}\n", lines.join("\n")));
    HEAD.to_owned() + &sections.collect::<String>()
}

/// The lines in which two lists differ, with those around them; empty when the lists are equal.
pub fn difference(listed: &str, found: &str) -> String {
    TextDiff::from_lines(listed, found).unified_diff().header("listed", "found").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines<const N: usize>(lines: [&str; N]) -> Vec<String> {
        lines.map(str::to_owned).to_vec()
    }

    #[test]
    fn a_feature_is_listed_with_what_it_adds_and_takes_away() {
        let without = Section::without_features(lines(["pub a", "pub b"]));
        let with = Section::beyond(Some("f"), &without, lines(["pub b", "pub c"]));
        let text = render(&[without, with]);
        let expected = "\n# Without features\npub a\npub b\n\n# With the feature f\n- pub a\npub c\n";
        assert_eq!(text.strip_prefix(HEAD), Some(expected));
    }

    #[test]
    fn a_difference_shows_what_is_listed_and_what_was_found() {
        assert_eq!(difference("pub a\n", "pub a\n"), "");
        let difference = difference("pub a\npub b\n", "pub a\npub c\n");
        assert!(difference.contains("-pub b\n+pub c\n"), "{difference}");
    }
}
