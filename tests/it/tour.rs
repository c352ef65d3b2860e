//! `docs/tour.md`: its commands, run in order in one shell, give the answers that the page shows.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};

use crate::harness::{PATIENCE, folder};

const PAGE: &str = include_str!("../../docs/tour.md");

/// The line that the shell prints behind the output of a command.
const END: &str = "-- end of the output --";

/// A command of the page, and the lines that the page shows behind it.
struct Step {
    command: &'static str,
    shown: Vec<&'static str>,
}

/// The commands of the blocks that begin with `sh`; each has a line that begins with `$ `.
fn steps() -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut is_inside = false;
    for line in PAGE.lines() {
        match line {
            "```sh" => is_inside = true,
            "```" => is_inside = false,
            _ if !is_inside => {}
            _ => match line.strip_prefix("$ ") {
                Some(command) => steps.push(Step { command, shown: Vec::new() }),
                None => steps.last_mut().expect("a command is before its answer").shown.push(line),
            },
        }
    }
    steps
}

/// A part of a line: a text that is the same in each run, a time or duration, or an identifier,
/// which another run has another one of.
#[derive(Debug, PartialEq, Eq)]
enum Part<'a> {
    Text(&'a str),
    Time,
    Id(&'a str),
}

fn parts(line: &str) -> Vec<Part<'_>> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || "_-.:".contains(c);
    let mut parts = Vec::new();
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let length = rest.find(|c| is_word(c) != is_word(first)).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(length);
        rest = behind;
        match kind_of(word) {
            // A time behind a colon, as in JSON.
            Part::Text(text) if text.starts_with(':') && kind_of(&text[1..]) == Part::Time => {
                parts.extend([Part::Text(":"), Part::Time]);
            }
            part => parts.push(part),
        }
    }
    parts
}

fn kind_of(word: &str) -> Part<'_> {
    let digits = word.strip_prefix("0x").or_else(|| word.strip_prefix("gw_")).unwrap_or(word);
    let is_hex = digits.len() >= 16 && digits.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    // A code or token: 32 bytes in base64url.
    let is_base64 = word.len() == 43 && word.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
    let is_date = word.len() >= 20 && word.ends_with('Z') && word[..10].split('-').count() == 3;
    let is_unix_time = word.len() == 10 && word.chars().all(|c| c.is_ascii_digit());
    let number = word.trim_end_matches(char::is_alphabetic);
    let is_duration = number.parse::<f64>().is_ok() && ["ms", "s", "us"].contains(&&word[number.len()..]);
    match word {
        _ if is_date || is_unix_time || is_duration => Part::Time,
        _ if is_hex || is_base64 => Part::Id(word),
        _ => Part::Text(word),
    }
}

/// The identifiers of the page with those of this run, one for one.
#[derive(Default)]
struct Identifiers {
    of_run: BTreeMap<String, String>,
    of_page: BTreeMap<String, String>,
}

impl Identifiers {
    /// Compares a line of the page with that of the run, and notes the identifiers that are new.
    fn compare(&mut self, shown: &str, answered: &str) -> Result<(), String> {
        let (shown_parts, answered_parts) = (parts(shown), parts(answered));
        let mut is_same = shown_parts.len() == answered_parts.len();
        for (shown, answered) in std::iter::zip(shown_parts, answered_parts) {
            is_same &= match (shown, answered) {
                (Part::Id(shown), Part::Id(answered)) => {
                    let of_run = self.of_run.entry(shown.to_owned()).or_insert_with(|| answered.to_owned());
                    let of_page = self.of_page.entry(answered.to_owned()).or_insert_with(|| shown.to_owned());
                    of_run == answered && of_page == shown
                }
                (shown, answered) => shown == answered,
            };
        }
        if is_same { Ok(()) } else { Err(format!("the page shows\n  {shown}\nand the answer is\n  {answered}")) }
    }

    /// A command of the page, with the identifiers of this run.
    fn in_command(&self, command: &str) -> String {
        let mut text = command.to_owned();
        for part in parts(command) {
            if let Part::Id(id) = part {
                let of_run = self.of_run.get(id).unwrap_or_else(|| panic!("{id} is in no answer before: {command}"));
                text = text.replace(id, of_run);
            }
        }
        text
    }
}

/// A shell in a folder of its own, in which the program has an address of its own. The processes
/// that it started end with it.
struct Shell {
    process: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    host: String,
}

impl Shell {
    fn start(folder: &Path) -> Self {
        // The ports are those of the page, at a loopback address that no other process uses.
        let [.., high, low] = std::process::id().to_be_bytes();
        let host = format!("127.77.{high}.{low}");
        let program = Path::new(env!("CARGO_BIN_EXE_selfsame")).parent().expect("a folder");
        let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
        let mut command = Command::new("bash");
        command.current_dir(folder).env("PATH", path).env("no_proxy", "*");
        let listeners = [
            ("SIGN_IN", 8080),
            ("VERIFY", 8081),
            ("GATEWAY", 8082),
            ("INDEXER", 8083),
            ("OPERATOR", 8084),
            ("BRIDGE", 8085),
            ("WALLET", 8086),
        ];
        for (interface, port) in listeners {
            command.env(format!("SELFSAME_LISTEN__{interface}"), format!("{host}:{port}"));
            command.env(format!("WALLET_{interface}"), format!("http://{host}:{port}"));
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut process = command.spawn().expect("bash starts");
        let output = process.stdout.take().expect("its output");
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let mut input = process.stdin.take().expect("its input");
        writeln!(input, "exec 2>&1").expect("bash reads");
        Self { process, input, lines, host }
    }

    /// Runs a command; returns the lines that it prints.
    fn run(&mut self, command: &str) -> Vec<String> {
        let command_here = command.replace("127.0.0.1", &self.host);
        // The output of a command need not end with the end of a line.
        writeln!(self.input, "{command_here}\nprintf '\\n%s\\n' '{END}'").expect("bash reads");
        let mut printed = Vec::new();
        loop {
            let line = self.lines.recv_timeout(PATIENCE);
            match line.unwrap_or_else(|error| panic!("{error}; `{command}` printed {printed:#?}")) {
                line if line == END => break,
                line => printed.push(line.replace(&self.host, "127.0.0.1")),
            }
        }
        printed.pop_if(|last| last.is_empty());
        printed
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let group = format!("-{}", self.process.id());
        let _ = Command::new("kill").args(["-9", "--", &group]).status();
        let _ = self.process.wait();
    }
}

#[test]
fn the_commands_of_the_tour_give_the_answers_that_it_shows() {
    let folder = folder();
    let mut shell = Shell::start(folder.path());
    let mut identifiers = Identifiers::default();
    let mut compared = 0;
    for Step { command, shown } in steps() {
        let printed = shell.run(&identifiers.in_command(command));
        assert_eq!(printed.len(), shown.len(), "`{command}` printed {printed:#?}; the page shows {shown:#?}");
        for (shown, answered) in std::iter::zip(shown, printed) {
            identifiers.compare(shown, &answered).unwrap_or_else(|error| panic!("`{command}`: {error}"));
            compared += 1;
        }
    }
    assert!(compared > 40, "only {compared} lines were compared");
}

/// What a wrong page would be: another text, a time in place of a text, an identifier that is
/// another one than before.
#[test]
fn a_line_that_differs_in_more_than_identifiers_and_times_is_found() {
    let (one, two) = ("0x956ce688f33b7271848e4d57bcab631ce16dab87", "0x11d146011216ba31b32ac67908b1ef6f0c92f473");
    let mut identifiers = Identifiers::default();
    let mut is_same = |shown: &str, answered: &str| identifiers.compare(shown, answered).is_ok();
    assert!(is_same(&format!("address {one}"), &format!("address {two}")));
    assert!(is_same(&format!("slot 0: {one} (this wallet)"), &format!("slot 0: {two} (this wallet)")));
    assert!(!is_same(&format!("slot 1: {one} (this wallet)"), &format!("slot 0: {two} (this wallet)")));
    assert!(!is_same(&format!("address {two}"), &format!("address {two}")));
    assert!(is_same("final after 18ms", "final after 1.2s") && !is_same("final after 18ms", "final"));
    assert!(is_same(r#""timestamp":1795258238}"#, r#""timestamp":1782864000}"#));
    assert!(is_same("begun 2026-11-21T13:44:12Z", "begun 2026-07-01T00:00:00.5Z"));
    assert!(!is_same(r#"{"height":3}"#, r#"{"height":4}"#));
}
