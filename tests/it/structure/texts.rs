//! What the texts of the repository say: comments keep their width, tests that pause have a reason,
//! and tests, commands, links and files that documents name are there.

use std::collections::BTreeSet;
use std::fs;

use clap::CommandFactory;

use super::{files, root};

/// The longest line of a comment, in characters.
const COMMENT_WIDTH: usize = 100;

#[test]
fn comments_wrap_at_a_hundred_characters() {
    let folders = [
        "protocol",
        "storage",
        "actors",
        "interfaces",
        "cluster",
        "src",
        "wallet",
        "web-wallet",
        "tests",
        "benches",
        "examples",
    ];
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
const TIMED_TESTS: [(&str, &str); 42] = [
    ("actors/src/chain/tests/looks.rs", "simulated time"),
    ("actors/src/simulation/tests/cluster.rs", "simulated time"),
    ("actors/src/simulation/tests/mod.rs", "simulated time"),
    ("actors/src/simulation/tests/public.rs", "simulated time"),
    ("actors/src/simulation/tests/sign_in.rs", "simulated time"),
    ("actors/src/supervision/tests/children.rs", "the pause before a restart is not shorter than it has to be"),
    ("actors/src/verification/integrity/tests.rs", "simulated time"),
    ("actors/tests/supervision/following.rs", "polls a record that has no signal"),
    ("actors/tests/supervision/groups.rs", "tries again what an injected fault refused; a child waits to be killed"),
    ("actors/tests/supervision/main.rs", "the function with which these tests poll"),
    ("actors/tests/supervision/stuck.rs", "when an actor counts as stuck"),
    ("cluster/src/tests.rs", "elections and leases, which etcd's clock ends"),
    ("cluster/src/tests/members.rs", "polls a member of etcd that starts"),
    ("cluster/src/tests/services.rs", "polls services that stand for election"),
    ("interfaces/src/http/tests/patience.rs", "simulated time"),
    ("tests/embedder/tests/embedder/main.rs", "the function with which these tests poll"),
    ("tests/embedder/tests/embedder/supervisor.rs", "polls whether a service has ended, which has no signal"),
    ("tests/it/cluster/disturbances.rs", "how long a disturbance lasts: shorter and longer than a lease"),
    ("tests/it/cluster/proxy.rs", "a line that is slow"),
    ("tests/it/cluster/torture.rs", "clients pause after a refusal; the times of a failover are printed"),
    ("tests/it/cluster/upgrading.rs", "the interval of a load balancer's questions"),
    ("tests/it/disk/steps.rs", "errors that last two seconds; pauses between starts"),
    ("tests/it/harness.rs", "the functions with which tests wait"),
    ("tests/it/hostile_http/framing.rs", "whether a request took longer than the daemon waits for it"),
    ("tests/it/hostile_http/http2.rs", "clients that send a little at a time"),
    ("tests/it/hostile_http/slow_clients.rs", "clients that send a little at a time"),
    ("tests/it/integrity_mutations.rs", "prints times; asserts nothing about them"),
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
    ("tests/relying_parties/node/browser.mjs", "ends the wait for a context that Chromium does not dispose of"),
    ("tests/web-wallet/drivers.mjs", "polls browsers that start, and pages in them, through a driver without signals"),
    ("tests/web-wallet/service.mjs", "polls a daemon that starts"),
    ("tests/web-wallet/walks.mjs", "polls a page across navigations"),
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
        let folders = ["protocol", "storage", "actors", "interfaces", "cluster", "src", "wallet", "tests"];
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
    let this = BTreeSet::from(["tests/it/structure/texts.rs".to_owned()]);
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
    let folders = ["src", "interfaces/src", "cluster/src", "actors/src", "storage/src", "protocol/src", "wallet/src"];
    let sources = folders.iter().flat_map(|folder| files(&root().join(folder), "rs"));
    let (mut unknown, mut named) = (Vec::new(), 0);
    for file in sources.chain(files(&root().join("docs"), "md")) {
        let text = fs::read_to_string(&file).expect("a file");
        // The lines of a comment, and those of a string that goes on after a backslash, are one.
        let lines = text.lines().map(|line| line.trim().trim_start_matches(['/', '!']).trim_end_matches('\\').trim());
        let text = lines.collect::<Vec<_>>().join(" ");
        for (start, _) in text.match_indices("`selfsame ") {
            let words = text[start + "`selfsame ".len()..].split('`').next().unwrap_or_default();
            // What signatures of heads and of calls of the operator interface begin with, and what
            // the number of a simulated person is derived with.
            if ["registry head", "operator 1 call", "simulated person"].contains(&words) {
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
    let folders = [
        "protocol/",
        "storage/",
        "actors/",
        "interfaces/",
        "cluster/",
        "src/",
        "wallet/",
        "tests/",
        "benches/",
        "config/",
        "scripts/",
    ];
    folders.iter().any(|folder| word.starts_with(folder)) && !word.contains(['<', '*', ' ', '…', ':', '{'])
}
