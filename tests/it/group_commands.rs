//! The operator's side of groups: `selfsame group …` with its files, the calls that it makes, and
//! the token of programs that only invite.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use selfsame_protocol::groups::codes::Code;
use selfsame_protocol::groups::wire::GroupResponse;
use selfsame_wallet::member::Member;
use serde_json::{Value, json};

use crate::harness::{DaemonProcess, Folder, folder, operator_token, run_for_status, run_with};
use crate::logs::lines;

/// A daemon with a group, in a process of its own.
struct GroupDaemon {
    process: DaemonProcess,
    folder: Folder,
    http: reqwest::Client,
}

const TOKEN: &str = "a-token-that-only-invites";

impl GroupDaemon {
    fn start() -> Self {
        let folder = folder();
        let file = folder.path().join("selfsame.toml");
        let hash = selfsame::config::SecretHash::of([7; 16], TOKEN).to_text();
        let text = format!(
            "operator.invitation_token_hash = '{hash}'\n\
             [[groups]]\nid = 'members'\nname = 'Members of the cooperative'\nenvironment = 'staging'\n"
        );
        std::fs::write(&file, text).expect("written");
        let log = std::fs::File::create(folder.path().join("log")).expect("a file");
        let arguments = ["--config", file.to_str().expect("text")];
        let process = DaemonProcess::start_with_log(&folder.path().join("data"), &arguments, &[], log.into());
        let http = reqwest::Client::builder().no_proxy().build().expect("a client");
        Self { process, folder, http }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs a command that calls the daemon; its exit status and output.
    fn run(&self, command: &[&str]) -> (i32, String) {
        let data = self.path("data");
        let command = [&["group"], command, &["--data", data.to_str().expect("text")]].concat();
        let (status, text) = run_for_status(&command, &[]);
        (status.code().expect("an exit status"), text)
    }

    fn run_json(&self, command: &[&str]) -> Value {
        let (status, text) = self.run(&[command, &["--json"]].concat());
        assert_eq!(status, 0, "{text}");
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// Invites by a list; the exit status, the output, and the text of the links.
    fn invite(&self, list: &str, links: &str, more: &[&str]) -> (i32, String, Option<String>) {
        let (from, out) = (self.path("members.csv"), self.path(links));
        std::fs::write(&from, list).expect("written");
        let files = ["--from", from.to_str().expect("text"), "--out", out.to_str().expect("text")];
        let (status, text) = self.run(&[&["invite", "members"], &files[..], more].concat());
        (status, text, std::fs::read_to_string(out).ok())
    }

    async fn post(&self, path: &str, token: Option<&str>, body: &Value) -> (u16, Value) {
        let request = self.http.post(format!("{}{path}", self.process.operator)).json(body);
        let request = match token {
            Some(token) => request.bearer_auth(token),
            None => request,
        };
        let answer = request.send().await.expect("an answer");
        (answer.status().as_u16(), answer.json().await.expect("JSON"))
    }

    /// Joins with the code of a link.
    async fn join(&self, link: &str) -> u16 {
        let url = &self.process.wallet;
        let group = self.http.get(format!("{url}/groups/members")).send().await.expect("an answer");
        let group: GroupResponse = group.json().await.expect("a group");
        let mut random = |bytes: &mut [u8; 32]| selfsame_actors::Random::fill(&selfsame_actors::SystemRandom, bytes);
        let code = Code::read_wire(link.rsplit('.').next().unwrap_or_default()).expect("a code");
        let request = Member::new(&group, url, &mut random).join(&code).expect("a proof");
        let joined = self.http.post(format!("{url}/groups/members/join")).json(&request).send().await;
        joined.expect("an answer").status().as_u16()
    }
}

/// The rows of a file of links.
fn rows(links: &str) -> Vec<(&str, &str)> {
    let (header, rows) = links.split_once('\n').expect("a header");
    assert_eq!(header, "member,link");
    assert!(!links.contains('\r') && links.ends_with('\n'), "{links:?}");
    rows.lines().map(|row| row.rsplit_once(',').expect("two columns")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_becomes_links_and_the_same_list_again_only_what_is_new() {
    let daemon = GroupDaemon::start();
    let (status, text, links) = daemon.invite("\u{feff}name,member\r\nAnna,417\r\nBen,\"9,a\"\r\n", "links.csv", &[]);
    assert_eq!(status, 0, "{text}");
    assert!(text.ends_with("links.csv: 2 new, 0 again; 0 unchanged\n"), "{text}");
    let links = links.expect("a file");
    let first = rows(&links);
    assert_eq!(first.iter().map(|(member, _)| *member).collect::<Vec<_>>(), ["417", "\"9,a\""], "in their order");
    let prefix = format!("{}/join#members.", daemon.process.wallet);
    assert!(first.iter().all(|(_, link)| link.starts_with(&prefix)), "{first:?}");
    let mode = std::fs::metadata(daemon.path("links.csv")).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    // A file that is there is refused before anything is asked.
    let (status, text, kept) = daemon.invite("member\n10\n", "links.csv", &[]);
    assert!(status == 1 && text.contains("links.csv: the file exists already"), "{text}");
    assert_eq!(kept.as_ref(), Some(&links));
    assert_eq!(daemon.run_json(&["list"])[0]["invited"], 2);

    let (status, text, more) = daemon.invite("member\n417\n10\n\"9,a\"\n", "more.csv", &[]);
    assert!(status == 0 && text.ends_with("more.csv: 1 new, 0 again; 2 unchanged\n"), "{text}");
    assert_eq!(rows(&more.expect("a file"))[0].0, "10");
    assert_eq!(daemon.join(first[0].1).await, 200);
    let (status, text, again) = daemon.invite("member\n417\n10\n\"9,a\"\n", "again.csv", &["--again"]);
    assert!(status == 0 && text.ends_with("again.csv: 0 new, 2 again; 1 unchanged\n"), "{text}");
    let again = again.expect("a file");
    assert_eq!(rows(&again).iter().map(|(member, _)| *member).collect::<Vec<_>>(), ["10", "\"9,a\""]);
    assert_eq!(daemon.join(first[1].1).await, 403, "the old link has ended");
    assert_eq!(daemon.join(rows(&again)[1].1).await, 200);

    // One number, also a member's.
    let (status, text) = daemon.run(&["invite", "members", "--member", "417"]);
    let link = text.lines().next().expect("a link");
    assert!(status == 0 && link.starts_with(&format!("{}/replace#members.", daemon.process.wallet)), "{text}");
    assert!(text.contains("\ngood until the end of "), "{text}");
}

#[test]
fn a_list_with_a_fault_makes_no_link_and_no_file() {
    let daemon = GroupDaemon::start();
    for (list, expected) in [
        ("number\n417\n", "members.csv: line 1: the header has no column member"),
        ("member\n417\n9\n417\n", "members.csv: line 4: the member number 417 is on line 2 already"),
        ("member\n\"417\n", "members.csv: line 2: a field begins with a quote"),
        ("member\n 417\n", "members.csv: line 2: \" 417\" is not a member number"),
    ] {
        let (status, text, links) = daemon.invite(list, "links.csv", &[]);
        assert!(status == 1 && text.contains(expected), "{list:?}: {text}");
        assert_eq!(links, None);
    }
    // What the daemon refuses leaves no file either.
    let (from, out) = (daemon.path("members.csv"), daemon.path("links.csv"));
    std::fs::write(&from, "member\n417\n").expect("written");
    let files = ["--from", from.to_str().expect("text"), "--out", out.to_str().expect("text")];
    let (status, text) = daemon.run(&[&["invite", "nobody"], &files[..]].concat());
    assert!(status == 1 && text.contains("404") && !out.exists(), "{text}");
    assert_eq!(daemon.run_json(&["list"])[0]["invited"], 0);
    for wrong in [
        &["invite", "members"][..],
        &["invite", "members", "--from", "a"],
        &["invite", "members", "--out", "a"],
        &["invite", "members", "--member", "1", "--again"],
        &["invite", "members", "--member", "1", "--from", "a", "--out", "b"],
        &["invite", "MEMBERS", "--member", "1"],
        &["invite", "members", "--member", " 1"],
        &["roll", "members", "A"],
    ] {
        let (status, text) = daemon.run(wrong);
        assert_eq!(status, 2, "{wrong:?}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_and_rolls_are_shown_removed_and_exported() {
    let daemon = GroupDaemon::start();
    let (_, _, links) = daemon.invite("member\n417\n9\n10\n", "links.csv", &[]);
    let links = links.expect("a file");
    for (_, link) in &rows(&links)[..2] {
        assert_eq!(daemon.join(link).await, 200);
    }
    let (status, text) = daemon.run(&["roll", "members", "2026-assembly"]);
    assert!(status == 0 && text.contains(": 2 members at 2 positions, root 0x"), "{text}");
    let (status, text) = daemon.run(&["roll", "members", "2026-assembly"]);
    assert!(status == 1 && text.contains("409"), "{text}");
    let (status, text) = daemon.run(&["remove", "members", "--member", "9"]);
    assert!(status == 0 && text.starts_with("9 is removed from members"), "{text}");
    for unknown in ["9", "11"] {
        let (status, text) = daemon.run(&["remove", "members", "--member", unknown]);
        assert!(status == 1 && text.contains("was never invited, or was removed before and has no new link"), "{text}");
    }

    let list = daemon.run_json(&["list"]);
    let group = &list[0];
    let expected = json!([2, 1, 3, 1]);
    assert_eq!(json!([group["size"], group["members"], group["invited"], group["open_links"]]), expected, "{list}");
    assert_eq!(group["rolls"][0]["members"], 2, "a roll keeps who was on it");
    let (_, text) = daemon.run(&["list"]);
    assert!(text.starts_with("members Members of the cooperative\n  1 members at 2 positions, 3 invited,"), "{text}");
    assert!(text.contains("rolls: 2026-assembly"), "{text}");
    let members = daemon.run_json(&["members", "members"]);
    let standings: Vec<_> = members["members"].as_array().expect("a list").iter().collect();
    let standings: Vec<_> =
        standings.iter().map(|member| json!([member["member"], member["standing"], member["has_link"]])).collect();
    assert_eq!(
        standings,
        [json!(["10", "invited", true]), json!(["417", "member", false]), json!(["9", "removed", false]),]
    );
    assert!(!members.to_string().contains("0x") && !members.to_string().contains("position"), "{members}");
    let (_, text) = daemon.run(&["members", "members"]);
    assert!(text.contains(" - ") && text.contains(" link 10\n") && text.contains("removed  "), "{text}");

    let out = daemon.path("export.csv");
    let export = ["export", "members", "--out", out.to_str().expect("text")];
    assert!(daemon.run(&export).1.ends_with("export.csv: 3 member numbers\n"));
    let text = std::fs::read_to_string(&out).expect("a file");
    let day = members["members"][0]["invited_on"].as_str().expect("a day");
    assert!(
        text.starts_with(&format!("member,standing,invited_on,changed_on\n10,invited,{day},{day}\n417,member,")),
        "{text}"
    );
    assert_eq!(daemon.run(&export).0, 1, "the file is there");

    let (_, text) = daemon.run(&["rolls", "members"]);
    assert!(text.starts_with("2026-assembly of "), "{text}");
    let (status, text) = daemon.run(&["roll", "members", "2026-assembly", "--remove"]);
    assert_eq!((status, &*text), (0, "the roll 2026-assembly of members is removed\n"));
    assert_eq!(daemon.run(&["roll", "members", "2026-assembly", "--remove"]).0, 1);
    assert_eq!(daemon.run_json(&["rolls", "members"]), json!({"rolls": []}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_token_of_a_program_invites_and_does_nothing_else() {
    const NUMBER: &str = "the-number-of-a-member";
    let daemon = GroupDaemon::start();
    let operator = operator_token(&daemon.path("data"));
    let path = "/groups/members/invitations";
    let one = json!({"members": [NUMBER]});
    for token in [None, Some("another"), Some("")] {
        let (status, refused) = daemon.post(path, token, &one).await;
        assert_eq!((status, &refused["code"]), (401, &json!("unauthorized")), "{token:?}");
    }
    let (status, invited) = daemon.post(path, Some(TOKEN), &one).await;
    assert_eq!(status, 200, "{invited}");
    assert_eq!(json!([invited["new"], invited["again"], invited["unchanged"]]), json!([1, 0, 0]));
    assert_eq!(invited["invitations"][0]["member"], NUMBER);
    let expected = json!({"invitations": [], "new": 0, "again": 0, "unchanged": 1});
    assert_eq!(daemon.post(path, Some(&operator), &one).await, (200, expected));
    for other in ["/groups/members/members/remove", "/groups/members/rolls", "/reload"] {
        let body = json!({"member": "417", "name": "a"});
        assert_eq!(daemon.post(other, Some(TOKEN), &body).await.0, 401, "{other}");
    }
    let members = daemon.http.get(format!("{}/groups/members/members", daemon.process.operator)).bearer_auth(TOKEN);
    assert_eq!(members.send().await.expect("an answer").status(), 401);

    for (body, index) in [
        (json!({"members": ["1", " 2"]}), "members[1]"),
        (json!({"members": ["1", 2]}), "members[1]"),
        (json!({"members": ["1", "2", "1"]}), "2"),
        (json!({"members": "1"}), "members"),
        (json!({}), "members"),
        (json!({"members": ["1"], "for": "everybody"}), "for"),
    ] {
        let (status, refused) = daemon.post(path, Some(TOKEN), &body).await;
        assert_eq!((status, &refused["code"]), (400, &json!("bad_request")), "{body} {refused}");
        assert!(refused["message"].as_str().is_some_and(|message| message.contains(index)), "{body} {refused}");
    }
    let (status, refused) = daemon.post("/groups/nobody/invitations", Some(TOKEN), &one).await;
    assert_eq!((status, &refused["code"]), (404, &json!("unknown_group")));
    let groups = daemon.run_json(&["list"]);
    assert_eq!(groups[0]["invited"], 1, "nothing was half done: {groups}");

    // The audit trail says how many, and hashes a member number.
    let GroupDaemon { process, folder, .. } = daemon;
    assert!(process.terminate().success());
    let log = lines(&folder.path().join("log"));
    let events: Vec<_> = log.iter().filter(|line| line["fields"]["event"] == "members_invited").collect();
    let done: Vec<_> = events.iter().filter(|line| line["fields"]["outcome"] == "success").collect();
    assert_eq!(done[0]["fields"]["concerns"], "members: 1 invited, 0 again, 0 unchanged", "{done:#?}");
    assert!(done[0]["fields"]["person"].as_str().is_some_and(|person| person.len() == 32), "{done:#?}");
    assert_eq!(done[0]["fields"]["person"], done[1]["fields"]["person"]);
    assert!(log.iter().all(|line| !line.to_string().contains(NUMBER) && !line.to_string().contains(TOKEN)), "{log:#?}");
}

/// A list of 100 000 is read, sent, answered and written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_thousand_members_are_invited_at_once() {
    let daemon = GroupDaemon::start();
    let numbers: String = (0..100_000).map(|number| format!("member number {number}\n")).collect();
    let (status, text, links) = daemon.invite(&format!("member\n{numbers}"), "links.csv", &[]);
    assert!(status == 0 && text.ends_with(": 100000 new, 0 again; 0 unchanged\n"), "{text}");
    let links = links.expect("a file");
    let rows = rows(&links);
    assert_eq!((rows.len(), rows[99_999].0), (100_000, "member number 99999"));
    assert_eq!(daemon.run_json(&["members", "members"])["members"].as_array().map(Vec::len), Some(100_000));
}

#[test]
fn a_command_without_a_daemon_leaves_no_file() {
    let folder = folder();
    let (from, out) = (folder.path().join("members.csv"), folder.path().join("links.csv"));
    std::fs::write(&from, "member\n417\n").expect("written");
    let [from, out] = [&from, &out].map(|path| path.to_str().expect("text"));
    let data = folder.path().to_str().expect("text");
    let (is_done, text) = run_with(
        &[
            "group",
            "invite",
            "members",
            "--from",
            from,
            "--out",
            out,
            "--data",
            data,
            "--operator",
            "http://127.0.0.1:1",
        ],
        &[],
    );
    assert!(!is_done && text.contains("operator.token"), "{text}");
    assert!(!std::path::Path::new(out).exists());
}
