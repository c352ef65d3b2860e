//! The house plan, read from the sources: which crate may use which, and that inside a crate no
//! file imports upwards or in a circle (`docs/architecture.md`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use clap::CommandFactory;

/// The longest line of a comment, in characters.
const COMMENT_WIDTH: usize = 100;

/// The sources of each crate, and what each must not name.
const CRATES: [(&str, &[&str]); 5] = [
    ("protocol/src", &["selfsame_storage", "selfsame_actors", "rocksdb", "ractor", "tokio", "hyper"]),
    ("storage/src", &["selfsame_actors", "ractor", "hyper"]),
    ("actors/src", &["rocksdb", "hyper"]),
    ("src", &["rocksdb", "ractor"]),
    ("wallet/src", &["selfsame_storage", "selfsame_actors", "rocksdb", "ractor"]),
];

/// For each crate its rooms, from the lowest to the highest: a room imports only rooms before it.
/// Rooms on one line do not import each other.
const ROOMS: [(&str, &[&[&str]]); 3] = [
    (
        "storage/src",
        &[
            &["sync"],
            &["schema", "journal"],
            &["error", "histogram"],
            &["faults", "log_check", "progress", "reached", "recent", "resources", "room", "scratch"],
            &["database"],
            &["facts", "recorded", "sealed_head", "upper_pages"],
            &["migration"],
            &["store"],
            &["healing", "replica"],
            &["group_commit"],
            &["ledger"],
            &[
                "applied_blocks",
                "embedded_ledger",
                "snapshot",
                "records",
                "requests",
                "verification",
                "chain",
                "backup",
                "info",
                "membership",
                "events",
            ],
            &["fsck", "rebuild"],
        ],
    ),
    (
        "actors/src",
        &[
            &["sync"],
            &["clock", "support"],
            &["bridge", "key_cipher", "chain"],
            &["registry"],
            &["events"],
            &["verification"],
            &["sign_in"],
            &["supervision"],
            &["simulation"],
        ],
    ),
    (
        "src",
        &[
            &["durable_fs"],
            &["secret_file"],
            &["pem"],
            &["build", "interface", "logging", "progress", "service_manager", "tls_roots", "trace_context"],
            &["http", "chain", "stop_signal"],
            &["config", "openapi"],
            &["health", "height"],
            &["backup", "traces", "webhooks"],
            &["cluster"],
            &["chains", "operator_client", "bridge", "gateway", "indexer", "sign_in", "verification", "operator"],
            &["prepared", "public_interfaces", "reloading"],
            &["mounting", "servers"],
            &["daemon", "cli"],
            &["commands"],
        ],
    ),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All files below a folder with this extension, in order.
fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            let is_built = ["node_modules", "target"].iter().any(|name| path.ends_with(name));
            found.extend(if is_built { Vec::new() } else { files(&path, extension) });
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// A crate's product sources as modules: the module's path, and its text without comments and unit
/// tests.
fn modules(sources: &str) -> BTreeMap<Vec<String>, String> {
    let folder = root().join(sources);
    let mut modules = BTreeMap::new();
    for file in files(&folder, "rs") {
        let relative = file.strip_prefix(&folder).expect("below the folder").with_extension("");
        let mut path: Vec<String> =
            relative.iter().map(|part| part.to_str().expect("a module's name").to_owned()).collect();
        let is_test = path.iter().any(|part| ["tests", "published_types"].contains(&part.as_str()));
        if is_test || path == ["main"] {
            continue;
        }
        if ["mod", "lib"].contains(&path.last().expect("a name").as_str()) {
            path.pop();
        }
        modules.insert(path, product_code(&fs::read_to_string(&file).expect("a source")));
    }
    modules
}

/// The text without the unit tests at its end and without comments.
fn product_code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// A path that a module names, from the crate's root. `is_exported` tells a `pub use`, which only
/// hands a name on.
struct Named {
    path: Vec<String>,
    is_exported: bool,
}

/// The paths into its own crate that a module names, in `use` declarations and elsewhere.
fn named_paths(module: &[String], code: &str) -> Vec<Named> {
    let mut named = Vec::new();
    for (start, _) in code.match_indices("::") {
        // The first part of a path is before the first `::`.
        let before = &code[..start];
        let first = before.rfind(|c: char| !c.is_alphanumeric() && c != '_').map_or(0, |index| index + 1);
        let anchor = &before[first..];
        let base = match anchor {
            "crate" => Vec::new(),
            "self" => module.to_vec(),
            "super" if !before[..first].ends_with("::") => module[..module.len().saturating_sub(1)].to_vec(),
            _ => continue,
        };
        let declaration = before[..first].rsplit([';', '}']).next().unwrap_or_default().trim();
        let is_exported = declaration.starts_with("pub") && declaration.ends_with("use");
        let ends = expand(&code[start + 2..]);
        named.extend(ends.into_iter().map(|end| Named { path: [base.clone(), end].concat(), is_exported }));
    }
    named
}

/// The paths at the beginning of a text: `a::{b, c::d}` gives `a::b` and `a::c::d`.
fn expand(text: &str) -> Vec<Vec<String>> {
    let text = text.trim_start();
    if let Some(list) = text.strip_prefix('{') {
        let mut paths = Vec::new();
        let mut depth = 0;
        let mut start = 0;
        for (index, character) in list.char_indices() {
            match character {
                '{' => depth += 1,
                '}' if depth > 0 => depth -= 1,
                ',' | '}' if depth == 0 => {
                    paths.extend(expand(&list[start..index]));
                    start = index + 1;
                    if character == '}' {
                        break;
                    }
                }
                _ => {}
            }
        }
        return paths;
    }
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    if name.is_empty() {
        return Vec::new();
    }
    match rest.strip_prefix("::") {
        Some(rest) => {
            let ends = expand(rest);
            let ends = if ends.is_empty() { vec![Vec::new()] } else { ends };
            ends.into_iter().map(|end| [vec![name.to_owned()], end].concat()).collect()
        }
        None => vec![vec![name.to_owned()]],
    }
}

/// Which module imports which. A name that a `mod.rs` hands on counts as the module that defines
/// it.
fn imports(modules: &BTreeMap<Vec<String>, String>) -> BTreeMap<&[String], BTreeSet<&[String]>> {
    let module_of = |path: &[String]| -> Option<&[String]> {
        (0..=path.len()).rev().find_map(|length| modules.get_key_value(&path[..length]).map(|(key, _)| key.as_slice()))
    };
    let named: BTreeMap<&[String], Vec<Named>> =
        modules.iter().map(|(module, code)| (module.as_slice(), named_paths(module, code))).collect();
    // The defining module of each name that a module hands on, by the name's path.
    let mut handed_on: BTreeMap<Vec<String>, &[String]> = BTreeMap::new();
    for (module, code) in modules {
        for line in code.split(';').filter(|line| line.trim_start().starts_with("pub use ")) {
            let text = line.trim_start().trim_start_matches("pub use ");
            for path in expand(text) {
                let from_child = [module.clone(), path.clone()].concat();
                let Some(definer) = module_of(&from_child).filter(|found| found.len() > module.len()) else { continue };
                let name = path.last().expect("a name").clone();
                handed_on.insert([module.clone(), vec![name]].concat(), definer);
            }
        }
    }
    let mut imports: BTreeMap<&[String], BTreeSet<&[String]>> = BTreeMap::new();
    for (module, named) in &named {
        for Named { path, is_exported } in named {
            let prefix = (1..=path.len()).rev().find_map(|length| handed_on.get(&path[..length]).copied());
            let Some(target) = prefix.or_else(|| module_of(path)) else { continue };
            if target != *module && !is_exported && !target.is_empty() {
                imports.entry(module).or_default().insert(target);
            }
        }
    }
    imports
}

/// A circle of imports, if there is one.
fn circle<'a>(imports: &BTreeMap<&'a [String], BTreeSet<&'a [String]>>) -> Option<Vec<String>> {
    fn visit<'a>(
        module: &'a [String],
        imports: &BTreeMap<&'a [String], BTreeSet<&'a [String]>>,
        way: &mut Vec<&'a [String]>,
        done: &mut BTreeSet<&'a [String]>,
    ) -> Option<Vec<String>> {
        if let Some(start) = way.iter().position(|before| *before == module) {
            return Some(way[start..].iter().map(|module| module.join("::")).collect());
        }
        if !done.insert(module) {
            return None;
        }
        way.push(module);
        let found = imports.get(module).into_iter().flatten().find_map(|next| visit(next, imports, way, done));
        way.pop();
        found
    }
    let mut done = BTreeSet::new();
    imports.keys().find_map(|module| visit(module, imports, &mut Vec::new(), &mut done))
}

#[test]
fn crates_name_only_what_is_below_them() {
    for (sources, refused) in CRATES {
        for (module, code) in modules(sources) {
            for name in refused {
                let names = code.match_indices(name).any(|(start, _)| code[start + name.len()..].starts_with("::"));
                assert!(!names, "{sources}: {} names {name}", module.join("::"));
            }
        }
    }
}

#[test]
fn no_file_imports_in_a_circle() {
    for (sources, _) in CRATES {
        let modules = modules(sources);
        let imports = imports(&modules);
        assert!(imports.len() > 5, "{sources}: only {} files import others of their crate", imports.len());
        assert_eq!(circle(&imports), None, "{sources}: files import each other");
    }
}

#[test]
fn rooms_import_only_lower_rooms() {
    for (sources, rooms) in ROOMS {
        let modules = modules(sources);
        let floor = |module: &[String]| {
            let room = module.first()?;
            rooms.iter().position(|floor| floor.contains(&room.as_str()))
        };
        for (module, targets) in imports(&modules) {
            let Some(own) = floor(module) else {
                assert!(module.is_empty() || module == ["faults"], "{sources}: {} has no room", module.join("::"));
                continue;
            };
            for target in targets {
                let is_lower = target.first() == module.first() || floor(target).is_none_or(|other| other < own);
                assert!(is_lower, "{sources}: {} imports {}", module.join("::"), target.join("::"));
            }
        }
    }
}

#[test]
fn comments_wrap_at_a_hundred_characters() {
    let folders = ["protocol", "storage", "actors", "src", "wallet", "tests", "benches", "examples"];
    let mut long = Vec::new();
    for file in folders.iter().flat_map(|folder| files(&root().join(folder), "rs")) {
        for (index, line) in fs::read_to_string(&file).expect("a source").lines().enumerate() {
            let text = line.trim_start();
            // A table's row and an address cannot be wrapped.
            let is_wrappable = text.starts_with("//") && !text.contains("| ") && !text.contains("://");
            if is_wrappable && line.chars().count() > COMMENT_WIDTH {
                long.push(format!("{}:{}", file.display(), index + 1));
            }
        }
    }
    assert!(long.is_empty(), "comments of more than {COMMENT_WIDTH} characters: {long:#?}");
}

/// The test code that pauses or measures time, each file with its reason. Everywhere else a test
/// waits for what has to happen, with the harness's functions for it.
const TIMED_TESTS: [(&str, &str); 32] = [
    ("actors/src/simulation/tests/cluster.rs", "simulated time"),
    ("actors/src/simulation/tests/mod.rs", "simulated time"),
    ("actors/src/simulation/tests/public.rs", "simulated time"),
    ("actors/src/simulation/tests/sign_in.rs", "simulated time"),
    ("actors/src/supervision/tests/children.rs", "the pause before a restart is not shorter than it has to be"),
    ("actors/tests/supervision/following.rs", "polls a record that has no signal"),
    ("actors/tests/supervision/main.rs", "the function with which these tests poll"),
    ("actors/tests/supervision/stuck.rs", "when an actor counts as stuck"),
    ("src/cluster/tests.rs", "elections and leases, which etcd's clock ends"),
    ("src/cluster/tests/members.rs", "polls a member of etcd that starts"),
    ("src/cluster/tests/services.rs", "polls services that stand for election"),
    ("src/http/tests/patience.rs", "simulated time"),
    ("tests/embedder/tests/embedder/main.rs", "the function with which these tests poll"),
    ("tests/embedder/tests/embedder/supervisor.rs", "polls whether a service has ended, which has no signal"),
    ("tests/it/cluster/disturbances.rs", "how long a disturbance lasts: shorter and longer than a lease"),
    ("tests/it/cluster/proxy.rs", "a line that is slow"),
    ("tests/it/cluster/torture.rs", "clients pause after a refusal; the times of a failover are printed"),
    ("tests/it/cluster/upgrading.rs", "the interval of a load balancer's questions"),
    ("tests/it/harness.rs", "the functions with which tests wait"),
    ("tests/it/hostile_http/http2.rs", "clients that send a little at a time"),
    ("tests/it/hostile_http/slow_clients.rs", "clients that send a little at a time"),
    ("tests/it/outage.rs", "prints times; asserts nothing about them"),
    ("tests/it/overload.rs", "prints times; asserts nothing about them"),
    ("tests/it/overload/load_clients.rs", "prints times; asserts nothing about them"),
    ("tests/it/overload/memory.rs", "samples of a process's memory"),
    ("tests/it/torture.rs", "prints how long a run took"),
    ("tests/it/torture/context.rs", "answers of a cluster that may be stale for a while"),
    ("tests/it/torture/sign_in.rs", "sign-ins that may have expired are not checked"),
    ("tests/monitoring/test_monitoring.py", "polls the programs that it starts"),
    ("tests/proxies/machine.mjs", "polls a machine that starts, and ends it"),
    ("tests/proxies/proxies.mjs", "polls a proxy that starts"),
    ("tests/proxies/proxies.test.mjs", "an answer that takes longer than a proxy's time limit"),
];

/// A test that pauses for something, or says how long something may take, fails on a busy machine.
#[test]
fn only_tests_with_a_reason_pause_or_measure_time() {
    let mut timed = BTreeSet::new();
    let words: [(&str, &[&str]); 3] = [
        ("rs", &["sleep(", "sleep_until(", "interval(", ".elapsed()"]),
        ("py", &["sleep(", "monotonic()"]),
        ("mjs", &["setTimeout(", "sleep("]),
    ];
    for (extension, words) in words {
        let folders = ["protocol", "storage", "actors", "src", "wallet", "tests"];
        for file in folders.iter().flat_map(|folder| files(&root().join(folder), extension)) {
            let path = file.strip_prefix(root()).expect("below the root").to_str().expect("text").to_owned();
            let text = fs::read_to_string(&file).expect("a source");
            let is_test = path.split('/').any(|part| part == "tests" || part == "tests.rs");
            let tests =
                if is_test { Some(text.as_str()) } else { text.split_once("\nmod tests {").map(|(_, tests)| tests) };
            // A longer name ends with a word, and a text begins with one.
            let is_named = |(start, word): (usize, &str), tests: &str| {
                let before = tests[..start].chars().next_back();
                word.starts_with('.') || before.is_none_or(|c| !c.is_alphanumeric() && c != '_' && c != '"')
            };
            let names = |tests: &str| words.iter().any(|word| tests.match_indices(word).any(|at| is_named(at, tests)));
            if tests.is_some_and(names) {
                timed.insert(path);
            }
        }
    }
    let this = BTreeSet::from(["tests/it/structure.rs".to_owned()]);
    let listed: BTreeSet<String> = TIMED_TESTS.iter().map(|(path, _)| (*path).to_owned()).collect();
    let timed = &timed - &this;
    let (unlisted, stale) = (&timed - &listed, &listed - &timed);
    assert!(unlisted.is_empty(), "tests that pause or measure time without a reason: {unlisted:#?}");
    assert!(stale.is_empty(), "tests that need no reason any more: {stale:#?}");
    assert!(TIMED_TESTS.is_sorted() && TIMED_TESTS.iter().all(|(_, reason)| reason.len() > 10));
}

/// The tests of `tests/it/failed_seeds.txt` exist: a seed of another name would never be played.
#[test]
fn tests_whose_seeds_are_kept_exist() {
    let sources: String = files(&root().join("tests/it"), "rs").iter().flat_map(fs::read_to_string).collect();
    for (test, seed) in crate::harness::failed_seeds() {
        let (suite, name) = test.split_once("::").expect("a suite and a test");
        let asks = format!("\"{suite}\", \"{name}\"");
        let is_asked = sources.contains(&format!("seeds({asks})")) || sources.contains(&format!("(\"{name}\""));
        assert!(is_asked, "no test asks for seed {seed} of {test}");
    }
}

/// `docs/guarantees.md` and its neighbours name tests as `name` in `path`; each must be there.
#[test]
fn tests_that_the_documents_name_exist() {
    let mut named = 0;
    for page in files(&root().join("docs"), "md") {
        let text = fs::read_to_string(&page).expect("a page");
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for (start, _) in text.match_indices("` in `") {
            let test = text[..start].rsplit('`').next().unwrap_or_default();
            let path = text[start + "` in `".len()..].split('`').next().unwrap_or_default();
            let is_reference = path.ends_with(".rs") && test.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            if !is_reference {
                continue;
            }
            let source = fs::read_to_string(root().join(path))
                .unwrap_or_else(|error| panic!("{}: {path}: {error}", page.display()));
            assert!(source.contains(&format!("fn {test}(")), "{}: {path} has no {test}", page.display());
            named += 1;
        }
    }
    assert!(named > 30, "only {named} references were found");
}

/// Texts of the program and of the documents name commands as `selfsame …`; the command line has
/// each of them, with its options.
#[test]
fn commands_that_texts_name_exist() {
    let folders = ["src", "actors/src", "storage/src", "protocol/src", "wallet/src"];
    let sources = folders.iter().flat_map(|folder| files(&root().join(folder), "rs"));
    let (mut unknown, mut named) = (Vec::new(), 0);
    for file in sources.chain(files(&root().join("docs"), "md")) {
        let text = fs::read_to_string(&file).expect("a file");
        // The lines of a comment, and those of a string that goes on after a backslash, are one.
        let lines = text.lines().map(|line| line.trim().trim_start_matches(['/', '!']).trim_end_matches('\\').trim());
        let text = lines.collect::<Vec<_>>().join(" ");
        for (start, _) in text.match_indices("`selfsame ") {
            let words = text[start + "`selfsame ".len()..].split('`').next().unwrap_or_default();
            // What signatures of heads, and of calls of the operator interface, begin with.
            if ["registry head", "operator 1 call"].contains(&words) {
                continue;
            }
            named += 1;
            if let Err(word) = check_command(words) {
                unknown.push(format!("{}: `selfsame {words}`: {word}", file.display()));
            }
        }
    }
    assert!(unknown.is_empty(), "commands that do not exist: {unknown:#?}");
    assert!(named > 100, "only {named} commands were found");
}

/// Checks that a command has these words and options; returns the one that it lacks.
fn check_command(words: &str) -> Result<(), String> {
    let mut command = &selfsame::cli::Arguments::command();
    // Some options of a command are those of its subcommands, too.
    let mut path = vec![command];
    for word in words.split_whitespace() {
        if let Some(option) = word.strip_prefix("--") {
            let name = option.split('=').next().unwrap_or_default().trim_end_matches([',', '.', ']']);
            let mut known = path.iter().flat_map(|command| command.get_arguments());
            let is_known = known.any(|argument| argument.get_long() == Some(name));
            if !is_known && !["help", "version", ""].contains(&name) {
                return Err(word.to_owned());
            }
        } else if command.has_subcommands() && word.starts_with(|c: char| c.is_ascii_lowercase()) {
            command = command.find_subcommand(word).ok_or_else(|| word.to_owned())?;
            path.push(command);
        }
    }
    Ok(())
}

/// Links between the documents lead to files that exist, and to headings that these have.
#[test]
fn links_of_the_documents_lead_somewhere() {
    let mut pages = files(&root().join("docs"), "md");
    pages.extend(
        ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "tests/README.md"]
            .map(|page| root().join(page)),
    );
    let (mut broken, mut links) = (Vec::new(), 0);
    for page in &pages {
        let text = fs::read_to_string(page).expect("a page");
        for (start, _) in text.match_indices("](") {
            let link = text[start + 2..].split(')').next().unwrap_or_default();
            if link.is_empty() || link.contains([' ', '\n']) || link.starts_with("http") {
                continue;
            }
            links += 1;
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let folder = page.parent().expect("a page is in a folder");
            let target = if file.is_empty() { page.clone() } else { folder.join(file) };
            let leads_there = match heading {
                "" => target.exists(),
                _ => fs::read_to_string(&target).is_ok_and(|text| anchors(&text).any(|anchor| anchor == heading)),
            };
            if !leads_there {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "links that lead nowhere: {broken:#?}");
    assert!(links > 150, "only {links} links were found");
}

/// The names under which the headings of a page are linked: lower case, with `-` for each space and
/// without other punctuation.
fn anchors(page: &str) -> impl Iterator<Item = String> {
    page.lines().filter(|line| line.starts_with('#')).map(|line| {
        let heading = line.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    })
}

/// `CONTRIBUTING.md`, `docs/architecture.md` and `tests/README.md` name files by their path from
/// the root; each must be there.
#[test]
fn files_that_the_guides_name_exist() {
    for page in ["CONTRIBUTING.md", "docs/architecture.md", "tests/README.md"] {
        let text = fs::read_to_string(root().join(page)).expect("a page");
        let paths: Vec<_> = text.split('`').filter(|word| is_path(word)).collect();
        assert!(paths.len() > 10, "{page}: {paths:?}");
        for path in paths {
            assert!(root().join(path).exists(), "{page} names {path}, which does not exist");
        }
    }
}

/// Whether a word is the path of a source: it begins with a folder of the workspace and has no
/// placeholder.
fn is_path(word: &str) -> bool {
    let folders = ["protocol/", "storage/", "actors/", "src/", "wallet/", "tests/", "benches/", "config/", "scripts/"];
    folders.iter().any(|folder| word.starts_with(folder)) && !word.contains(['<', '*', ' ', '…', ':', '{'])
}
