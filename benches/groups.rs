//! The cost of a group of 100,000 members: inviting, joining, reading, removing, starting.
//!
//! Each line is measured beside its budget. The members join through the service, many at a time.
//! Their link proofs are for a key whose setup secrets are public, so that a hundred thousand can
//! be made in a minute; checking one costs what checking a genuine one does. Some more join with
//! genuine proofs, one after the other. docs/benchmarks-parts.md explains the lines.
//!
//! `GROUP_MEMBERS` is the number of members, 100,000 without it; `GROUP_CLIENTS` how many join at a
//! time, 192 without it; `GROUP_PROOFS` the number of genuine proofs, 16 without it, which take
//! about a second each to make.

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
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use rayon::prelude::*;
use selfsame_actors::{
    ConfiguredKey, GroupDefinition, GroupSettings, GroupsHandle, ManualClock, Random, Service, ServiceParts, Settings,
    SystemRandom,
};
use selfsame_protocol::eip712::RegistryDomain;
use selfsame_protocol::groth16::PreparedKey;
use selfsame_protocol::groth16::key::{LEGACY_INPUTS, VerificationKey};
use selfsame_protocol::groth16::simulator::Simulator;
use selfsame_protocol::groups::codes::Code;
use selfsame_protocol::groups::enrolment::EnrolmentRequest;
use selfsame_protocol::groups::identity::{Act, LinkStatement, MemberSecret, Token, enrolment_external_nullifier};
use selfsame_protocol::groups::names::{FieldNumber, GroupId, MemberNumber, SecretHash};
use selfsame_protocol::groups::tree::{one_leaf_root, page_root};
use selfsame_protocol::groups::wire::{GroupResponse, InvitedMembers, SentCommitment};
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::tree::field_element;
use selfsame_protocol::verification::{Environment, ProofKind};
use selfsame_protocol::{Address, U256};
use selfsame_storage::{NoProgress, OpenOptions, Store, fsck};
use selfsame_wallet::member::Member;

const DOMAIN: RegistryDomain = RegistryDomain { chain_id: 31337, verifying_contract: Address::repeat_byte(0xcf) };

const NOW: UnixSeconds = UnixSeconds(1_800_000_000);

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

/// The processor time that this process has used, to a hundredth of a second.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("the kernel's record of this process");
    // Behind the program's name in parentheses: user and system time are the twelfth and the next.
    let fields = stat.rsplit(')').next().expect("fields").split_whitespace().skip(11).take(2);
    Duration::from_millis(fields.map(|ticks| ticks.parse::<u64>().expect("a number") * 10).sum())
}

fn print(line: &str, budget: &str, measured: impl std::fmt::Display) {
    println!("{line:<58}{budget:>18}{measured:>18}");
}

fn group() -> GroupId {
    "members".parse().expect("an id")
}

/// The key of genuine proofs.
fn genuine() -> Arc<PreparedKey> {
    Arc::new(PreparedKey::new(VerificationKey::legacy()))
}

/// Starts a service whose groups take proofs of a key, and says how long that took.
async fn start(folder: &Path, key: &Arc<PreparedKey>) -> (Service, Duration) {
    let begun = Instant::now();
    let store = Store::open(folder, &OpenOptions::new(DOMAIN)).expect("the store opens");
    let mut settings = Settings::for_instance("groups");
    let definition = GroupDefinition {
        id: group(),
        name: "Members".to_owned(),
        environment: Environment::Staging,
        legacy_identifier: None,
        link_days: 30,
        rolls: Vec::new(),
        actions: Vec::new(),
    };
    settings.groups = GroupSettings { groups: vec![definition], ..GroupSettings::default() };
    let (environment, kind) = (Environment::Staging, ProofKind::Legacy);
    settings.verification.keys = vec![ConfiguredKey { environment, kind, key: Arc::clone(key) }];
    let clock = Arc::new(ManualClock::at(Duration::from_secs(NOW.0)));
    let parts = ServiceParts::new(settings, store).clock(clock).random(Arc::new(SystemRandom));
    (Service::start(parts).await.expect("the service starts"), begun.elapsed())
}

/// The median time of a start, each followed by a stop.
async fn start_time(folder: &Path, key: &Arc<PreparedKey>) -> Duration {
    let mut times = Vec::new();
    for _ in 0..5 {
        let (service, time) = start(folder, key).await;
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

    let simulator = Simulator::from_seed(b"groups", LEGACY_INPUTS);
    let simulated = Arc::new(PreparedKey::new(&simulator.verification_key()));
    let (service, _) = start(&store, &simulated).await;
    let groups = service.groups();
    let numbers = (0..members + proofs).map(|member| member.to_string().parse().expect("a member number"));
    let begun = Instant::now();
    let invited = groups.invite(&group(), numbers.collect(), InvitedMembers::New).await.expect("they are invited");
    print("invite all, one write", "10 s", format!("{:.2?}", begun.elapsed()));
    let mut codes: Vec<(MemberNumber, Code)> =
        invited.invitations.into_iter().map(|(member, invitation, _)| (member, invitation.code)).collect();
    let proved = codes.split_off(members);

    let described = groups.describe(&group()).expect("the group");
    let of_person = |(person, (_, code)): (usize, &(MemberNumber, Code))| {
        simulated_request(&simulator, &described, code, person as u128 + 1)
    };
    let requests: Vec<_> = codes.par_iter().enumerate().map(of_person).collect();
    join_many(&groups, requests).await;
    drop(groups);
    service.stop().await;

    let key = genuine();
    let (with, without) = (start_time(&store, &key).await, start_time(&empty, &key).await);
    let longer = with.saturating_sub(without);
    print("start, beside an empty store", "500 ms longer", format!("{longer:.0?} longer"));

    let (service, _) = start(&store, &key).await;
    let groups = service.groups();
    read(&groups).await;
    join_one_by_one(&groups, &described, proved).await;
    remove(&groups, members).await;
    drop(groups);
    service.stop().await;

    let opened = Store::open(&store, &OpenOptions::new(DOMAIN)).expect("the store opens");
    let begun = Instant::now();
    let report = fsck(&opened, &store, &NoProgress).expect("fsck runs");
    print("fsck", "", format!("{:.2?}", begun.elapsed()));
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

/// The joining of a person, with a proof of the simulator.
fn simulated_request(simulator: &Simulator, group: &GroupResponse, code: &Code, person: u128) -> EnrolmentRequest {
    let group_key = &group.group_key;
    let identity = MemberSecret(person.to_be_bytes()).identity(group_key, 0);
    let external = enrolment_external_nullifier(group_key);
    let (commitment, nullifier) = (identity.commitment(), identity.nullifier(external));
    let (act, token) = (Act::Join, Token::Code(code.clone()));
    let signal = LinkStatement { act, group_key, commitment, token: &token }.signal_hash();
    let inputs = [one_leaf_root(commitment).to_number(), nullifier.0, signal.0, external.0];
    let element = |number: &U256| field_element(number).expect("a field element");
    let random = [person, person << 1].map(|number| element(&U256::from(number)));
    let proof = simulator.prove(&inputs.each_ref().map(element), random).expect("as many inputs as the key has");
    EnrolmentRequest {
        act,
        token,
        commitment: SentCommitment(commitment.0),
        nullifier,
        proof: proof.to_legacy(),
        replacement_hash: SecretHash::of(&person.to_be_bytes()),
        copy: None,
    }
}

/// Joins all, as many clients at a time as are set, each with one request after the other.
async fn join_many(groups: &GroupsHandle, requests: Vec<EnrolmentRequest>) {
    let (count, clients) = (requests.len(), number("GROUP_CLIENTS", 192));
    let (requests, next) = (Arc::new(requests), Arc::new(AtomicUsize::new(0)));
    let (begun, processor) = (Instant::now(), processor_time());
    let client = |_| {
        let (groups, requests, next) = (groups.clone(), Arc::clone(&requests), Arc::clone(&next));
        tokio::spawn(async move {
            while let Some(request) = requests.get(next.fetch_add(1, Ordering::Relaxed)) {
                groups.enrol(&group(), request.clone(), None).await.expect("the person joins");
            }
        })
    };
    let joined = join_all((0..clients).map(client)).await;
    assert!(joined.iter().all(Result::is_ok), "each client has joined its persons");
    let (took, processor) = (begun.elapsed(), processor_time().saturating_sub(processor));
    let a_second = format!("{:.0} a second", count as f64 / took.as_secs_f64());
    print(&format!("join with link proofs, {clients} at a time"), "2000 a second", a_second);
    print("  processor time of a joining", "", format!("{:.0?}", processor / count.max(1) as u32));
    assert_eq!(groups.describe(&group()).expect("the group").members as usize, count);
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
    let leaves = vec![FieldNumber(U256::from(7)); 1024];
    let begun = Instant::now();
    std::hint::black_box(page_root(&leaves));
    print("for comparison: hash one page", "", format!("{:.2?}", begun.elapsed()));
}

/// Joins with genuine link proofs, one after the other.
async fn join_one_by_one(groups: &GroupsHandle, described: &GroupResponse, invited: Vec<(MemberNumber, Code)>) {
    let mut random = |bytes: &mut [u8; 32]| SystemRandom.fill(bytes);
    let mut times = Vec::new();
    for (_, code) in invited {
        let member = Member::new(described, "https://wallet.example", &mut random);
        let request = EnrolmentRequest::from(member.join(&code).expect("a link proof"));
        let begun = Instant::now();
        groups.enrol(&group(), request, None).await.expect("the person joins");
        times.push(begun.elapsed());
    }
    if !times.is_empty() {
        print("join, with its link proof, on an idle service", "5 ms", format!("{:.2?}", median(times)));
    }
}

/// Removes a hundred members. A root that had one of them counts no more from the answer on.
async fn remove(groups: &GroupsHandle, members: usize) {
    let mut times = Vec::new();
    for member in (0..members).step_by(members.div_ceil(100)) {
        let number = member.to_string().parse().expect("a member number");
        let root = groups.describe(&group()).expect("the group").root;
        let begun = Instant::now();
        assert!(groups.remove(&group(), number).await.expect("it is removed"));
        times.push(begun.elapsed());
        assert_eq!(groups.root_age(&group(), root, NOW), None, "the root ended with the answer");
    }
    print("remove a member, until the answer", "", format!("{:.2?}", median(times)));
}
