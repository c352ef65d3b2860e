//! Signed heads: the stability of their encoding, and the refusal of changed ones.

use super::*;

/// The secret key and public key of the first test of RFC 8032, section 7.1.
const SEED: [u8; 32] = hex!("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60");
const PUBLIC_KEY: RegistryPublicKey =
    RegistryPublicKey(b256!("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"));

fn key(seed: [u8; 32]) -> RegistryKey {
    RegistryKey::from_seed(&seed).expect("a key")
}

fn head() -> Head {
    let block = seal(vec![create(1)]);
    Head::new(DOMAIN, &apply_unsigned(&block).tip)
}

fn signed(head: Head) -> SignedHead {
    head.sign(&key(SEED)).expect("signed")
}

/// Each way to change one field of a head.
const CHANGES: [fn(&mut Head); 7] = [
    |head| head.domain.chain_id += 1,
    |head| head.domain.verifying_contract = Address::ZERO,
    |head| head.height += 1,
    |head| head.block_hash = B256::repeat_byte(1),
    |head| head.result_hash = B256::repeat_byte(1),
    |head| head.root = Root::empty(),
    |head| head.time.0 += 1,
];

#[test]
fn a_key_is_read_from_its_encoding_only() {
    let key = key(SEED);
    assert_eq!(key.public_key(), PUBLIC_KEY);
    assert!(!format!("{key:?}").contains("9d61"), "{key:?}");
    let encoding = key.to_pkcs8().expect("encoded").as_ref().to_vec();
    let header = hex!("302e020100300506032b657004220420");
    assert_eq!(encoding, [&header[..], &SEED].concat());
    assert_eq!(RegistryKey::from_pkcs8(&encoding).expect("a key").public_key(), PUBLIC_KEY);
    for cut in 0..encoding.len() {
        assert_eq!(RegistryKey::from_pkcs8(&encoding[..cut]).err(), Some(RegistryKeyError), "cut at {cut}");
    }
}

#[test]
fn the_signed_bytes_of_a_head_are_stable() {
    let head = head();
    let fields = [
        b"selfsame registry head".to_vec(),
        vec![1],
        hex!("0000000000000001").to_vec(),
        vec![0xcc; 20],
        hex!("0000000000000001").to_vec(),
        head.block_hash.to_vec(),
        head.result_hash.to_vec(),
        head.root.0.to_vec(),
        TIME.0.to_be_bytes().to_vec(),
    ];
    assert_eq!(head.signed_bytes(), fields.concat());
    assert_eq!(decode::<Head>(&encode(&head)), Ok(head));
    let mut other_version = encode(&head);
    other_version[0] = 2;
    assert!(matches!(decode::<Head>(&other_version), Err(DecodeError::UnknownVersion { found: 2, known: 1, .. })));
}

#[test]
fn a_head_before_the_first_block_can_be_signed() {
    let head = Head::new(DOMAIN, &Tip::default());
    let none = Head {
        domain: DOMAIN,
        height: 0,
        block_hash: B256::ZERO,
        result_hash: B256::ZERO,
        root: Root::empty(),
        time: UnixSeconds(0),
    };
    assert_eq!((head, signed(head).verify()), (none, Ok(())));
}

#[test]
fn the_json_of_a_signed_head_is_stable() {
    let signed = signed(head());
    let recorded = json!({
        "domain": { "chain_id": 1, "verifying_contract": "0xcccccccccccccccccccccccccccccccccccccccc" },
        "height": 1,
        "block_hash": signed.head.block_hash,
        "result_hash": signed.head.result_hash,
        "root": signed.head.root,
        "time": TIME,
        "public_key": "0xd75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "signature": hex::encode_prefixed(signed.signature.0),
    });
    assert_eq!(serde_json::to_value(signed).expect("JSON"), recorded);
    assert_eq!(serde_json::from_value::<SignedHead>(recorded.clone()).expect("a head"), signed);
    for (field, value) in [
        ("public_key", json!("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")),
        ("public_key", json!("0xd75a")),
        ("signature", json!("0x00")),
        ("signature", json!(hex::encode(signed.signature.0))),
        ("signature", json!(null)),
        ("height", json!("1")),
        ("height", json!(-1)),
    ] {
        let mut changed = recorded.clone();
        changed[field] = value;
        assert!(serde_json::from_value::<SignedHead>(changed.clone()).is_err(), "{changed}");
    }
}

#[test]
fn a_changed_head_does_not_verify() {
    let good = signed(head());
    assert_eq!(good.verify(), Ok(()));
    let refused = |changed: SignedHead| {
        let expected = HeadError::Signature { height: changed.head.height, public_key: changed.public_key };
        assert_eq!(changed.verify(), Err(expected), "{changed:?}");
    };
    for change in CHANGES {
        let mut changed = good;
        change(&mut changed.head);
        refused(changed);
    }
    for byte in 0..64 {
        let mut changed = good;
        changed.signature.0[byte] ^= 1;
        refused(changed);
    }
    refused(SignedHead { public_key: key([7; 32]).public_key(), ..good });
    // Bytes that are not a point of the curve.
    refused(SignedHead { public_key: RegistryPublicKey(B256::repeat_byte(0xff)), ..good });
    // A signature over the encoding alone, without the prefix.
    let signature = key(SEED).sign(&encode(&good.head)).expect("signed");
    refused(SignedHead { signature, ..good });
}

#[test]
fn two_heads_of_one_height_contradict_each_other_when_they_differ() {
    let first = signed(head());
    assert_eq!(compare_heads(&first, &first), Ok(HeadComparison::Same));
    let expected = [
        Err(HeadError::OtherRegistry),
        Err(HeadError::OtherRegistry),
        Ok(HeadComparison::DifferentHeights),
        Ok(HeadComparison::Contradiction),
        Ok(HeadComparison::Contradiction),
        Ok(HeadComparison::Contradiction),
        Ok(HeadComparison::Contradiction),
    ];
    for (number, (change, expected)) in CHANGES.iter().zip(expected).enumerate() {
        let mut changed = head();
        change(&mut changed);
        let second = signed(changed);
        assert_eq!(compare_heads(&first, &second), expected, "change {number}");
        assert_eq!(compare_heads(&second, &first), expected, "change {number}");
        // Without a signature it proves nothing.
        let forged = SignedHead { head: changed, ..first };
        assert!(matches!(compare_heads(&first, &forged), Err(HeadError::Signature { .. })), "change {number}");
        assert!(matches!(compare_heads(&forged, &first), Err(HeadError::Signature { .. })), "change {number}");
    }
    let other = Head { block_hash: B256::ZERO, ..head() }.sign(&key([7; 32])).expect("signed");
    let keys = HeadError::OtherKey { first: PUBLIC_KEY, second: other.public_key };
    assert_eq!(compare_heads(&first, &other), Err(keys));
}

#[test]
fn a_walk_goes_back_only_over_the_blocks_of_its_history() {
    let first = seal(vec![create(1)]);
    let second =
        Block::seal(&Seal::of(&first.header), DOMAIN, TIME.plus(1), RuleParameters::default(), vec![create(2)]);
    let head = Head { height: 2, block_hash: second.header.hash(), ..head() };
    let mut walk = ChainWalk::from_head(&head);
    let refused = |walk: &ChainWalk, header: &BlockHeader| {
        let (mut copy, height) = (*walk, walk.height);
        assert_eq!((copy.step_back(header), copy), (Err(ChainError { height }), *walk));
    };
    refused(&walk, &first.header);
    let changes: [fn(&mut BlockHeader); 4] = [
        |header| header.height += 1,
        |header| header.previous_hash = B256::ZERO,
        |header| header.time.0 += 1,
        |header| header.domain.chain_id += 1,
    ];
    for change in changes {
        let mut header = second.header.clone();
        change(&mut header);
        refused(&walk, &header);
    }
    assert_eq!(walk.step_back(&second.header), Ok(()));
    assert_eq!((walk.height, walk.hash), (1, first.header.hash()));
    refused(&walk, &second.header);
    assert_eq!(walk.step_back(&first.header), Ok(()));
    assert_eq!((walk.height, walk.hash), (0, B256::ZERO));
    refused(&walk, &first.header);
}

/// A block of another registry or height is refused even when the head names its hash.
#[test]
fn a_walk_stays_in_its_registry() {
    let block = seal(vec![create(1)]);
    let elsewhere = RegistryDomain { chain_id: 2, ..DOMAIN };
    let head = Head { block_hash: block.header.hash(), ..head() };
    for head in [Head { domain: elsewhere, ..head }, Head { height: 2, ..head }, Head { height: 0, ..head }] {
        assert!(ChainWalk::from_head(&head).step_back(&block.header).is_err(), "{head:?}");
    }
    assert_eq!(ChainWalk::from_head(&head).step_back(&block.header), Ok(()));
}

proptest! {
    /// The encoding gives every field back, and heads that differ are signed over different bytes.
    #[test]
    fn heads_round_trip_and_differ_in_their_signed_bytes(one in any_head(), other in any_head()) {
        prop_assert_eq!(decode::<Head>(&encode(&one)), Ok(one));
        prop_assert_eq!(one.signed_bytes().len(), 141 + 22);
        prop_assert_eq!(one.signed_bytes() == other.signed_bytes(), one == other);
        let signed = one.sign(&key(SEED)).expect("signed");
        prop_assert_eq!(signed.verify(), Ok(()));
        let text = serde_json::to_string(&signed).expect("JSON");
        prop_assert_eq!(serde_json::from_str::<SignedHead>(&text).expect("a head"), signed);
    }
}

/// Any head, with few values in each field, so that two are often alike in some.
fn any_head() -> impl Strategy<Value = Head> {
    let hash = || prop_oneof![any::<[u8; 32]>(), Just([0; 32])].prop_map(B256::from);
    let number = || prop_oneof![any::<u64>(), 0..2u64];
    (number(), any::<bool>(), number(), hash(), hash(), hash(), number()).prop_map(
        |(chain_id, is_zero, height, block_hash, result_hash, root, time)| {
            let verifying_contract = if is_zero { Address::ZERO } else { Address::repeat_byte(7) };
            let domain = RegistryDomain { chain_id, verifying_contract };
            Head { domain, height, block_hash, result_hash, root: Root(root), time: UnixSeconds(time) }
        },
    )
}
