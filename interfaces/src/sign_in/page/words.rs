//! The texts of the pages in their languages: Fluent files that are part of the program.
//!
//! Variables stand in the texts without the marks that isolate their direction (U+2068, U+2069).
//! All languages here are written from left to right, the names in the texts are those of the
//! operator's configuration, and people and scripts copy and compare the texts.

use std::borrow::Cow;
use std::sync::LazyLock;

use fluent_bundle::concurrent::FluentBundle;
use fluent_bundle::{FluentArgs, FluentResource};
use selfsame_protocol::sign_in::Language;

/// The file of a language.
fn file(language: Language) -> &'static str {
    match language {
        Language::English => include_str!("languages/en.ftl"),
        Language::German => include_str!("languages/de.ftl"),
        Language::Spanish => include_str!("languages/es.ftl"),
        Language::French => include_str!("languages/fr.ftl"),
        Language::Japanese => include_str!("languages/ja.ftl"),
        Language::Portuguese => include_str!("languages/pt.ftl"),
    }
}

static ALL: LazyLock<[Words; 6]> = LazyLock::new(|| Language::ALL.map(Words::read));

/// The texts in one language. They are plain text, and a page escapes them.
pub struct Words {
    /// The language.
    pub language: Language,
    bundle: FluentBundle<FluentResource>,
}

impl Words {
    /// The texts in a language.
    pub fn of(language: Language) -> &'static Self {
        let mut all = ALL.iter();
        all.find(|words| words.language == language).unwrap_or(&ALL[0])
    }

    /// The direction in which the language is written, as the attribute `dir` names it.
    pub const fn direction(&self) -> &'static str {
        match self.language {
            Language::English
            | Language::German
            | Language::Spanish
            | Language::French
            | Language::Japanese
            | Language::Portuguese => "ltr",
        }
    }

    fn read(language: Language) -> Self {
        let mut bundle = FluentBundle::new_concurrent(vec![language.tag().parse().unwrap_or_default()]);
        bundle.set_use_isolating(false);
        // A test reads every file without errors.
        let resource = FluentResource::try_new(file(language).to_owned()).unwrap_or_else(|(read, _)| read);
        bundle.add_resource_overriding(resource);
        Self { language, bundle }
    }

    /// A text without variables.
    pub fn say(&self, key: &str) -> Cow<'_, str> {
        self.format(key, None)
    }

    /// A text with the values of its variables.
    pub fn say_with(&self, key: &str, variables: &[(&str, &str)]) -> Cow<'_, str> {
        let variables: FluentArgs<'_> = variables.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        self.format(key, Some(&variables))
    }

    fn format(&self, key: &str, variables: Option<&FluentArgs<'_>>) -> Cow<'_, str> {
        let pattern = self.bundle.get_message(key).and_then(|message| message.value());
        let mut errors = Vec::new();
        let text = pattern.map(|pattern| self.bundle.format_pattern(pattern, variables, &mut errors));
        // Tests show that every text is there, and has its variables.
        #[cfg(test)]
        assert!(errors.is_empty() && text.is_some(), "{key} in {:?}: {errors:?}", self.language);
        text.map_or_else(|| key.to_owned().into(), |text| text.into_owned().into())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::Path;

    use fluent_syntax::ast::{Entry, Expression, InlineExpression, Pattern, PatternElement};

    use super::*;

    /// The variables of each message of a language.
    fn messages(language: Language) -> BTreeMap<String, BTreeSet<String>> {
        let resource = FluentResource::try_new(file(language).to_owned()).map_err(|(_, errors)| errors);
        let resource = resource.unwrap_or_else(|errors| panic!("{language:?}: {errors:?}"));
        let mut found = BTreeMap::new();
        for entry in resource.entries() {
            match entry {
                Entry::Message(message) => {
                    assert!(message.attributes.is_empty(), "{}", message.id.name);
                    let variables = variables(message.value.as_ref().expect("a text"));
                    let twice = found.insert(message.id.name.to_owned(), variables);
                    assert_eq!(twice, None, "{} is in {language:?} twice", message.id.name);
                }
                Entry::Comment(_) | Entry::GroupComment(_) | Entry::ResourceComment(_) => {}
                other => panic!("{language:?}: {other:?}"),
            }
        }
        found
    }

    fn variables(pattern: &Pattern<&str>) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for element in &pattern.elements {
            match element {
                PatternElement::TextElement { value } => {
                    assert!(!value.contains(['<', '>', '&']), "{value:?} has markup");
                }
                PatternElement::Placeable {
                    expression: Expression::Inline(InlineExpression::VariableReference { id }),
                } => {
                    found.insert(id.name.to_owned());
                }
                PatternElement::Placeable { expression } => panic!("{expression:?} is no variable"),
            }
        }
        found
    }

    #[test]
    fn every_language_has_the_same_texts_with_the_same_variables() {
        let english = messages(Language::English);
        assert!(english.len() > 60, "only {} texts were found", english.len());
        for language in Language::ALL {
            assert_eq!(messages(language), english, "{language:?}");
        }
    }

    /// A text of one language in all others is likely not translated.
    #[test]
    fn texts_are_translated() {
        let text = |language: Language, key: &str| {
            let resource = FluentResource::try_new(file(language).to_owned()).expect("no errors");
            let line = resource.source().lines().find(|line| line.starts_with(&format!("{key} = "))).map(str::to_owned);
            line.expect("a text")
        };
        for key in messages(Language::English).keys() {
            let english = text(Language::English, key);
            let same: Vec<_> = Language::ALL[1..].iter().filter(|other| text(**other, key) == english).collect();
            assert!(same.len() <= 1, "{english:?} in {same:?}");
        }
    }

    /// The keys that the sources name, and whether they pass variables.
    #[test]
    fn every_text_is_used_and_every_used_text_is_there() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/sign_in");
        let files = [folder.clone(), folder.join("page")].into_iter().flat_map(|folder| {
            let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
            entries.filter(|path| path.extension().is_some_and(|extension| extension == "rs")).collect::<Vec<_>>()
        });
        let sources: String = files.map(|path| std::fs::read_to_string(path).expect("a source")).collect();
        let english = messages(Language::English);
        for key in english.keys() {
            assert!(sources.contains(&format!("\"{key}\"")), "{key} is not used");
        }
        for (call, has_variables) in [("say(\"", false), ("say_with(\"", true)] {
            let mut calls = 0;
            for (start, _) in sources.match_indices(call) {
                let key = sources[start + call.len()..].split('"').next().expect("a key");
                let Some(variables) = english.get(key) else { panic!("{key} is no text") };
                assert_eq!(!variables.is_empty(), has_variables, "{key} has {variables:?}");
                calls += 1;
            }
            assert!(calls > 3, "{call} was found {calls} times");
        }
    }

    #[test]
    fn variables_are_plain_text_without_marks() {
        for language in Language::ALL {
            let text = Words::of(language).say_with("sign-in-title", &[("application", "<b>{ $x }</b> \u{5d0}")]);
            assert!(text.contains("<b>{ $x }</b> \u{5d0}"), "{text}");
            assert!(!text.contains(['\u{2068}', '\u{2069}']), "{text:?}");
            assert_eq!(Words::of(language).language, language);
        }
    }
}
