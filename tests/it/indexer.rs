//! The indexer's answers: what they say, and that they fit together.

use alloy_primitives::{Address, B256, U256};
use selfsame_protocol::commitment::PublicKey;
use selfsame_protocol::ids::{CompressedKey, LeafIndex, PubkeyId};
use selfsame_protocol::tree::InclusionPath;
use selfsame_wallet::operations::{AccountState, create_account};
use serde_json::{Value, json};

use crate::calls::Caller;
use crate::http_contract::INDEXER_POSTS;
use crate::people::key;

fn one() -> Value {
    json!({"leaf_index": "0x1"})
}

/// The packed data of an address, asked at both prefixes.
async fn packed(caller: &Caller, address: Address) -> U256 {
    let body = json!({"authenticator_address": address});
    let answer = caller.query("/packed-account", body.clone()).await;
    assert_eq!(caller.query("/compat/packed-account", body).await.body, answer.body);
    answer.text("packed_account_data").parse().expect("a number")
}

#[tokio::test]
async fn accounts_that_are_not_there() {
    let caller = Caller::start().await;
    caller.create(&[&key("alice")], Address::ZERO).await;
    for prefix in ["", "/compat"] {
        for path in INDEXER_POSTS.iter().filter(|path| **path != "/packed-account") {
            let query = async |leaf_index: &str| {
                caller.query(&format!("{prefix}{path}"), json!({"leaf_index": leaf_index})).await
            };
            for zero in ["0", "0x0", " 00 "] {
                let message = "leaf_index: leaf 0 is reserved and belongs to no account";
                assert_eq!(query(zero).await.refused(400, "invalid_leaf_index"), message, "{prefix}{path}");
            }
            let (status, code) = match *path {
                "/inclusion-proof" | "/authenticator-pubkeys" | "/authenticators" => (404, "not_found"),
                _ => (400, "account_does_not_exist"),
            };
            for unassigned in ["0x2", "1073741824", "18446744073709551615"] {
                let answer = query(unassigned).await;
                let message = answer.refused(status, code);
                assert!(message.starts_with("no account has leaf index 0x"), "{prefix}{path}: {message}");
            }
            assert_eq!(query("1").await.status, 200, "{prefix}{path}");
        }
        let stranger = key("stranger").address();
        for address in [stranger, Address::ZERO] {
            let answer =
                caller.query(&format!("{prefix}/packed-account"), json!({"authenticator_address": address})).await;
            let message = format!("{address:#x} is not an authenticator of any account");
            assert_eq!(answer.refused(400, "account_does_not_exist"), message);
        }
    }
}

#[tokio::test]
async fn packed_data_through_insertion_and_recovery() {
    let caller = Caller::start().await;
    let domain = caller.domain();
    let [alice, bob, tablet, phone, agent] = ["alice", "bob", "tablet", "phone", "agent"].map(key);
    caller.create(&[&bob], Address::ZERO).await;
    let account = caller.create(&[&alice], agent.address()).await;
    let layout = |counter: u64, pubkey_id: u64, leaf_index: u64| {
        U256::from(counter) << 224 | U256::from(pubkey_id) << 192 | U256::from(leaf_index)
    };
    let account = caller.carry_out(account.insert(&domain, &alice, tablet.authenticator(), PubkeyId(5))).await;
    assert_eq!(packed(&caller, alice.address()).await, layout(0, 0, 2));
    assert_eq!(packed(&caller, tablet.address()).await, layout(0, 5, 2));
    assert_eq!(packed(&caller, bob.address()).await, layout(0, 0, 1));

    caller.carry_out(account.recover(&domain, &agent, phone.authenticator())).await;
    assert_eq!(packed(&caller, phone.address()).await, layout(1, 0, 2));
    for revoked in [alice.address(), tablet.address()] {
        let answer = caller.query("/packed-account", json!({"authenticator_address": revoked})).await;
        let message = format!("{revoked:#x} is not an authenticator of any account");
        assert_eq!(answer.refused(400, "account_does_not_exist"), message);
    }
    // Somebody else may take up what a recovery left behind.
    caller.create(&[&tablet], Address::ZERO).await;
    assert_eq!(packed(&caller, tablet.address()).await, layout(0, 0, 3));
}

#[tokio::test]
async fn slot_lists_keep_their_places() {
    let caller = Caller::start().await;
    let domain = caller.domain();
    let [alice, tablet, phone, agent] = ["alice", "tablet", "phone", "agent"].map(key);
    let account = caller.create(&[&alice], agent.address()).await;
    let account = caller.carry_out(account.insert(&domain, &alice, tablet.authenticator(), PubkeyId(3))).await;
    let slots = |used: [Option<&selfsame_wallet::keys::AuthenticatorKey>; 4]| {
        let keys = used.map(|key| key.map(|key| format!("{:#x}", key.authenticator().compressed_key())));
        let addresses = used.map(|key| key.map(|key| key.address()));
        (json!(keys), json!(addresses))
    };
    let check = async |account: &AccountState, expected: (Value, Value), counter: &str| {
        let answer = caller.query("/authenticators", one()).await;
        let commitment = format!("{:#x}", account.commitment);
        assert_eq!(
            answer.body,
            json!({
                "authenticator_pubkeys": expected.0,
                "authenticator_addresses": expected.1,
                "offchain_signer_commitment": commitment,
                "recovery_counter": counter,
            })
        );
        let answer = caller.query("/authenticator-pubkeys", one()).await;
        assert_eq!(answer.body, json!({"authenticator_pubkeys": expected.0, "offchain_signer_commitment": commitment}));
        let answer = caller.query("/inclusion-proof", one()).await;
        assert_eq!(answer.body["authenticator_pubkeys"], expected.0);
    };
    check(&account, slots([Some(&alice), None, None, Some(&tablet)]), "0x0").await;
    let account = caller.carry_out(account.insert(&domain, &alice, phone.authenticator(), PubkeyId(1))).await;
    check(&account, slots([Some(&alice), Some(&phone), None, Some(&tablet)]), "0x0").await;
    // The list reaches to the highest slot ever used.
    let account = caller.carry_out(account.remove(&domain, &alice, tablet.address())).await;
    check(&account, slots([Some(&alice), Some(&phone), None, None]), "0x0").await;
    let account = caller.carry_out(account.remove(&domain, &phone, alice.address())).await;
    check(&account, slots([None, Some(&phone), None, None]), "0x0").await;
    let account = caller.carry_out(account.remove(&domain, &phone, phone.address())).await;
    check(&account, slots([None; 4]), "0x0").await;
    // A recovery begins a new list.
    let account = caller.carry_out(account.recover(&domain, &agent, tablet.authenticator())).await;
    let key = format!("{:#x}", tablet.authenticator().compressed_key());
    check(&account, (json!([key]), json!([tablet.address()])), "0x1").await;
}

#[tokio::test]
async fn inclusion_proofs_lead_from_the_commitment_to_the_root() {
    let caller = Caller::start().await;
    let names = ["a", "b", "c", "d", "e"];
    for (leaf_index, name) in (1_u64..).zip(names) {
        let account = caller.create(&[&key(name)], Address::ZERO).await;
        assert_eq!(account.leaf_index, LeafIndex(leaf_index));
        let root = caller.standing().await["root"].clone();
        for prefix in ["", "/compat"] {
            let query = json!({"leaf_index": leaf_index.to_string()});
            let answer = caller.query(&format!("{prefix}/inclusion-proof"), query).await;
            assert_eq!((&answer.body["root"], &answer.body["leaf_index"]), (&root, &json!(format!("{leaf_index:#x}"))));
            let siblings: Vec<B256> = serde_json::from_value(answer.body["siblings"].clone()).expect("siblings");
            let path = InclusionPath {
                leaf_index: LeafIndex(leaf_index),
                root: serde_json::from_value(root.clone()).expect("a root"),
                siblings: siblings.try_into().expect("30 siblings"),
            };
            assert_eq!(path.root_from(&account.commitment.leaf()), path.root);
        }
        let url = caller.daemon.gateway(&format!("/is-valid-root?root={}", root.as_str().expect("a root")));
        assert_eq!(caller.get(url).await.body, json!({"valid": true}));
    }
}

#[tokio::test]
async fn the_compatible_form_of_keys() {
    let caller = Caller::start().await;
    let domain = caller.domain();
    let [alice, tablet, phone] = ["alice", "tablet", "phone"].map(key);
    let account = caller.create(&[&alice, &tablet, &phone], Address::ZERO).await;
    let account = caller.carry_out(account.remove(&domain, &alice, tablet.address())).await;
    let affine = |key: PublicKey| {
        let (x, y) = key.coordinates();
        json!({"pk": [x.to_string(), y.to_string()]})
    };
    let [first, third] = [&alice, &phone].map(|key| affine(key.authenticator().public_key));
    let keys = async |prefix: &str| {
        let mut answer = caller.query(&format!("{prefix}/inclusion-proof"), one()).await.body;
        answer["authenticator_pubkeys"].take()
    };
    assert_eq!(keys("/compat").await, json!([first, null, third]));
    // Trailing nulls are left out there, and only there.
    caller.carry_out(account.remove(&domain, &alice, phone.address())).await;
    assert_eq!(keys("/compat").await, json!([first]));
    assert_eq!(keys("").await, json!([format!("{:#x}", alice.authenticator().compressed_key()), null, null]));
}

#[tokio::test]
async fn keys_that_are_no_points() {
    let caller = Caller::start().await;
    // A coordinate past the modulus, one that no point has, the identity, a point of small order, and nothing at all.
    for (number, odd) in [U256::MAX, U256::from(5), U256::from(1), U256::ZERO].into_iter().enumerate() {
        let owner = key(&format!("owner {number}"));
        let mut body =
            serde_json::to_value(create_account(&[owner.authenticator()], Address::ZERO).operation).expect("JSON");
        body["authenticator_pubkeys"] = json!([format!("{odd:#x}")]);
        let accepted = caller.post(caller.daemon.gateway("/create-account"), body.to_string()).await;
        assert_eq!(caller.final_state(accepted.request_id()).await["state"], "finalized");
        let query = json!({"leaf_index": (number + 1).to_string()});
        if PublicKey::decompress(CompressedKey(odd)).is_err() {
            let answer = caller.query("/compat/inclusion-proof", query.clone()).await;
            let message = answer.refused(409, "invalid_authenticator_pubkey");
            assert!(message.starts_with("the public key of slot 0 does not decode: "), "{message}");
        }
        for path in ["/inclusion-proof", "/authenticator-pubkeys", "/authenticators", "/compat/authenticators"] {
            let answer = caller.query(path, query.clone()).await;
            assert_eq!(answer.body["authenticator_pubkeys"], json!([format!("{odd:#x}")]), "{path}");
        }
    }
}

#[tokio::test]
async fn recovery_agents_and_nonces() {
    let caller = Caller::start_with(|config| config.registry.recovery_agent_update_cooldown = crate::calls::HOUR).await;
    let domain = caller.domain();
    let [alice, agent, next] = ["alice", "agent", "next"].map(key);
    let mut account = caller.create(&[&alice], agent.address()).await;
    let execute_after = (crate::harness::START + crate::calls::HOUR).as_secs();
    let check = async |of: &AccountState, agent: Address, pending: Address| {
        let after = if pending.is_zero() { 0 } else { execute_after };
        for prefix in ["", "/compat"] {
            let ask = async |path: &str| caller.query(&format!("{prefix}{path}"), one()).await.body;
            assert_eq!(ask("/signature-nonce").await, json!({"signature_nonce": format!("{:#x}", of.nonce)}));
            assert_eq!(ask("/recovery-agent").await, json!({"recovery_agent": agent}));
            assert_eq!(
                ask("/pending-recovery-agent").await,
                json!({"pending_recovery_agent": pending, "execute_after": format!("{after:#x}")})
            );
        }
    };
    check(&account, agent.address(), Address::ZERO).await;
    account = caller.carry_out(account.update_recovery_agent(&domain, &alice, next.address())).await;
    check(&account, agent.address(), next.address()).await;
    account = caller.carry_out(account.cancel_recovery_agent_update(&domain, &alice)).await;
    check(&account, agent.address(), Address::ZERO).await;
    account = caller.carry_out(account.update_recovery_agent(&domain, &alice, next.address())).await;
    caller.daemon.clock.advance(crate::calls::HOUR);
    account = caller.carry_out(Ok(account.execute_recovery_agent_update())).await;
    check(&account, next.address(), Address::ZERO).await;
}
