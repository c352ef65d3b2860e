//! The pages and the sample agree with the configuration.

use std::collections::BTreeSet;
use std::path::Path;

use selfsame_protocol::registry::CommitmentCheck;

use super::load;
use crate::config::{Config, VerificationKeys};

/// The pages of `docs/configuration/`, by their names, the first one first.
const PAGES: [(&str, &str); 6] = [
    ("README.md", include_str!("../../../docs/configuration/README.md")),
    ("daemon.md", include_str!("../../../docs/configuration/daemon.md")),
    ("limits.md", include_str!("../../../docs/configuration/limits.md")),
    ("sign-in.md", include_str!("../../../docs/configuration/sign-in.md")),
    ("verification.md", include_str!("../../../docs/configuration/verification.md")),
    ("registry.md", include_str!("../../../docs/configuration/registry.md")),
];

/// The texts of all pages.
pub(super) fn pages() -> String {
    PAGES.map(|(_, text)| text).join("\n")
}

#[test]
fn the_production_sample_loads() {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/production.toml");
    let config = Config::load(Some(&sample), std::iter::empty(), false, None).unwrap();
    assert_eq!(config.registry.commitment_check, CommitmentCheck::Enforce);
    assert!(config.limits.per_source.is_some() && config.limits.per_leaf_index.is_some());
    assert_eq!(config.verifier.keys, VerificationKeys::default());
}

/// The keys of a section, taken from the error for an unknown key; `None` when the path is not a
/// section.
fn keys_of(section: &str) -> Option<Vec<String>> {
    let text = match section {
        "" => "zzz = 1".to_owned(),
        section if section.contains("[0]") => {
            let (list, rest) = section.split_once("[0]").unwrap();
            let entry = rest.strip_prefix('.').map_or("zzz = 1".to_owned(), |key| match key.strip_suffix("[0]") {
                Some(key) => format!("{key} = [{{ zzz = 1 }}]"),
                None => format!("{key} = {{ zzz = 1 }}"),
            });
            format!("[[{list}]]\n{entry}")
        }
        section => format!("{section}.zzz = 1"),
    };
    let message = load(&text).unwrap_err().to_string();
    let unknown = message.lines().find(|line| line.contains("zzz: is not a known key"))?;
    let keys = unknown.split_once("the keys here are ")?.1.split(" (in ").next()?;
    Some(keys.split(", ").map(str::to_owned).collect())
}

/// The paths of all keys, `[0]` behind that of a list of tables.
pub(super) fn every_key() -> BTreeSet<String> {
    let mut sections = vec![String::new()];
    let mut found = BTreeSet::new();
    while let Some(section) = sections.pop() {
        for key in keys_of(&section).unwrap() {
            let path = if section.is_empty() { key } else { format!("{section}.{key}") };
            sections.extend([path.clone(), format!("{path}[0]")].into_iter().find(|path| keys_of(path).is_some()));
            found.insert(path);
        }
    }
    found
}

#[test]
fn every_key_is_in_the_documentation() {
    let pages = pages();
    let mut sections = vec![String::new()];
    let mut seen = 0;
    while let Some(section) = sections.pop() {
        let mut part = pages.as_str();
        let name = section.replace("[0]", "");
        if !name.is_empty() && !name.contains(".keys") && !name.ends_with("public_key") && !name.starts_with("limits.")
        {
            let heading = if section.ends_with("[0]") { format!("## `[[{name}]]`") } else { format!("## `[{name}]`") };
            part = pages.split_once(&heading).unwrap_or_else(|| panic!("{heading} is on no page")).1;
            part = part.split("\n## ").next().unwrap_or(part);
        }
        for key in keys_of(&section).unwrap() {
            let path = if section.is_empty() { key.clone() } else { format!("{section}.{key}") };
            seen += 1;
            let nested = [path.clone(), format!("{path}[0]")].into_iter().find(|path| keys_of(path).is_some());
            let heading = section.is_empty() && nested.is_some() || section == "verifier.keys";
            assert!(heading || part.contains(&format!("\n| `{key}` | ")), "{path} is on no page");
            sections.extend(nested);
        }
    }
    assert!(seen > 80, "only {seen} keys were found");
}

/// The list on the first page has each section with the page that describes it.
#[test]
fn the_first_page_says_where_each_section_is() {
    let (_, first) = PAGES[0];
    for (name, page) in &PAGES[1..] {
        let row = first.lines().find(|line| line.starts_with("| ") && line.contains(&format!("]({name})")));
        let sections = row.unwrap_or_else(|| panic!("{name} is not in the list")).rsplit(" | ").next().unwrap();
        let listed: BTreeSet<&str> = sections.split('`').skip(1).step_by(2).collect();
        let headings = page.split("\n## `").skip(1).map(|section| section.split('`').next().unwrap());
        assert_eq!(listed, headings.collect(), "{name}");
    }
}
