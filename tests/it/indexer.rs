//! The indexer's answers: their contents, and that they agree with each other.

use alloy_primitives::{Address, B256, U256};
use selfsame_protocol::commitment::PublicKey;
use selfsame_protocol::ids::{CompressedKey, LeafIndex, PubkeyId};
use selfsame_protocol::tree::InclusionPath;
use selfsame_wallet::operations::{AccountState, create_account};
use serde_json::{Value, json};

use crate::http_contract::INDEXER_POSTS;
use crate::registry_client::RegistryClient;
use crate::test_accounts::key;

fn one() -> Value {
    json!({"leaf_index": "0x1"})
}

/// The packed data of an address, asked under both prefixes.
async fn packed(client: &RegistryClient, address: Address) -> U256 {
    let body = json!({"authenticator_address": address});
    let answer = client.query("/packed-account", body.clone()).await;
    assert_eq!(client.query("/compat/packed-account", body).await.body, answer.body);
    answer.text("packed_account_data").parse().expect("a number")
}

#[tokio::test]
async fn unknown_accounts_are_refused_by_every_query() {
    let client = RegistryClient::start().await;
    client.create(&[&key("alice")], Address::ZERO).await;
    for prefix in ["", "/compat"] {
        for path in INDEXER_POSTS.iter().filter(|path| **path != "/packed-account") {
            let query = async |leaf_index: &str| {
                client.query(&format!("{prefix}{path}"), json!({"leaf_index": leaf_index})).await
            };
            for zero in ["0", "0x0", " 00 "] {
                let message = "leaf_index: leaf 0 is reserved and belongs to no account";
                assert_eq!(query(zero).await.expect_error(400, "invalid_leaf_index"), message, "{prefix}{path}");
            }
            let (status, code) = match *path {
                "/inclusion-proof" | "/authenticator-pubkeys" | "/authenticators" => (404, "not_found"),
                _ => (400, "account_does_not_exist"),
            };
            for unassigned in ["0x2", "1073741824", "18446744073709551615"] {
                let answer = query(unassigned).await;
                let message = answer.expect_error(status, code);
                assert!(message.starts_with("no account has leaf index 0x"), "{prefix}{path}: {message}");
            }
            assert_eq!(query("1").await.status, 200, "{prefix}{path}");
        }
        let stranger = key("stranger").address();
        for address in [stranger, Address::ZERO] {
            let answer =
                client.query(&format!("{prefix}/packed-account"), json!({"authenticator_address": address})).await;
            let message = format!("{address:#x} is not an authenticator of any account");
            assert_eq!(answer.expect_error(400, "account_does_not_exist"), message);
        }
    }
}

#[tokio::test]
async fn packed_data_follows_insertion_and_recovery() {
    let client = RegistryClient::start().await;
    let domain = client.domain();
    let [alice, bob, tablet, phone, agent] = ["alice", "bob", "tablet", "phone", "agent"].map(key);
    client.create(&[&bob], Address::ZERO).await;
    let account = client.create(&[&alice], agent.address()).await;
    let layout = |counter: u64, pubkey_id: u64, leaf_index: u64| {
        U256::from(counter) << 224 | U256::from(pubkey_id) << 192 | U256::from(leaf_index)
    };
    let account = client.carry_out(account.insert(&domain, &alice, tablet.authenticator(), PubkeyId(5))).await;
    assert_eq!(packed(&client, alice.address()).await, layout(0, 0, 2));
    assert_eq!(packed(&client, tablet.address()).await, layout(0, 5, 2));
    assert_eq!(packed(&client, bob.address()).await, layout(0, 0, 1));

    client.carry_out(account.recover(&domain, &agent, phone.authenticator())).await;
    assert_eq!(packed(&client, phone.address()).await, layout(1, 0, 2));
    for revoked in [alice.address(), tablet.address()] {
        let answer = client.query("/packed-account", json!({"authenticator_address": revoked})).await;
        let message = format!("{revoked:#x} is not an authenticator of any account");
        assert_eq!(answer.expect_error(400, "account_does_not_exist"), message);
    }
    // A new account may use an address that a recovery left behind.
    client.create(&[&tablet], Address::ZERO).await;
    assert_eq!(packed(&client, tablet.address()).await, layout(0, 0, 3));
}

#[tokio::test]
async fn slot_lists_keep_removed_slots() {
    let client = RegistryClient::start().await;
    let domain = client.domain();
    let [alice, tablet, phone, agent] = ["alice", "tablet", "phone", "agent"].map(key);
    let account = client.create(&[&alice], agent.address()).await;
    let account = client.carry_out(account.insert(&domain, &alice, tablet.authenticator(), PubkeyId(3))).await;
    let slots = |used: [Option<&selfsame_wallet::keys::AuthenticatorKey>; 4]| {
        let keys = used.map(|key| key.map(|key| format!("{:#x}", key.authenticator().compressed_key())));
        let addresses = used.map(|key| key.map(|key| key.address()));
        (json!(keys), json!(addresses))
    };
    let check = async |account: &AccountState, expected: (Value, Value), counter: &str| {
        let answer = client.query("/authenticators", one()).await;
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
        let answer = client.query("/authenticator-pubkeys", one()).await;
        assert_eq!(answer.body, json!({"authenticator_pubkeys": expected.0, "offchain_signer_commitment": commitment}));
        let answer = client.query("/inclusion-proof", one()).await;
        assert_eq!(answer.body["authenticator_pubkeys"], expected.0);
    };
    check(&account, slots([Some(&alice), None, None, Some(&tablet)]), "0x0").await;
    let account = client.carry_out(account.insert(&domain, &alice, phone.authenticator(), PubkeyId(1))).await;
    check(&account, slots([Some(&alice), Some(&phone), None, Some(&tablet)]), "0x0").await;
    // The list ends with the highest slot ever used.
    let account = client.carry_out(account.remove(&domain, &alice, tablet.address())).await;
    check(&account, slots([Some(&alice), Some(&phone), None, None]), "0x0").await;
    let account = client.carry_out(account.remove(&domain, &phone, alice.address())).await;
    check(&account, slots([None, Some(&phone), None, None]), "0x0").await;
    let account = client.carry_out(account.remove(&domain, &phone, phone.address())).await;
    check(&account, slots([None; 4]), "0x0").await;
    // A recovery starts a new list.
    let account = client.carry_out(account.recover(&domain, &agent, tablet.authenticator())).await;
    let key = format!("{:#x}", tablet.authenticator().compressed_key());
    check(&account, (json!([key]), json!([tablet.address()])), "0x1").await;
}

#[tokio::test]
async fn inclusion_proofs_lead_from_the_commitment_to_the_root() {
    let client = RegistryClient::start().await;
    let names = ["a", "b", "c", "d", "e"];
    for (leaf_index, name) in (1_u64..).zip(names) {
        let account = client.create(&[&key(name)], Address::ZERO).await;
        assert_eq!(account.leaf_index, LeafIndex(leaf_index));
        let root = client.standing().await["root"].clone();
        for prefix in ["", "/compat"] {
            let query = json!({"leaf_index": leaf_index.to_string()});
            let answer = client.query(&format!("{prefix}/inclusion-proof"), query).await;
            assert_eq!((&answer.body["root"], &answer.body["leaf_index"]), (&root, &json!(format!("{leaf_index:#x}"))));
            let siblings: Vec<B256> = serde_json::from_value(answer.body["siblings"].clone()).expect("siblings");
            let path = InclusionPath {
                leaf_index: LeafIndex(leaf_index),
                root: serde_json::from_value(root.clone()).expect("a root"),
                siblings: siblings.try_into().expect("30 siblings"),
            };
            assert_eq!(path.root_from(&account.commitment.leaf()), path.root);
        }
        let url = client.daemon.gateway(&format!("/is-valid-root?root={}", root.as_str().expect("a root")));
        assert_eq!(client.get(url).await.body, json!({"valid": true}));
    }
}

#[tokio::test]
async fn the_compatible_form_of_keys_leaves_out_trailing_nulls() {
    let client = RegistryClient::start().await;
    let domain = client.domain();
    let [alice, tablet, phone] = ["alice", "tablet", "phone"].map(key);
    let account = client.create(&[&alice, &tablet, &phone], Address::ZERO).await;
    let account = client.carry_out(account.remove(&domain, &alice, tablet.address())).await;
    let affine = |key: PublicKey| {
        let (x, y) = key.coordinates();
        json!({"pk": [x.to_string(), y.to_string()]})
    };
    let [first, third] = [&alice, &phone].map(|key| affine(key.authenticator().public_key));
    let keys = async |prefix: &str| {
        let mut answer = client.query(&format!("{prefix}/inclusion-proof"), one()).await.body;
        answer["authenticator_pubkeys"].take()
    };
    assert_eq!(keys("/compat").await, json!([first, null, third]));
    // Only the compatible form leaves out trailing nulls.
    client.carry_out(account.remove(&domain, &alice, phone.address())).await;
    assert_eq!(keys("/compat").await, json!([first]));
    assert_eq!(keys("").await, json!([format!("{:#x}", alice.authenticator().compressed_key()), null, null]));
}

#[tokio::test]
async fn keys_that_are_not_points_are_listed_as_they_are() {
    let client = RegistryClient::start().await;
    // A coordinate above the modulus, a coordinate without a point, the identity, and zero.
    for (number, odd) in [U256::MAX, U256::from(5), U256::from(1), U256::ZERO].into_iter().enumerate() {
        let owner = key(&format!("owner {number}"));
        let mut body =
            serde_json::to_value(create_account(&[owner.authenticator()], Address::ZERO).operation).expect("JSON");
        body["authenticator_pubkeys"] = json!([format!("{odd:#x}")]);
        let accepted = client.post(client.daemon.gateway("/create-account"), body.to_string()).await;
        assert_eq!(client.final_state(accepted.request_id()).await["state"], "finalized");
        let query = json!({"leaf_index": (number + 1).to_string()});
        if PublicKey::decompress(CompressedKey(odd)).is_err() {
            let answer = client.query("/compat/inclusion-proof", query.clone()).await;
            let message = answer.expect_error(409, "invalid_authenticator_pubkey");
            assert!(message.starts_with("the public key of slot 0 does not decode: "), "{message}");
        }
        for path in ["/inclusion-proof", "/authenticator-pubkeys", "/authenticators", "/compat/authenticators"] {
            let answer = client.query(path, query.clone()).await;
            assert_eq!(answer.body["authenticator_pubkeys"], json!([format!("{odd:#x}")]), "{path}");
        }
    }
}

#[tokio::test]
async fn recovery_agents_and_nonces_follow_the_operations() {
    let client = RegistryClient::start_with(|config| {
        config.registry.recovery_agent_update_cooldown = crate::registry_client::HOUR.into()
    })
    .await;
    let domain = client.domain();
    let [alice, agent, next] = ["alice", "agent", "next"].map(key);
    let mut account = client.create(&[&alice], agent.address()).await;
    let execute_after = (crate::harness::START + crate::registry_client::HOUR).as_secs();
    let check = async |of: &AccountState, agent: Address, pending: Address| {
        let after = if pending.is_zero() { 0 } else { execute_after };
        for prefix in ["", "/compat"] {
            let ask = async |path: &str| client.query(&format!("{prefix}{path}"), one()).await.body;
            assert_eq!(ask("/signature-nonce").await, json!({"signature_nonce": format!("{:#x}", of.nonce)}));
            assert_eq!(ask("/recovery-agent").await, json!({"recovery_agent": agent}));
            assert_eq!(
                ask("/pending-recovery-agent").await,
                json!({"pending_recovery_agent": pending, "execute_after": format!("{after:#x}")})
            );
        }
    };
    check(&account, agent.address(), Address::ZERO).await;
    account = client.carry_out(account.update_recovery_agent(&domain, &alice, next.address())).await;
    check(&account, agent.address(), next.address()).await;
    account = client.carry_out(account.cancel_recovery_agent_update(&domain, &alice)).await;
    check(&account, agent.address(), Address::ZERO).await;
    account = client.carry_out(account.update_recovery_agent(&domain, &alice, next.address())).await;
    client.daemon.clock.advance(crate::registry_client::HOUR);
    account = client.carry_out(Ok(account.execute_recovery_agent_update())).await;
    check(&account, next.address(), Address::ZERO).await;
}
