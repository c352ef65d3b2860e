//! Which file uses which, read from the sources of a crate without a compiler.
//!
//! A path counts as an arrow to the file that *defines* the name at its end, however many
//! `use` declarations of other modules hand the name on. So a folder cannot be used past the rooms
//! by a name that somebody re-exports, and a name that `lib.rs` re-exports is not an arrow to
//! `lib.rs`. Unit tests do not count. A path that a macro puts together is not seen.

use std::collections::{BTreeMap, BTreeSet};

/// A module's path from the root of its crate: `["fsck", "report"]`; the root's is empty.
pub type Path = Vec<String>;

/// One file uses a name that another one defines.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrow {
    pub from: Path,
    pub to: Path,
    /// The name as the file says it.
    pub named: String,
}

/// A module, in a file of its own or between braces.
#[derive(Default)]
struct Module {
    /// The module whose file this one is in.
    file: Path,
    /// What it defines itself, without its modules.
    items: BTreeSet<String>,
    /// What it imports: the name here, and the path after `use`.
    uses: Vec<(String, Path)>,
    /// The paths before `::*`.
    globs: Vec<Path>,
}

/// The modules of a crate, and every path that they name.
pub struct Imports {
    modules: BTreeMap<Path, Module>,
    named: Vec<(Path, Path)>,
}

impl Imports {
    /// Reads the files of a crate, given by the path of their module.
    pub fn read(files: &BTreeMap<Path, String>) -> Self {
        let mut read = Self { modules: BTreeMap::new(), named: Vec::new() };
        for (file, text) in files {
            read.read_file(file, &product_tokens(text));
        }
        read
    }

    /// The files, without those modules that are between braces.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.modules.iter().filter(|(path, module)| **path == module.file).map(|(path, _)| path)
    }

    /// Every use of a name that another file defines. The root of the crate is no room: what it
    /// uses, and what uses its macros and types, does not count.
    pub fn arrows(&self) -> BTreeSet<Arrow> {
        let mut arrows = BTreeSet::new();
        for (module, path) in &self.named {
            let from = &self.modules[module].file;
            let Some(absolute) = self.absolute(module, path) else { continue };
            for to in self.definers(&absolute, &mut BTreeSet::new()) {
                if to != *from && !to.is_empty() && !from.is_empty() {
                    arrows.insert(Arrow { from: from.clone(), to, named: path.join("::") });
                }
            }
        }
        arrows
    }

    fn read_file(&mut self, file: &Path, tokens: &[&str]) {
        self.modules.insert(file.clone(), Module { file: file.clone(), ..Module::default() });
        // The modules that are open, each with the depth of braces inside it.
        let mut open = vec![(file.clone(), 0)];
        let mut depth = 0;
        let mut at = 0;
        while at < tokens.len() {
            let (path, inside) = open.last().expect("the file's module").clone();
            let next = tokens.get(at + 1).copied().unwrap_or_default();
            let before = if at == 0 { "" } else { tokens[at - 1] };
            match tokens[at] {
                "{" => depth += 1,
                "}" => {
                    depth -= 1;
                    if open.len() > 1 && depth < inside {
                        open.pop();
                    }
                }
                "mod" if tokens.get(at + 2) == Some(&"{") => {
                    let inner = [path, vec![next.to_owned()]].concat();
                    self.modules.insert(inner.clone(), Module { file: file.clone(), ..Module::default() });
                    depth += 1;
                    open.push((inner, depth));
                    at += 2;
                }
                "use" if next != "<" => {
                    let end = at + tokens[at..].iter().position(|token| *token == ";").unwrap_or(tokens.len() - at);
                    self.read_use(&path, &Vec::new(), &tokens[at + 1..end]);
                    at = end;
                }
                "struct" | "enum" | "union" | "trait" | "fn" | "type" | "const" | "static" if depth == inside => {
                    let module = self.modules.get_mut(&path).expect("an open module");
                    module.items.insert(next.to_owned());
                }
                word if is_name(word) && next == "::" && !["::", "."].contains(&before) => {
                    let mut named = vec![word.to_owned()];
                    while tokens.get(at + 1) == Some(&"::") && tokens.get(at + 2).is_some_and(|word| is_name(word)) {
                        named.push(tokens[at + 2].to_owned());
                        at += 2;
                    }
                    self.named.push((path, named));
                }
                _ => {}
            }
            at += 1;
        }
    }

    /// Reads one tree of a `use` declaration, without the `;`: `a::{self, b as c, d::*}`.
    fn read_use(&mut self, module: &Path, base: &Path, tree: &[&str]) {
        let mut path = base.clone();
        let mut at = 0;
        while at < tree.len() {
            match tree[at] {
                "::" => {}
                "{" => {
                    let (mut depth, mut start) = (0, at + 1);
                    for (index, token) in tree.iter().enumerate().skip(at + 1) {
                        match *token {
                            "{" => depth += 1,
                            "}" if depth > 0 => depth -= 1,
                            "," | "}" if depth == 0 => {
                                if start < index {
                                    self.read_use(module, &path, &tree[start..index]);
                                }
                                start = index + 1;
                            }
                            _ => {}
                        }
                    }
                    return;
                }
                "*" => {
                    self.named.push((module.clone(), path.clone()));
                    self.modules.get_mut(module).expect("a module").globs.push(path);
                    return;
                }
                "as" => break,
                // `a::{self}` is `a`.
                "self" if !path.is_empty() => {}
                name => path.push(name.to_owned()),
            }
            at += 1;
        }
        let name = if tree.get(at) == Some(&"as") { tree[at + 1] } else { path.last().map_or("", String::as_str) };
        let name = name.to_owned();
        self.named.push((module.clone(), path.clone()));
        self.modules.get_mut(module).expect("a module").uses.push((name, path));
    }

    /// A path that a module says, from the crate's root; none if it leads out of the crate.
    fn absolute(&self, module: &Path, path: &[String]) -> Option<Path> {
        let first = path.first()?.as_str();
        let mut base = match first {
            "crate" => return Some(path[1..].to_vec()),
            "self" | "super" => module.clone(),
            name => return self.has(module, name, &mut BTreeSet::new()).then(|| [module, path].concat()),
        };
        let mut rest = path;
        while let Some(step @ ("self" | "super")) = rest.first().map(String::as_str) {
            if step == "super" {
                base.pop();
            }
            rest = &rest[1..];
        }
        Some([&base, rest].concat())
    }

    /// Whether a module has a name: defines it, imports it, or gets it by a `*`.
    fn has(&self, module: &Path, name: &str, seen: &mut BTreeSet<Path>) -> bool {
        let Some(found) = self.modules.get(module) else { return false };
        let is_own =
            found.items.contains(name) || self.modules.contains_key(&[&module[..], &[name.to_owned()]].concat());
        // Seen before: a module may import itself by a `*`.
        let is_new = seen.insert(module.clone());
        is_own
            || found.uses.iter().any(|(used, _)| used == name)
            || is_new && self.glob_with(module, name, seen).is_some()
    }

    /// The module from which a module gets this name by a `*`.
    fn glob_with(&self, module: &Path, name: &str, seen: &mut BTreeSet<Path>) -> Option<Path> {
        let mut globs = self.modules[module].globs.iter().filter_map(|path| match path[0].as_str() {
            "crate" | "self" | "super" => self.absolute(module, path),
            _ => Some([module, &path[..]].concat()),
        });
        globs.find(|from| from != module && self.has(from, name, seen))
    }

    /// The files that define what a path from the crate's root names. There are several if the name
    /// is one of a module and of a function, or is defined anew for each feature.
    fn definers(&self, path: &[String], seen: &mut BTreeSet<Path>) -> BTreeSet<Path> {
        if !seen.insert(path.to_vec()) {
            return BTreeSet::new();
        }
        // Down through modules, but for the last name, which need not be a module's.
        let mut length = 0;
        while length + 1 < path.len() && self.modules.contains_key(&path[..=length]) {
            length += 1;
        }
        let Some(name) = path.get(length) else { return BTreeSet::from([Vec::new()]) };
        let (module, rest) = (path[..length].to_vec(), &path[length + 1..]);
        let mut found = BTreeSet::new();
        if let Some(named) = self.modules.get(path) {
            found.insert(named.file.clone());
        }
        let uses = self.modules[&module].uses.iter().filter(|(used, _)| used == name);
        let mut is_imported = false;
        for (_, target) in uses {
            is_imported = true;
            // In `use fail::fail` the first name is a crate or a module, and not what is imported.
            let is_outside =
                target.first() == Some(name) && !self.modules.contains_key(&[&module[..], &target[..1]].concat());
            if let Some(target) = self.absolute(&module, target).filter(|_| !is_outside) {
                found.extend(self.definers(&[&target, rest].concat(), seen));
            }
        }
        if found.is_empty() && !is_imported {
            found.insert(match self.modules[&module].items.contains(name) {
                true => self.modules[&module].file.clone(),
                false => match self.glob_with(&module, name, &mut BTreeSet::from([module.clone()])) {
                    Some(from) => return self.definers(&[&from[..], &path[length..]].concat(), seen),
                    None => self.modules[&module].file.clone(),
                },
            });
        }
        found
    }
}

/// Whether a source, but for its unit tests, names a crate as the first or a later part of a path.
pub fn names_crate(text: &str, name: &str) -> bool {
    let tokens = product_tokens(text);
    tokens.windows(3).any(|three| match three {
        [before, word, after] => *word == name && (*after == "::" || ["::", "use"].contains(before)),
        _ => false,
    }) || tokens.starts_with(&[name, "::"])
}

/// The words and signs of a source, without comments, literals and unit tests.
pub fn product_tokens(text: &str) -> Vec<&str> {
    let all = tokens(text);
    let mut kept = Vec::with_capacity(all.len());
    let mut at = 0;
    while at < all.len() {
        if is_test_attribute(&all[at..]) {
            at = end_of_item(&all, at);
        } else {
            kept.push(all[at]);
            at += 1;
        }
    }
    kept
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Whether an attribute makes the item after it one of the unit tests.
fn is_test_attribute(tokens: &[&str]) -> bool {
    tokens.starts_with(&["#", "[", "cfg", "(", "test", ")"])
        || tokens.starts_with(&["#", "[", "cfg", "(", "all", "(", "test"])
}

/// Where the item ends that has the attribute at `start`.
fn end_of_item(tokens: &[&str], start: usize) -> usize {
    let (mut depth, mut is_attribute) = (0, true);
    for (index, token) in tokens.iter().enumerate().skip(start + 1) {
        match *token {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" if depth == 0 => return index,
            closing @ ("}" | ")" | "]") => {
                depth -= 1;
                if depth == 0 && closing == "}" {
                    return index + 1;
                }
                if depth == 0 && closing == "]" && is_attribute {
                    is_attribute = tokens.get(index + 1) == Some(&"#");
                }
            }
            ";" | "," if depth == 0 => return index + 1,
            _ => {}
        }
    }
    tokens.len()
}

/// The words and signs of a source, without comments and literals. A string that is a path, as in
/// `#[serde(with = "crate::number::plain")]`, is the path.
fn tokens(source: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = source.trim_start();
    while let Some(first) = rest.chars().next() {
        let mut is_token = true;
        let length = if rest.starts_with("//") {
            is_token = false;
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            is_token = false;
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some((length, text)) = string(rest) {
            is_token = false;
            if text.contains("::") && text.chars().all(|c| c.is_alphanumeric() || ['_', ':'].contains(&c)) {
                tokens.extend(self::tokens(text));
            }
            length
        } else if first == '\'' {
            is_token = false;
            character(rest)
        } else if first.is_alphanumeric() || first == '_' {
            rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            2
        } else {
            first.len_utf8()
        };
        if is_token {
            tokens.push(&rest[..length]);
        }
        rest = rest[length..].trim_start();
    }
    tokens
}

/// The length of the string that a text begins with, and what is between its quotes.
fn string(text: &str) -> Option<(usize, &str)> {
    let after_byte = text.strip_prefix('b').unwrap_or(text);
    let (is_raw, quoted) = after_byte.strip_prefix('r').map_or((false, after_byte), |rest| (true, rest));
    let hashes = if is_raw { quoted.len() - quoted.trim_start_matches('#').len() } else { 0 };
    let inside = quoted[hashes..].strip_prefix('"')?;
    let length = if is_raw {
        inside.find(&format!("\"{}", "#".repeat(hashes)))?
    } else {
        let mut is_escaped = false;
        inside.find(|c| {
            let is_end = c == '"' && !is_escaped;
            is_escaped = c == '\\' && !is_escaped;
            is_end
        })?
    };
    Some((text.len() - inside.len() + length + 1 + hashes, &inside[..length]))
}

/// The length of the character literal, or of the lifetime's `'`, that a text begins with.
fn character(text: &str) -> usize {
    let mut inside = text[1..].chars();
    match (inside.next(), inside.next()) {
        (Some('\\'), Some(escaped)) => {
            let start = 2 + escaped.len_utf8();
            start + text[start..].find('\'').map_or(0, |end| end + 1)
        }
        (Some(character), Some('\'')) => 2 + character.len_utf8(),
        _ => 1,
    }
}
