//! What the documents say is compared with what the program knows: sections, routes, codes,
//! settings and their defaults, numbers of constants, files, tests, metrics and interfaces.
//! `structure.rs` compares links, commands and the names of tests with a path.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use selfsame_interfaces::interface::Interface;
use selfsame_interfaces::web_wallet;
use serde_json::Value;

use crate::registry_client::RegistryClient;

/// The folders of the workspace that a text may name a file of.
const FOLDERS: [&str; 14] = [
    "protocol/",
    "storage/",
    "actors/",
    "cluster/",
    "interfaces/",
    "src/",
    "wallet/",
    "tests/",
    "benches/",
    "examples/",
    "config/",
    "scripts/",
    "packaging/",
    "docs/",
];

/// The folders of the sources of the product's crates.
const SOURCES: [&str; 7] =
    ["src", "interfaces/src", "cluster/src", "actors/src", "storage/src", "protocol/src", "wallet/src"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The files below a folder with an extension, as paths from the root.
fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root().join(folder)).expect("a folder") {
        let entry = entry.expect("an entry");
        let path = format!("{folder}/{}", entry.file_name().into_string().expect("text"));
        if entry.path().is_dir() {
            let is_built = ["/node_modules", "/target"].iter().any(|name| path.ends_with(name));
            found.extend(if is_built { Vec::new() } else { files(&path, extension) });
        } else if path.ends_with(&format!(".{extension}")) {
            found.push(PathBuf::from(path));
        }
    }
    found.sort();
    found
}

/// The pages, with their texts.
fn pages() -> Vec<(String, String)> {
    let mut pages: Vec<String> =
        files("docs", "md").into_iter().map(|page| page.to_str().expect("text").to_owned()).collect();
    pages.extend(["README.md", "CONTRIBUTING.md", "SECURITY.md", "tests/README.md"].map(str::to_owned));
    pages.into_iter().map(|page| (page.clone(), read(&page))).collect()
}

/// The product's sources, with the comments' lines joined.
fn sources() -> Vec<(String, String)> {
    let sources = SOURCES.iter().chain(&["tests/it"]).flat_map(|folder| files(folder, "rs"));
    sources
        .map(|file| {
            let text = fs::read_to_string(root().join(&file)).expect("a source");
            let lines = text.lines().map(|line| line.trim().trim_start_matches(['/', '!']).trim());
            (file.display().to_string(), lines.collect::<Vec<_>>().join(" "))
        })
        .collect()
}

/// The words of a text that stand in backticks on one line.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| line.split('`').skip(1).step_by(2))
}

/// Pages of the interfaces that sources name exist, with the titles behind them: "Error codes" in
/// `docs/interfaces/gateway.md`.
#[test]
fn pages_and_titles_that_sources_name_exist() {
    let (mut missing, mut titles) = (Vec::new(), 0);
    for (file, text) in sources() {
        for (start, name) in text.match_indices("docs/interfaces/") {
            let rest = &text[start + name.len()..];
            let Some((page, behind)) = rest.split_once(".md") else { continue };
            let is_page = !page.is_empty() && page.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
            let path = format!("{name}{page}.md");
            if !is_page {
                continue;
            }
            let Ok(page) = fs::read_to_string(root().join(&path)) else {
                missing.push(format!("{file}: {path}"));
                continue;
            };
            let title = behind.trim_start_matches('`').strip_prefix(", \"").and_then(|title| title.split('"').next());
            if let Some(title) = title {
                titles += 1;
                let is_title =
                    page.lines().any(|line| line.starts_with('#') && line.trim_start_matches(['#', ' ']) == title);
                if !is_title {
                    missing.push(format!("{file}: {path}, {title:?}"));
                }
            }
        }
    }
    assert!(missing.is_empty(), "pages and titles that do not exist: {missing:#?}");
    assert!(titles > 7, "only {titles} titles were found");
}

/// The keys of the configuration with their schemas, `[0]` behind a list of tables.
fn settings() -> BTreeMap<String, Value> {
    fn visit(schema: &Value, path: &str, document: &Value, found: &mut BTreeMap<String, Value>) {
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            visit(document.pointer(reference.trim_start_matches('#')).expect("a part"), path, document, found);
        }
        if let Some(items) = schema.get("items") {
            visit(items, &format!("{path}[0]"), document, found);
        }
        for (key, value) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            found.insert(path.clone(), value.clone());
            visit(value, &path, document, found);
        }
    }
    let document = selfsame::config::schema();
    let mut found = BTreeMap::new();
    visit(&document, "", &document, &mut found);
    found
}

/// `section.key` and `[section]` in backticks are settings, in the pages and in the sources.
#[test]
fn settings_that_texts_name_exist() {
    let known: BTreeSet<String> = settings().into_keys().map(|key| key.replace("[0]", "")).collect();
    let is_section = |name: &str| known.contains(name.split('.').next().unwrap_or_default());
    // Files, steps of plans of faults and hosts have names of the same form.
    let others = [
        "operator.token",
        "backup.manifest",
        "batcher.start",
        "batcher.handle",
        "batcher.seal",
        "batcher.sealed",
        "wallet.json",
        "wallet.example.org",
    ];
    let (mut unknown, mut named) = (Vec::new(), 0);
    for (file, text) in pages().into_iter().chain(sources()) {
        let words: Vec<_> = text.split('`').skip(1).step_by(2).collect();
        for word in words {
            let name = word.trim_start_matches('[').trim_end_matches(']');
            let is_plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '_' || c == '.');
            let is_name = is_plain && (name.contains('.') && is_section(name) && !name.ends_with(".rs"));
            if is_name && !others.contains(&name) {
                named += 1;
                if !known.contains(name) {
                    unknown.push(format!("{file}: {word}"));
                }
            }
        }
    }
    assert!(unknown.is_empty(), "settings that do not exist: {unknown:#?}");
    assert!(named > 200, "only {named} settings were found");
}

/// A number with its unit as the configuration or a page writes it, in seconds or as it is: `10s`,
/// `1m 15s`, `75 s`, `14 days`, `100,000`, `1024 proofs`, `256 MiB`.
fn quantity(text: &str) -> Option<f64> {
    let text = text.trim_matches(['"', '`']).replace([',', '_'], "");
    let mut sum = None;
    let mut rest = text.trim();
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let number: f64 = rest[..digits].parse().ok()?;
        let behind = rest[digits..].trim_start();
        let letters = behind.find(|c: char| !c.is_alphabetic()).unwrap_or(behind.len());
        let unit = match &behind[..letters] {
            "" | "s" | "MiB" | "proofs" => 1.0,
            "us" => 1e-6,
            "ms" => 1e-3,
            "m" | "min" => 60.0,
            "h" | "hour" | "hours" => 3600.0,
            "d" | "day" | "days" => 86_400.0,
            "year" | "years" => 31_557_600.0,
            _ => return None,
        };
        sum = Some(sum.unwrap_or(0.0) + number * unit);
        rest = behind[letters..].trim_start();
    }
    sum
}

/// Whether a page's cell says this default.
fn says(cell: &str, default: &Value) -> bool {
    let text = cell.trim_matches('`');
    let as_text = default.as_str().map_or_else(|| default.to_string(), str::to_owned);
    let as_json = default.to_string();
    let same_text = text.trim_matches('"') == as_text || text == as_json;
    let values = quantity(&as_text).zip(quantity(text));
    same_text || values.is_some_and(|(default, said)| (default - said).abs() < 1e-9)
}

/// The defaults of `docs/configuration/` and of `docs/interfaces/limits.md` are those of the
/// schema.
#[test]
fn defaults_of_the_pages_are_those_of_the_program() {
    let settings = settings();
    let (mut wrong, mut compared) = (Vec::new(), 0);
    // The page says in words what an empty value means.
    let in_words = ["actions[0].description", "trusted_roots[0].identifiers", "chains[0].rpc", "chains[0].contracts"];
    let mut compare = |page: &str, key: &str, cell: &str| {
        let Some(default) = settings.get(key).and_then(|schema| schema.get("default")) else { return };
        compared += 1;
        if !in_words.contains(&key) && !says(cell, default) {
            wrong.push(format!("{page}: {key} is {default}, not {cell}"));
        }
    };
    let configuration = files("docs/configuration", "md").into_iter().map(|page| page.display().to_string());
    let configuration: Vec<_> = configuration.map(|page| (read(&page), page)).collect();
    let mut section = String::new();
    for (line, page) in configuration.iter().flat_map(|(text, page)| text.lines().map(move |line| (line, page))) {
        if let Some(heading) = line.strip_prefix("## ") {
            let name = heading.trim_matches('`').trim_matches(['[', ']']);
            section = if heading.starts_with("`[[") { format!("{name}[0].") } else { format!("{name}.") };
            if !heading.starts_with('`') {
                section.clear();
            }
        }
        let cells: Vec<_> = line.split(" | ").collect();
        if let [key, default, ..] = cells[..]
            && let Some(key) = key.strip_prefix("| `").and_then(|key| key.strip_suffix('`'))
        {
            compare(page, &format!("{section}{key}"), default);
        }
    }
    for line in read("docs/interfaces/limits.md").lines() {
        let cells: Vec<_> = line.split(" | ").collect();
        if let [key, default, _] = cells[..]
            && let Some(key) = key.strip_prefix("| `").and_then(|key| key.strip_suffix('`'))
        {
            compare("docs/interfaces/limits.md", key, default);
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(compared > 100, "only {compared} defaults were compared");
}

/// Numbers that a constant of a source knows: the file, the constant, what its unit is in the unit
/// of the page, and the page's words with `{}` for the number.
#[rustfmt::skip]
const NUMBERS: [(&str, &str, u64, &str, &str); 42] = [
    ("interfaces/src/gateway/operations.rs", "BODY_LIMIT", 1024, "docs/interfaces/limits.md", "| body | {} KiB | gateway, indexer, forms of sign-in, answer to a proof request |"),
    ("interfaces/src/sign_in/browser.rs", "FORM_LIMIT", 1024, "docs/interfaces/limits.md", "| body | {} KiB | gateway, indexer, forms of sign-in, answer to a proof request |"),
    ("interfaces/src/sign_in/transaction.rs", "BODY_LIMIT", 1024, "docs/interfaces/limits.md", "| body | {} KiB | gateway, indexer, forms of sign-in, answer to a proof request |"),
    ("interfaces/src/bridge.rs", "BODY_LIMIT", 1 << 20, "docs/interfaces/limits.md", "| body | {} MiB | message bridge |"),
    ("interfaces/src/operator/trust.rs", "BODY_LIMIT", 1, "docs/interfaces/limits.md", "| body | {} bytes; 16 KiB for `/backups`; 24 MiB for invitations | operator interface |"),
    ("interfaces/src/operator/trust.rs", "BODY_LIMIT", 1, "docs/interfaces/limits.md", "| body | {} bytes; 16 KiB for `/backups`; 24 MiB for invitations | operator interface |"),
    ("interfaces/src/operator/maintenance.rs", "BODY_LIMIT", 1024, "docs/interfaces/limits.md", "| body | 4096 bytes; {} KiB for `/backups`; 24 MiB for invitations | operator interface |"),
    ("protocol/src/json.rs", "MOST_VALUES", 1, "docs/interfaces/limits.md", "| values in a JSON body | {}; 250,064 of invitations | all JSON bodies |"),
    ("protocol/src/sign_in/authorize.rs", "LONGEST_KEPT", 1, "docs/interfaces/limits.md", "| `state`, `nonce` | {} bytes each | `/authorize` |"),
    ("protocol/src/sign_in/records.rs", "MOST_SIGN_INS", 1, "docs/interfaces/limits.md", "| sign-ins of a browser session | {} | sign-in |"),
    ("protocol/src/sign_in/records.rs", "MOST_SIGN_INS", 1, "docs/interfaces/tokens.md", "It holds at most {} such sign-ins"),
    ("protocol/src/sign_in/records.rs", "LEAST_PUBLICATION", 1, "docs/interfaces/tokens.md", "A key signs only after it was published for {} s"),
    ("protocol/src/sign_in/proof_request.rs", "LONGEST_USER_AGENT", 1, "docs/interfaces/transactions.md", "`user_agent` (at most {} characters of printable ASCII)"),
    ("protocol/src/bridge/sign_in.rs", "LONGEST_ANSWER", 1024, "docs/interfaces/bridge.md", "An answer of more than {} KiB is 413"),
    ("interfaces/src/http/dispatch.rs", "MAX_LENGTH", 1, "docs/interfaces/limits.md", "| `Idempotency-Key`, `X-Request-Id` | 1 to {} characters | gateway; all interfaces |"),
    ("interfaces/src/gateway/operations.rs", "IDEMPOTENCY_KEY_LIMIT", 1, "docs/interfaces/limits.md", "| `Idempotency-Key`, `X-Request-Id` | 1 to {} characters | gateway; all interfaces |"),
    ("interfaces/src/http/request.rs", "LONGEST_WAIT", 1, "docs/interfaces/limits.md", "| `wait` | 0 to {} s | `/status` of the gateway, `/response` of the bridge, `/progress` of sign-in |"),
    ("interfaces/src/http/dispatch.rs", "MOST_FIELDS", 1, "docs/interfaces/limits.md", "| head of a request | 32 KiB (HTTP/2: 16 KiB), {} fields | all interfaces |"),
    ("interfaces/src/http/request.rs", "HEARTBEAT", 1, "docs/interfaces/transactions.md", "comes every {} s: unlike a comment"),
    ("interfaces/src/http/request.rs", "LONGEST", 1, "docs/interfaces/transactions.md", "A stream ends after {} s"),
    ("interfaces/src/http/request.rs", "LONGEST_WHEN_HALF_FULL", 1, "docs/operations/sizing.md", "streams of sign-ins end after {} seconds instead of 300"),
    ("interfaces/src/sign_in/transaction.rs", "HOLD", 1, "docs/interfaces/transactions.md", "is held while nothing changes and the state can change, {} s"),
    ("interfaces/src/sign_in/browser.rs", "MOST_TRANSACTIONS", 1, "docs/interfaces/transactions.md", "a browser keeps the cookies of its {} newest transactions"),
    ("protocol/src/sign_in/transaction.rs", "MOST_EXTENSIONS", 1, "docs/interfaces/limits.md", "| more time for a sign-in | {} times |"),
    ("protocol/src/sign_in/transaction.rs", "KEPT_AFTER_END", 1, "docs/interfaces/limits.md", "| time for which a sign-in is kept after its end | {} s |"),
    ("protocol/src/sign_in/transaction.rs", "MOST_WRONG_DIGITS", 1, "docs/interfaces/limits.md", "with the last of which a sign-in is over | {} |"),
    ("protocol/src/sign_in/transaction.rs", "MOST_REFUSED", 1, "docs/interfaces/limits.md", "not accepted and counted | {} |"),
    ("protocol/src/sign_in/openings.rs", "MOST_CHALLENGES", 1, "docs/interfaces/limits.md", "| challenges of a sign-in | {} |"),
    ("interfaces/src/http/exchange.rs", "MOST_UNREAD_REFUSALS", 1, "docs/operations/sizing.md", "whose client leaves more than {} refusals unread"),
    ("interfaces/src/http/exchange.rs", "SMALL_ANSWER", 1024, "docs/configuration/limits.md", "(answers of up to {} KiB are not counted)"),
    ("protocol/src/sign_in/accounts.rs", "MOST_POINTERS", 1, "docs/accounts.md", "A browser remembers up to {} accounts"),
    ("protocol/src/sign_in/accounts.rs", "MOST_POINTERS", 1, "docs/operations/allocation.md", "a record of at most {} of them"),
    ("protocol/src/sign_in/accounts.rs", "POINTERS_KEPT", 86_400, "docs/accounts.md", "until {} days after it last used one of them"),
    ("protocol/src/sign_in/accounts.rs", "POINTERS_KEPT", 86_400, "docs/interfaces/transactions.md", "| {} days after its last use |"),
    ("protocol/src/sign_in/accounts.rs", "POINTERS_KEPT", 86_400, "docs/interfaces/tokens.md", "end {} days after their last use"),
    ("protocol/src/sign_in/attaching.rs", "PROVISIONAL", 86_400, "docs/accounts.md", "| the next {} days | a legacy proof, or a proof in the session |"),
    ("protocol/src/sign_in/attaching.rs", "PROVISIONAL", 86_400, "docs/threats-sign-in.md", "told at every sign-in with a legacy proof for {} days"),
    ("protocol/src/sign_in/attaching.rs", "KNOWN_FOR", 3600, "docs/accounts.md", "that has remembered the account for {} hours because of one"),
    ("protocol/src/sign_in/records.rs", "MOST_RETIRED", 1, "docs/interfaces/tokens.md", "The newest {} retired keys are"),
    ("storage/src/schema/family.rs", "SCHEMA_DRAFT", 1, "docs/operations/backup.md", "schema 0, draft {}"),
    ("storage/src/schema/family.rs", "SCHEMA_DRAFT", 1, "docs/operations/running.md", "this program reads schema 0, draft {} alone"),
    ("interfaces/src/operator/history.rs", "NEWEST", 1, "docs/interfaces/operator-status.md", "array of the newest {} applied blocks"),
];

/// The value of a constant that is a number, a product, a shift or a duration of whole seconds.
fn constant(file: &str, name: &str) -> u64 {
    let source = read(file);
    let declaration = source.lines().find_map(|line| line.split_once(&format!("const {name}: ")).map(|(_, rest)| rest));
    let declaration = declaration.unwrap_or_else(|| panic!("{file} has no constant {name}"));
    let value = declaration.split_once(" = ").expect("a value").1.trim_end_matches(';');
    let value = value.strip_prefix("Duration::from_secs(").and_then(|value| value.strip_suffix(')')).unwrap_or(value);
    let number = |text: &str| -> u64 {
        text.trim().replace('_', "").parse().unwrap_or_else(|_| panic!("{file}: {name} is {value:?}"))
    };
    match value.split_once(" << ") {
        Some((number_text, shift)) => number(number_text) << number(shift),
        None => value.split('*').map(number).product(),
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn numbers_of_the_pages_are_those_of_the_constants() {
    let mut wrong = Vec::new();
    for (file, name, unit, page, words) in NUMBERS {
        let value = constant(file, name);
        assert_eq!(value % unit, 0, "{file}: {name} is {value}");
        let mut digits = (value / unit).to_string();
        if digits.len() > 4 {
            digits.insert(digits.len() - 3, ',');
        }
        let words = words.replace("{}", &digits);
        if !one_line(&read(page)).contains(&words) {
            wrong.push(format!("{page} lacks {words:?} ({name} of {file})"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The most words of a page that is read in ten minutes.
const MOST_WORDS: usize = 3500;

#[test]
fn a_page_is_read_in_ten_minutes() {
    let long = pages()
        .into_iter()
        .map(|(path, text)| (text.split_whitespace().count(), path))
        .filter(|(words, _)| *words > MOST_WORDS)
        .collect::<Vec<_>>();
    assert!(long.is_empty(), "cut these pages, or divide them by subject: {long:?}");
}

/// Files that pages name in backticks are there: by their path from the root, or by its end, such
/// as `support/slot.rs`.
#[test]
fn files_that_pages_name_exist() {
    let ends: Vec<_> = FOLDERS
        .iter()
        .flat_map(|folder| files(folder.trim_end_matches('/'), "rs"))
        .map(|file| format!("/{}", file.display()))
        .collect();
    let (mut missing, mut named, mut shortened) = (Vec::new(), 0, 0);
    for (page, text) in pages() {
        // The guides of applications name the files of their own projects.
        if page.starts_with("docs/applications/") {
            continue;
        }
        for word in quoted(&text).filter(|word| !word.contains(['<', '*', ' ', '…', ':', '{'])) {
            let is_there = if FOLDERS.iter().any(|folder| word.starts_with(folder)) {
                named += 1;
                root().join(word).exists()
            } else if word.contains('/') && word.ends_with(".rs") {
                shortened += 1;
                ends.iter().any(|file| file.ends_with(&format!("/{word}")))
            } else {
                continue;
            };
            if !is_there {
                missing.push(format!("{page}: {word}"));
            }
        }
    }
    assert!(missing.is_empty(), "files that do not exist: {missing:#?}");
    assert!(named > 100 && shortened > 5, "only {named} files were found, and {shortened} by the end of their path");
}

/// The list of files that were folded or renamed leads to files that are there, in one step.
#[test]
fn moved_files_are_where_the_list_says() {
    let list = read("docs/moved-files.txt");
    let (mut wrong, mut named) = (Vec::new(), 0);
    for line in list.lines().filter(|line| !line.starts_with('#')) {
        named += 1;
        let paths: Vec<_> = line.split_whitespace().collect();
        let is_right =
            matches!(paths[..], [before, now] if !root().join(before).exists() && root().join(now).is_file());
        if !is_right {
            wrong.push(line);
        }
    }
    assert!(wrong.is_empty(), "not a file that is gone and one that is there: {wrong:#?}");
    assert!(named > 300, "only {named} files were found");
}

/// Tests that pages name by their name alone are there, as are metrics.
#[test]
fn tests_and_metrics_that_pages_name_exist() {
    let folders = ["src", "interfaces", "cluster", "actors", "storage", "protocol", "wallet", "tests"];
    let sources: Vec<_> = folders.iter().flat_map(|folder| files(folder, "rs")).collect();
    let sources: String = sources.iter().map(|file| fs::read_to_string(root().join(file)).expect("a source")).collect();
    let metrics = read("docs/operations/metrics.md");
    let (mut missing, mut named) = (Vec::new(), 0);
    // The decisions name options of other programs.
    for (page, text) in pages().into_iter().filter(|(page, _)| !page.starts_with("docs/adr/")) {
        for word in quoted(&text) {
            let is_plain = word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
            if !is_plain {
                continue;
            }
            // A sentence of six words and more is a test's name; shorter ones may be fields.
            let is_test = word.split('_').count() >= 6 && !word.starts_with("selfsame_");
            let is_metric = word.starts_with("selfsame_") && word.split('_').count() >= 4;
            let part = ["_bucket", "_count", "_sum"].iter().find_map(|part| word.strip_suffix(part));
            let is_there = match (is_test, is_metric) {
                (true, _) => sources.contains(&format!("fn {word}(")) || sources.contains(&format!("\"{word}\"")),
                (_, true) => {
                    [Some(word), part].into_iter().flatten().any(|name| metrics.contains(&format!("| `{name}`")))
                }
                _ => continue,
            };
            named += 1;
            if !is_there {
                missing.push(format!("{page}: {word}"));
            }
        }
    }
    assert!(missing.is_empty(), "tests and metrics that do not exist: {missing:#?}");
    assert!(named > 200, "only {named} names were found");
}

/// Nullifiers in the answers that pages show have the one spelling that answers have.
#[test]
fn nullifiers_of_the_pages_have_one_spelling() {
    let (mut wrong, mut shown) = (Vec::new(), 0);
    for (page, text) in pages() {
        for name in ["\"nullifier\":\"0x", "\"sub\": \"0x", "\"sub\":\"0x"] {
            for (start, _) in text.match_indices(name) {
                let digits = text[start + name.len()..].split('"').next().unwrap_or_default();
                shown += 1;
                let is_one = digits.len() == 64 && digits.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f'));
                if !is_one && !digits.contains('…') {
                    wrong.push(format!("{page}: 0x{digits}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "nullifiers in another spelling than 0x and 64 digits: {wrong:#?}");
    assert!(shown > 4, "only {shown} nullifiers were found");
}

/// `docs/architecture.md` has a row for each interface, with its folder.
#[test]
fn the_architecture_names_every_interface() {
    let page = read("docs/architecture.md");
    let (_, table) = page.split_once("**Interfaces.**").expect("the table");
    let table = table.split("\n\n**").next().unwrap_or_default();
    let rows: BTreeSet<_> = table.lines().filter_map(|line| line.strip_prefix("| ")?.split(" |").next()).collect();
    let names: BTreeSet<_> = Interface::ALL.into_iter().map(Interface::name).chain(["name"]).collect();
    assert_eq!(rows, names);
}

/// The house plan of `CONTRIBUTING.md` names each folder of the crates.
#[test]
fn the_house_plan_names_every_folder() {
    let page = read("CONTRIBUTING.md");
    let (_, plan) = page.split_once("```text\nsrc/ ").expect("the plan");
    let plan = plan.split("```").next().unwrap_or_default();
    let named: BTreeSet<_> = plan.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    let mut missing = Vec::new();
    for crate_folder in SOURCES {
        for entry in fs::read_dir(root().join(crate_folder)).expect("a folder") {
            let entry = entry.expect("an entry");
            let name = entry.file_name().into_string().expect("text");
            if entry.path().is_dir() && !named.contains(name.as_str()) && name != "tests" {
                missing.push(format!("{crate_folder}/{name}"));
            }
        }
    }
    assert!(missing.is_empty(), "the house plan lacks {missing:#?}");
}

/// A path of a page without the names of its parameters, query and marks: `/block/{}`.
fn plain_path(path: &str) -> String {
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let is_parameter = |part: &str| part.contains(['{', '<']) || ["ID", "HEIGHT"].contains(&part);
    let parts = path.trim_end_matches('/').split('/').map(|part| if is_parameter(part) { "{}" } else { part });
    parts.collect::<Vec<_>>().join("/")
}

/// Routes in backticks, with a method or without, are served by an interface.
#[tokio::test]
async fn routes_that_pages_name_are_served() {
    let client = RegistryClient::start().await;
    let mut routes = BTreeMap::<String, BTreeSet<String>>::new();
    for interface in Interface::ALL {
        let url = format!("http://{}/openapi.json", client.daemon.addresses[interface]);
        let document = client.get(url).await.body;
        for (path, item) in document["paths"].as_object().expect("paths") {
            let methods = item.as_object().expect("a path item").keys().map(|method| method.to_uppercase());
            routes.entry(plain_path(path)).or_default().extend(methods);
        }
    }
    // The page of the web wallet is for people, and in no description.
    for page in web_wallet::PAGES {
        routes.entry(page.to_owned()).or_default().insert("GET".to_owned());
    }
    let (mut unknown, mut named) = (Vec::new(), 0);
    // Between replicas, of a collector of traces, and of a program that mounts the service.
    let of_others = ["GET /alive", "/v1/traces", "/identity"];
    let is_page = |page: &str| {
        let others = ["docs/applications/", "docs/adr/", "tests/README.md", "docs/fault-injection.md"];
        page.starts_with("docs/") && !others.iter().any(|other| page.starts_with(other))
    };
    for (page, text) in pages().into_iter().filter(|(page, _)| is_page(page)) {
        for word in quoted(&text) {
            let (method, path) = match word.split_once(' ') {
                Some((method, path)) if ["GET", "POST", "PUT", "HEAD"].contains(&method) => (Some(method), path),
                None => (None, word),
                Some(_) => continue,
            };
            let is_route = path.len() > 1
                && path.starts_with('/')
                && !path.starts_with("//")
                && !path.contains([' ', '.', '…', '*', ':']);
            let first = path.split('/').nth(1).unwrap_or_default();
            let is_folder =
                ["etc", "usr", "var", "mnt", "opt", "proc", "run", "dev", "home", "tmp", "callback"].contains(&first);
            if !is_route || is_folder || of_others.contains(&word) || path.chars().skip(1).all(|c| c.is_ascii_digit()) {
                continue;
            }
            named += 1;
            let methods =
                routes.get(&plain_path(path)).or_else(|| routes.get(&plain_path(path.strip_prefix("/compat")?)));
            // HEAD is served wherever GET is.
            let is_served = methods.is_some_and(|methods| {
                method.is_none_or(|method| methods.contains(method) || method == "HEAD" && methods.contains("GET"))
            });
            // The beginning of paths, and their ends.
            let plain = plain_path(path);
            let is_served = is_served || web_wallet::PAGES.iter().any(|page| path.starts_with(&format!("{page}?")));
            let is_part = routes.keys().any(|route| route.starts_with(&format!("{plain}/")) || route.ends_with(&plain));
            if !is_served && !is_part {
                unknown.push(format!("{page}: {word}"));
            }
        }
    }
    assert!(unknown.is_empty(), "routes that no interface describes: {unknown:#?}");
    assert!(named > 200, "only {named} routes were found");
}

/// The part of a page from a heading to the next one of its level.
fn part_of<'a>(page: &'a str, heading: &str) -> &'a str {
    let (_, part) = page.split_once(heading).unwrap_or_else(|| panic!("there is no {heading}"));
    part.split("\n## ").next().unwrap_or_default()
}

/// Codes of interfaces whose descriptions do not list them: the page, with the sources that make
/// them.
const CODES: [(&str, &[&str]); 3] = [
    ("docs/interfaces/sign-in.md", &["protocol/src/sign_in/response.rs"]),
    (
        "docs/interfaces/verification-errors.md",
        &[
            "protocol/src/verification/directory.rs",
            "protocol/src/verification/items.rs",
            "actors/src/verification/refusals.rs",
            "interfaces/src/verification/error.rs",
        ],
    ),
    ("docs/interfaces/operator.md", &["interfaces/src/operator/mod.rs"]),
];

#[test]
fn codes_that_sources_make_are_on_the_page() {
    // The statuses of a relying party are words of the same form.
    let statuses = read("docs/interfaces/relying-parties.md");
    for (page, sources) in CODES {
        let text = read(page);
        let part = part_of(&text, "\n## Errors");
        let mut made = 0;
        for source in sources {
            let text = read(source);
            let text = text.split("#[cfg(test)]").next().unwrap_or_default();
            for (start, _) in text.match_indices('"') {
                let word = text[start + 1..].split('"').next().unwrap_or_default();
                let before = text[..start].lines().next_back().unwrap_or_default();
                let is_code = word.len() > 4 && word.chars().all(|c| c.is_ascii_lowercase() || c == '_');
                let is_status = before.ends_with(", ") && before.contains("StatusCode::");
                if is_code && (before.ends_with("=> ") || is_status || before.ends_with("body(")) {
                    made += 1;
                    let is_named = part.contains(&format!("`{word}`")) || statuses.contains(&format!("`{word}`"));
                    assert!(is_named, "{page} lacks {word} ({source})");
                }
            }
        }
        assert!(made > 5, "{page}: only {made} codes were found");
    }
}
