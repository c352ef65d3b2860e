//! Requests and answers, with their times and their room.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const LIFETIME: Duration = Duration::from_secs(900);

fn entries() -> Entries {
    Entries::new(EntryLimits::default())
}

fn id(number: u8) -> EntryId {
    EntryId::from_random_bytes([number; 16])
}

fn message(number: u8) -> Message {
    Message { iv: [number; 12], payload: vec![number; 100].into() }
}

fn of_client(number: u8) -> Retrieved<RequestText<Message>> {
    Retrieved { message: RequestText::OfClient(message(number)), flow: [5; 16] }
}

/// The message of a client's request that was handed out.
fn text(taken: Option<Retrieved<RequestText<Message>>>) -> Option<Message> {
    match taken?.message {
        RequestText::OfClient(message) => Some(message),
        RequestText::OfService => None,
    }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn a_message_is_handed_out_once() {
    let mut entries = entries();
    let (id, now) = (id(1), seconds(0));
    entries.insert_request(id.clone(), message(1), [5; 16], None, now).expect("there is room");
    assert_eq!(entries.status(&id, now), Some(ResponseStatus::Initialized));
    assert_eq!(entries.take_response(&id, now), Some((ResponseStatus::Initialized, None)));
    assert_eq!(entries.take_request(&id, now), Some(of_client(1)));
    assert_eq!(entries.take_request(&id, now), None);
    assert_eq!(entries.status(&id, now), Some(ResponseStatus::Retrieved));
    assert_eq!(entries.take_response(&id, now), Some((ResponseStatus::Retrieved, None)));
    assert_eq!(entries.answer(&id, message(2), None, now), Ok(()));
    assert_eq!(entries.answer(&id, message(3), None, now), Err(EntryError::AlreadyAnswered));
    assert_eq!(entries.status(&id, now), Some(ResponseStatus::Completed));
    assert_eq!(entries.take_response(&id, now), Some((ResponseStatus::Completed, Some(message(2)))));
    assert_eq!(entries.take_response(&id, now), None);
    assert_eq!(entries.answer(&id, message(3), None, now), Err(EntryError::NoSuchRequest));
    assert_eq!((entries.count(), entries.bytes()), (0, 0));
}

#[test]
fn an_answer_ends_a_request_that_was_not_fetched() {
    let mut entries = entries();
    let (id, now) = (id(1), seconds(0));
    entries.insert_request(id.clone(), message(1), [0; 16], None, now).expect("there is room");
    assert_eq!(entries.answer(&id, message(2), None, now), Ok(()));
    assert_eq!(entries.take_request(&id, now), None);
    assert_eq!(entries.insert_request(id.clone(), message(3), [0; 16], None, now), Err(EntryError::Taken));
    assert_eq!(entries.take_response(&id, now), Some((ResponseStatus::Completed, Some(message(2)))));
}

#[test]
fn each_change_begins_a_new_lifetime() {
    let mut entries = entries();
    let id = id(1);
    let last = LIFETIME - seconds(1);
    entries.insert_request(id.clone(), message(1), [0; 16], None, seconds(0)).expect("there is room");
    assert_eq!(entries.status(&id, last), Some(ResponseStatus::Initialized));
    assert!(entries.take_request(&id, last).is_some());
    assert_eq!(entries.status(&id, last + last), Some(ResponseStatus::Retrieved));
    assert_eq!(entries.answer(&id, message(2), None, last + last), Ok(()));
    assert_eq!(entries.status(&id, last * 3), Some(ResponseStatus::Completed));
    assert_eq!(entries.take_response(&id, last * 2 + LIFETIME), None);
    assert_eq!((entries.count(), entries.bytes()), (0, 0));
}

#[test]
fn an_answer_needs_no_request() {
    let mut entries = entries();
    entries.insert_response(id(1), message(1), None, seconds(0)).expect("there is room");
    assert_eq!(entries.take_request(&id(1), seconds(1)), None);
    let answered = entries.take_response(&id(1), seconds(1));
    assert_eq!(answered, Some((ResponseStatus::Completed, Some(message(1)))));
}

#[test]
fn the_room_is_bounded_in_all_and_by_source() {
    let of_each = OVERHEAD + 2 * 36 + 100 + ANSWER_ROOM;
    let mut entries = Entries::new(EntryLimits { bytes: 8 * of_each, lifetime: LIFETIME });
    let address = |text: &str| Some(text.parse::<IpAddr>().expect("an address"));
    let mut number = 0;
    let mut insert = |entries: &mut Entries, source| {
        number += 1;
        entries.insert_request(id(number), message(1), [0; 16], source, seconds(0))
    };
    let one = address("192.0.2.1");
    assert_eq!([(); 3].map(|()| insert(&mut entries, one)), [Ok(()), Ok(()), Err(EntryError::SourceFull)]);
    let near = address("192.0.2.2");
    assert_eq!([(); 2].map(|()| insert(&mut entries, near)), [Ok(()), Ok(())]);
    let third = address("192.0.2.3");
    let answers = [(); 3].map(|()| insert(&mut entries, third));
    assert_eq!(answers, [Ok(()), Ok(()), Err(EntryError::SourceFull)]);
    assert_eq!(insert(&mut entries, address("192.0.2.4")), Err(EntryError::SourceFull), "its /24 has six");
    assert_eq!(insert(&mut entries, address("198.51.100.1")), Ok(()));
    assert_eq!(insert(&mut entries, None), Ok(()));
    assert_eq!(insert(&mut entries, None), Err(EntryError::Full));
    // An answer has the room that came with its request, whatever its source has. One that is
    // longer needs room of its own.
    let answer = |length| Message { iv: [0; 12], payload: vec![0; length].into() };
    assert_eq!(entries.answer(&id(1), answer(2 * of_each), one, seconds(0)), Err(EntryError::SourceFull));
    assert!(entries.take_request(&id(1), seconds(0)).is_some(), "it stays as it is");
    assert_eq!(entries.answer(&id(1), answer(ANSWER_ROOM), one, seconds(0)), Ok(()));
    assert_eq!(entries.status(&id(1), seconds(0)), Some(ResponseStatus::Completed));
    entries.expire(LIFETIME);
    assert_eq!((entries.count(), entries.bytes()), (0, 0));
    assert!(entries.of_clients.networks() == 0 && entries.expiries.is_empty());
}

fn own_id(number: u8) -> EntryId {
    EntryId::of_service([number; 16])
}

fn own(number: u8) -> OwnRequest {
    OwnRequest { flow: [number; 16], source: None, lifetime: seconds(300) }
}

#[test]
fn only_the_service_gets_answers_to_its_own_requests_and_keeps_their_ids() {
    let mut entries = entries();
    let client = id(1);
    let (id, now) = (own_id(1), seconds(0));
    let insert = |entries: &mut Entries| entries.insert_request(id.clone(), message(9), [0; 16], None, now);
    assert_eq!(insert(&mut entries), Err(EntryError::Taken), "no client can choose such an id");
    assert_eq!(entries.insert_own(id.clone(), own(1), now), Ok(()));
    assert_eq!(entries.insert_own(id.clone(), own(1), now), Err(EntryError::Taken));
    for round in 2..6 {
        assert_eq!(entries.take_own_response(&id, now), Some((ResponseStatus::Initialized, None)));
        let sealed = Some(Retrieved { message: RequestText::OfService, flow: [1; 16] });
        assert_eq!(entries.take_request(&id, now), sealed);
        assert_eq!(entries.take_request(&id, now), sealed, "a fetch takes it from no one");
        assert_eq!(entries.read_request(&id, now), Some(RequestText::OfService));
        assert_eq!(entries.take_own_response(&id, now), Some((ResponseStatus::Retrieved, None)));
        assert_eq!(entries.answer(&id, message(round), None, now), Ok(()));
        assert_eq!(entries.answer(&id, message(9), None, now), Err(EntryError::AlreadyAnswered));
        assert_eq!(entries.take_response(&id, now), None, "a client gets what an unknown id gets");
        let answer = Some((ResponseStatus::Completed, Some(message(round))));
        assert_eq!(entries.take_own_response(&id, now), answer);
        // While the service judges it.
        assert_eq!(insert(&mut entries), Err(EntryError::Taken));
        assert_eq!(entries.answer(&id, message(9), None, now), Err(EntryError::AlreadyAnswered));
        assert_eq!((entries.take_request(&id, now), entries.take_response(&id, now)), (sealed, None));
    }
    assert!(!entries.remove_own(&own_id(2)) && entries.remove_own(&id));
    assert_eq!(insert(&mut entries), Err(EntryError::Taken), "it stays out of the reach of clients");
    assert_eq!((entries.count(), entries.bytes()), (0, 0));
    // A client's entry does not belong to the service.
    entries.insert_request(client.clone(), message(1), [0; 16], None, now).expect("there is room");
    assert!(!entries.remove_own(&client));
    assert_eq!(entries.take_own_response(&client, now), None);
}

#[test]
fn a_request_of_the_service_lives_as_long_as_the_service_says() {
    let mut entries = entries();
    entries.insert_own(own_id(1), own(1), seconds(0)).expect("there is room");
    assert!(entries.take_request(&own_id(1), seconds(299)).is_some());
    assert_eq!(entries.answer(&own_id(1), message(2), None, seconds(299)), Ok(()));
    assert_eq!(entries.expire(seconds(300)), [own_id(1)], "changes do not prolong it");
    assert_eq!((entries.count(), entries.bytes()), (0, 0));
}

#[test]
fn messages_of_clients_take_no_room_of_the_service() {
    let of_each = OVERHEAD + 2 * 36 + OWN_ENTRY;
    let mut entries = Entries::new(EntryLimits { bytes: 4 * of_each, lifetime: LIFETIME });
    let insert =
        |entries: &mut Entries, number: u8| entries.insert_request(id(number), message(1), [0; 16], None, seconds(0));
    let mut number = 0;
    while insert(&mut entries, number).is_ok() {
        number += 1;
    }
    assert_eq!(insert(&mut entries, number), Err(EntryError::Full));
    let source = Some("192.0.2.1".parse().expect("an address"));
    let sign_in = |entries: &mut Entries, number: u8, source| {
        entries.insert_own(own_id(number), OwnRequest { source, ..own(number) }, seconds(0))
    };
    assert_eq!(sign_in(&mut entries, 0, source), Ok(()));
    assert_eq!(sign_in(&mut entries, 1, source), Err(EntryError::SourceFull), "a source has a quarter");
    assert_eq!([1, 2, 3].map(|number| sign_in(&mut entries, number, None)), [Ok(()); 3]);
    assert_eq!(sign_in(&mut entries, 4, None), Err(EntryError::Full));
    // Its answers are bounded by their length alone.
    let answer = |length| Message { iv: [0; 12], payload: vec![0; length].into() };
    let too_long = entries.answer(&own_id(0), answer(LONGEST_OWN_PAYLOAD + 1), source, seconds(0));
    assert_eq!(too_long, Err(EntryError::TooLong));
    assert_eq!(entries.answer(&own_id(0), answer(LONGEST_OWN_PAYLOAD), source, seconds(0)), Ok(()));
    assert_eq!(entries.answer(&own_id(1), answer(LONGEST_OWN_PAYLOAD), None, seconds(0)), Ok(()));
    entries.expire(LIFETIME);
    assert_eq!((entries.count(), entries.bytes()), (0, 0));
    assert!(entries.of_service.networks() == 0 && entries.expiries.is_empty());
}

#[test]
fn requests_that_are_too_long_to_be_read_are_not_shown() {
    let mut entries = entries();
    for (number, length, is_shown) in
        [(1, LONGEST_REQUEST + TAG_LENGTH, true), (2, LONGEST_REQUEST + TAG_LENGTH + 1, false)]
    {
        let message = Message { iv: [0; 12], payload: vec![0; length].into() };
        entries.insert_request(id(number), message, [0; 16], None, seconds(0)).expect("there is room");
        assert_eq!(entries.read_request(&id(number), seconds(0)).is_some(), is_shown, "{length}");
        assert!(entries.take_request(&id(number), seconds(0)).is_some());
    }
}

#[test]
fn long_messages_have_a_part_of_the_room_and_go_first() {
    let room = 4 << 20;
    let mut entries = Entries::new(EntryLimits { bytes: room, lifetime: LIFETIME });
    let of_length = |length: usize| Message { iv: [0; 12], payload: vec![0; length].into() };
    let insert = |entries: &mut Entries, number: u8, length: usize, at: u64| {
        entries.insert_request(id(number), of_length(length), [0; 16], None, seconds(at))
    };
    let long = 200 << 10;
    let kept: Vec<_> = (0..6).map(|number| insert(&mut entries, number, long, number.into())).collect();
    assert_eq!(kept, [Ok(()), Ok(()), Ok(()), Ok(()), Err(EntryError::Full), Err(EntryError::Full)], "a quarter");
    assert_eq!(insert(&mut entries, 6, LONG, 6), Ok(()), "a message that is not long has the rest");
    // An answer of usual length has room, also when all is full; for it and for short requests the
    // oldest long message goes.
    let mut number = 10;
    while entries.entries.contains_key(&id(0)) {
        assert_eq!(insert(&mut entries, number, LONG, 7), Ok(()));
        number += 1;
    }
    assert_eq!(entries.expire(seconds(7)), [id(0)], "those who wait for it are told");
    let left: Vec<_> = (1..4).map(|number| entries.status(&id(number), seconds(7)).is_some()).collect();
    assert_eq!(left, [true; 3]);
    while insert(&mut entries, number, LONG, 7).is_ok() {
        number += 1;
    }
    assert!((0..4).all(|number| entries.status(&id(number), seconds(7)).is_none()), "all long ones have gone");
    assert_eq!(entries.long_bytes, 0);
    assert_eq!(entries.answer(&id(6), of_length(ANSWER_ROOM), None, seconds(7)), Ok(()));
    assert_eq!(insert(&mut entries, 250, 100, 7), Ok(()), "the answer has less room than its request had");
    entries.expire(LIFETIME + seconds(7));
    assert_eq!((entries.count(), entries.bytes(), entries.long.len()), (0, 0, 0));
}

/// The long message that would go first is the one that is answered.
#[test]
fn a_long_answer_to_a_long_request_finds_it_there() {
    let room = 4 << 20;
    let mut entries = Entries::new(EntryLimits { bytes: room, lifetime: LIFETIME });
    let of_length = |length: usize| Message { iv: [0; 12], payload: vec![0; length].into() };
    let insert = |entries: &mut Entries, number: u8, length: usize| {
        entries.insert_request(id(number), of_length(length), [0; 16], None, seconds(0)).expect("there is room");
    };
    insert(&mut entries, 0, LONG + 1);
    let around = OVERHEAD + 2 * 36 + ANSWER_ROOM;
    let mut number = 1;
    while entries.bytes() + around + LONG <= room {
        insert(&mut entries, number, LONG);
        number += 1;
    }
    if let Some(left) = (room - entries.bytes()).checked_sub(around) {
        insert(&mut entries, number, left);
    }
    assert!(entries.bytes() + LONG > room);
    assert_eq!(entries.answer(&id(0), of_length(LONG), None, seconds(0)), Ok(()));
    assert_eq!(entries.take_response(&id(0), seconds(0)).and_then(|(_, answer)| answer), Some(of_length(LONG)));
    assert_eq!(entries.expire(seconds(0)), []);
}

/// What a client does, with one of three ids.
#[derive(Clone, Copy, Debug)]
enum Step {
    Insert(u8),
    TakeRequest(u8),
    Answer(u8),
    TakeResponse(u8),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let number = || 0..3_u8;
    prop_oneof![
        number().prop_map(Step::Insert),
        number().prop_map(Step::TakeRequest),
        number().prop_map(Step::Answer),
        number().prop_map(Step::TakeResponse),
        (1..600_u64).prop_map(Step::Wait),
    ]
}

proptest! {
    /// Every message that is taken is handed out at most once, and only the first answer to a
    /// request is; what is held is counted.
    #[test]
    fn nothing_is_handed_out_twice(steps in vec(step(), 1..60)) {
        let mut entries = entries();
        let mut now = Duration::ZERO;
        // For each id, the status and the time of the last change.
        let mut expected: HashMap<u8, (ResponseStatus, u8, Duration)> = HashMap::new();
        for (index, step) in steps.into_iter().enumerate() {
            let written = index as u8;
            expected.retain(|_, (_, _, changed)| now < *changed + LIFETIME);
            match step {
                Step::Insert(number) => {
                    let inserted = entries.insert_request(id(number), message(written), [0; 16], None, now);
                    prop_assert_eq!(inserted.is_ok(), !expected.contains_key(&number));
                    expected.entry(number).or_insert((ResponseStatus::Initialized, written, now));
                }
                Step::TakeRequest(number) => {
                    let taken = text(entries.take_request(&id(number), now));
                    match expected.get_mut(&number) {
                        Some((status @ ResponseStatus::Initialized, was, changed)) => {
                            prop_assert_eq!(taken, Some(message(*was)));
                            (*status, *changed) = (ResponseStatus::Retrieved, now);
                        }
                        _ => prop_assert_eq!(taken, None),
                    }
                }
                Step::Answer(number) => {
                    let answered = entries.answer(&id(number), message(written), None, now);
                    match expected.get_mut(&number) {
                        None => prop_assert_eq!(answered, Err(EntryError::NoSuchRequest)),
                        Some((ResponseStatus::Completed, ..)) => {
                            prop_assert_eq!(answered, Err(EntryError::AlreadyAnswered));
                        }
                        Some(entry) => {
                            prop_assert_eq!(answered, Ok(()));
                            *entry = (ResponseStatus::Completed, written, now);
                        }
                    }
                }
                Step::TakeResponse(number) => {
                    let taken = entries.take_response(&id(number), now);
                    let status = expected.get(&number).map(|(status, was, _)| (*status, *was));
                    match status {
                        Some((ResponseStatus::Completed, was)) => {
                            prop_assert_eq!(taken, Some((ResponseStatus::Completed, Some(message(was)))));
                            expected.remove(&number);
                        }
                        other => prop_assert_eq!(taken, other.map(|(status, _)| (status, None))),
                    }
                }
                Step::Wait(length) => now += seconds(length),
            }
            let held: usize = entries.entries.values().map(|entry| entry.bytes).sum();
            prop_assert_eq!(entries.bytes(), held);
            prop_assert_eq!(entries.expiries.len(), entries.count());
        }
    }
}

#[test]
fn a_replica_that_goes_changes_nothing_for_the_entries_of_others() {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let all = names(&["one", "two", "three"]);
    let mut counts = std::collections::HashMap::new();
    for number in 0..=255 {
        let id = EntryId::from_random_bytes([number; 16]);
        let order = holders(&id, all.clone());
        assert_eq!(holders(&id, names(&["three", "one", "two"])), order, "the order of the names does not matter");
        *counts.entry(order[0].clone()).or_insert(0) += 1;
        for gone in &all {
            let rest: Vec<_> = all.iter().filter(|name| *name != gone).cloned().collect();
            let expected: Vec<_> = order.iter().filter(|name| *name != gone).cloned().collect();
            assert_eq!(holders(&id, rest), expected);
        }
    }
    assert!(all.iter().all(|name| counts[name] > 60), "{counts:?}");
}
