//! The cost of a group of 100,000 members: inviting, joining, reading, removing, starting.
//!
//! Each line is measured beside its budget. The members join in steps of 512 through the rules and
//! the store, as the group keeper writes them, without their link proofs, whose check is a line of
//! its own in the benchmark of the verifier. Some more join through the service, with genuine
//! proofs. docs/benchmarks.md explains the lines.
//!
//! `GROUP_MEMBERS` is the number of members, 100,000 without it; `GROUP_PROOFS` the number of
//! genuine proofs, 16 without it, which take about a second each to make.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    missing_docs,
    reason = "a benchmark ends when a step fails"
)]

mod machine;

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use selfsame_actors::{
    GroupDefinition, GroupSettings, GroupsHandle, ManualClock, Random, Service, ServiceParts, Settings, SystemRandom,
};
use selfsame_protocol::eip712::RegistryDomain;
use selfsame_protocol::groth16::proof::LEGACY_WORDS;
use selfsame_protocol::groups::codes::Code;
use selfsame_protocol::groups::enrolment::{EnrolmentRequest, Step};
use selfsame_protocol::groups::identity::{Act, MemberSecret, Token, enrolment_external_nullifier};
use selfsame_protocol::groups::names::{Day, GroupId, MemberNumber, SecretHash};
use selfsame_protocol::groups::tree::page_root;
use selfsame_protocol::groups::wire::{GroupResponse, InvitedMembers, SentCommitment};
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::verification::Environment;
use selfsame_protocol::{Address, U256};
use selfsame_storage::{Decision, GroupCommit, GroupRecords, NoProgress, OpenOptions, Store, fsck};
use selfsame_wallet::member::Member;

const DOMAIN: RegistryDomain = RegistryDomain { chain_id: 31337, verifying_contract: Address::repeat_byte(0xcf) };

const NOW: UnixSeconds = UnixSeconds(1_800_000_000);

/// The most acts of a step of the group keeper.
const STEP: usize = 512;

fn main() {
    // `cargo test --benches` passes no `--bench`; there is nothing to test here.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    machine::print();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(measure());
}

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).ok().map_or(default, |value| value.parse().expect("a number"))
}

fn print(line: &str, budget: &str, measured: impl std::fmt::Display) {
    println!("{line:<58}{budget:>18}{measured:>18}");
}

fn group() -> GroupId {
    "members".parse().expect("an id")
}

async fn start(folder: &Path) -> (Service, Duration) {
    let begun = Instant::now();
    let store = Store::open(folder, &OpenOptions::new(DOMAIN)).expect("the store opens");
    let mut settings = Settings::for_instance("groups");
    let definition = GroupDefinition {
        id: group(),
        name: "Members".to_owned(),
        environment: Environment::Production,
        legacy_identifier: None,
        link_days: 30,
        rolls: Vec::new(),
        actions: Vec::new(),
    };
    settings.groups = GroupSettings { groups: vec![definition], ..GroupSettings::default() };
    let clock = Arc::new(ManualClock::at(Duration::from_secs(NOW.0)));
    let parts = ServiceParts::new(settings, store).clock(clock).random(Arc::new(SystemRandom));
    (Service::start(parts).await.expect("the service starts"), begun.elapsed())
}

/// The median time of a start, each followed by a stop.
async fn start_time(folder: &Path) -> Duration {
    let mut times = Vec::new();
    for _ in 0..5 {
        let (service, time) = start(folder).await;
        assert!(service.groups().describe(&group()).is_ok(), "the group is read when the service has started");
        service.stop().await;
        times.push(time);
    }
    median(times)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

async fn measure() {
    let (members, proofs) = (number("GROUP_MEMBERS", 100_000), number("GROUP_PROOFS", 16));
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let (store, empty) = (folder.path().join("store"), folder.path().join("empty"));
    print(&format!("a group of {members} members"), "budget", "measured");

    let (service, _) = start(&store).await;
    let groups = service.groups();
    let numbers = (0..members + proofs).map(|member| member.to_string().parse().expect("a member number"));
    let begun = Instant::now();
    let invited = groups.invite(&group(), numbers.collect(), InvitedMembers::New).await.expect("they are invited");
    print("invite all, one write", "10 s", format!("{:.2?}", begun.elapsed()));
    let described = groups.describe(&group()).expect("the group");
    let mut codes: Vec<(MemberNumber, Code)> =
        invited.invitations.into_iter().map(|(member, invitation, _)| (member, invitation.code)).collect();
    let proved = codes.split_off(members);
    drop(groups);
    service.stop().await;

    let requests: Vec<_> = codes.iter().zip(0..).map(|((_, code), person)| request(&described, code, person)).collect();
    let took = join_without_proofs(&store, &requests);
    let a_second = format!("{:.0} a second", members as f64 / took.as_secs_f64());
    print("join in steps of 512, without link proofs", "2000 a second", a_second);

    let (with, without) = (start_time(&store).await, start_time(&empty).await);
    let longer = with.saturating_sub(without);
    print("start, beside an empty store", "500 ms longer", format!("{longer:.0?} longer"));

    let (service, _) = start(&store).await;
    let groups = service.groups();
    read(&groups).await;
    join_with_proofs(&groups, &described, proved).await;
    remove(&groups, members).await;
    drop(groups);
    service.stop().await;

    let opened = Store::open(&store, &OpenOptions::new(DOMAIN)).expect("the store opens");
    let begun = Instant::now();
    let report = fsck(&opened, &store, &NoProgress).expect("fsck runs");
    print("fsck", "", format!("{:.2?}", begun.elapsed()));
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

/// The joining of a person whose link proof was checked.
fn request(group: &GroupResponse, code: &Code, person: u128) -> EnrolmentRequest {
    let identity = MemberSecret(person.to_be_bytes()).identity(&group.group_key, 0);
    EnrolmentRequest {
        act: Act::Join,
        token: Token::Code(code.clone()),
        commitment: SentCommitment(identity.commitment().0),
        nullifier: identity.nullifier(enrolment_external_nullifier(&group.group_key)),
        proof: [U256::ZERO; LEGACY_WORDS],
        replacement_hash: SecretHash::of(&person.to_be_bytes()),
        copy: None,
    }
}

/// Makes steps of joinings, as the group keeper does.
fn join_without_proofs(folder: &Path, requests: &[EnrolmentRequest]) -> Duration {
    let store = Store::open(folder, &OpenOptions::new(DOMAIN)).expect("the store opens");
    let (commits, committing) = GroupCommit::start(store.clone()).expect("the committing thread starts");
    let records = GroupRecords::new(store, commits.clone());
    let mut loaded = records.load(&group()).expect("it is read").expect("the group");
    let begun = Instant::now();
    for requests in requests.chunks(STEP) {
        let changes = {
            let (id, reader) = (group(), records.reader(&group()));
            let mut step = Step::new(&id, &loaded, &reader, Day::of(NOW));
            for request in requests {
                step.enrol(request).expect("it is read").expect("the person joins");
            }
            step.finish(NOW).expect("there are changes")
        };
        let (sender, decided) = sync_channel(1);
        records.write(&group(), &changes, &[], Box::new(move |decision| sender.send(decision).expect("it is awaited")));
        assert_eq!(decided.recv().expect("a decision").expect("it is written"), Decision::Written);
        loaded.apply(&changes);
    }
    let took = begun.elapsed();
    drop((records, commits));
    committing.join().expect("the committing thread ends");
    took
}

async fn read(groups: &GroupsHandle) {
    let described = groups.describe(&group()).expect("the group");
    let mut times = Vec::new();
    for root in &described.page_roots {
        let begun = Instant::now();
        let page = groups.page(&group(), *root, None).await.expect("it is read").expect("a page");
        times.push(begun.elapsed());
        assert_eq!(page.len(), 32_768);
    }
    print("a page", "1 ms", format!("{:.1?}", median(times)));
    let mut times = Vec::new();
    for _ in 0..200 {
        let begun = Instant::now();
        std::hint::black_box(groups.describe(&group()).expect("the group"));
        times.push(begun.elapsed());
    }
    print("the description with all page roots", "", format!("{:.1?}", median(times)));
    let leaves = vec![selfsame_protocol::groups::names::FieldNumber(U256::from(7)); 1024];
    let begun = Instant::now();
    std::hint::black_box(page_root(&leaves));
    print("for comparison: hash one page", "", format!("{:.2?}", begun.elapsed()));
}

/// Joins with genuine link proofs: one after the other, and then as many together.
async fn join_with_proofs(groups: &GroupsHandle, described: &GroupResponse, invited: Vec<(MemberNumber, Code)>) {
    let mut random = |bytes: &mut [u8; 32]| SystemRandom.fill(bytes);
    let making = invited.iter().map(|(_, code)| {
        let member = Member::new(described, "https://wallet.example", &mut random);
        EnrolmentRequest::from(member.join(code).expect("a link proof"))
    });
    let mut requests: Vec<_> = making.collect();
    let together = requests.split_off(requests.len() / 2);
    let mut times = Vec::new();
    for request in requests {
        let begun = Instant::now();
        groups.enrol(&group(), request, None).await.expect("the person joins");
        times.push(begun.elapsed());
    }
    if !times.is_empty() {
        print("join, with its link proof, on an idle service", "5 ms", format!("{:.2?}", median(times)));
    }
    let (count, begun) = (together.len(), Instant::now());
    let id = group();
    let joined = join_all(together.into_iter().map(|request| groups.enrol(&id, request, None))).await;
    assert!(joined.iter().all(Result::is_ok), "{joined:?}");
    print(&format!("{count} join together, with their link proofs"), "", format!("{:.2?}", begun.elapsed()));
}

async fn remove(groups: &GroupsHandle, members: usize) {
    let mut times = Vec::new();
    for member in (0..members).step_by(members.div_ceil(100)) {
        let number = member.to_string().parse().expect("a member number");
        let begun = Instant::now();
        assert!(groups.remove(&group(), number).await.expect("it is removed"));
        times.push(begun.elapsed());
    }
    print("remove a member, until the answer", "", format!("{:.2?}", median(times)));
}
