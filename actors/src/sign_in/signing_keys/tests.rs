use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use selfsame_protocol::encoding::encode;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::*;
use crate::clock::SystemRandom;

/// The algorithms, each with its name in headers.
const ALGORITHMS: [(SigningAlgorithm, Algorithm); 2] =
    [(SigningAlgorithm::Rs256, Algorithm::RS256), (SigningAlgorithm::Es256, Algorithm::ES256)];

fn make(algorithm: SigningAlgorithm, cipher: Option<&KeyCipher>) -> SigningKey {
    generate(algorithm, &SystemRandom, cipher, UnixSeconds(0)).expect("a key")
}

/// Stored keys of which the current one is the only one.
fn only(current: SigningKey) -> SigningKeys {
    let keys = vec![SigningKey { promoted_at: Some(UnixSeconds(0)), ..current }];
    SigningKeys { keys, sessions_ended_at: None }
}

fn load(current: SigningKey) -> LoadedKeys {
    LoadedKeys::load(only(current), None).expect("the key is readable")
}

fn claims() -> Map<String, Value> {
    [("sub", "0x1"), ("aud", "app_a")].into_iter().map(|(name, value)| (name.to_owned(), json!(value))).collect()
}

fn hint() -> IdTokenHint {
    IdTokenHint { subject: "0x1".to_owned(), client_id: "app_a".to_owned() }
}

#[test]
fn keys_of_each_algorithm_are_stored_published_and_sign() {
    let cipher = KeyCipher::new(&[7; 32]).expect("a cipher");
    for (algorithm, name) in ALGORITHMS {
        for cipher in [None, Some(&cipher)] {
            let key = make(algorithm, cipher);
            assert_eq!(key.algorithm(), Some(algorithm));
            assert_eq!(is_encrypted(key.private_key.as_deref().expect("a private key")), cipher.is_some());
            let id = key.id.clone();
            let keys = LoadedKeys::load(only(key), cipher).expect("the key is readable");
            assert_eq!((&keys.public[0].kid, keys.public[0].alg), (&id, algorithm));
            let token = keys.sign(&claims()).expect("signed");
            let header = jsonwebtoken::decode_header(&token).expect("a header");
            assert_eq!((header.alg, header.kid.as_ref(), header.typ.as_deref()), (name, Some(&id), Some("JWT")));
            assert!(keys.include_signer_of(&token));
            assert_eq!(keys.read_hint(&token), Some(hint()));
            let request = keys.sign_as("selfsame-request+jwt", &claims()).expect("signed");
            assert_eq!(jsonwebtoken::decode_header(&request).expect("a header").alg, name);
            assert_eq!(keys.read_hint(&request), None, "another type of object is no hint");
        }
    }
}

#[test]
fn a_published_key_has_the_members_of_its_type_and_is_read_again() {
    for (algorithm, _) in ALGORITHMS {
        let keys = load(make(algorithm, None));
        let text = serde_json::to_string(&keys.public[0]).expect("JSON");
        let members: &[&str] = match algorithm {
            SigningAlgorithm::Rs256 => &["kty", "n", "e", "kid", "use", "alg"],
            SigningAlgorithm::Es256 => &["kty", "crv", "x", "y", "kid", "use", "alg"],
        };
        let places: Vec<usize> =
            members.iter().map(|member| text.find(&format!("\"{member}\":")).expect("a member")).collect();
        assert!(places.is_sorted(), "{text}");
        let object: Map<String, Value> = serde_json::from_str(&text).expect("an object");
        assert_eq!(object.len(), members.len(), "public parts only: {text}");
    }
}

#[test]
fn the_id_of_a_key_on_p_256_is_a_hash_of_its_coordinates() {
    let key = make(SigningAlgorithm::Es256, None);
    let (id, point) = (key.id.clone(), key.public_key.clone());
    let keys = load(key);
    let JwkParameters::Ec { crv, x, y } = &keys.public[0].parameters else { panic!("{:?}", keys.public) };
    let coordinates = [x, y].map(|coordinate| URL_SAFE_NO_PAD.decode(coordinate).expect("base64url")).concat();
    assert_eq!((*crv, point), ("P-256", [&[0x04][..], &coordinates].concat()));
    assert_eq!(id, URL_SAFE_NO_PAD.encode(&Sha256::digest(&coordinates)[..16]));
}

#[test]
fn keys_that_are_damaged_or_of_two_pairs_are_not_read() {
    for (algorithm, _) in ALGORITHMS {
        let (key, other) = (make(algorithm, None), make(algorithm, None));
        let mut changed = key.public_key.clone();
        *changed.last_mut().expect("a byte") ^= 1;
        let cut = key.public_key[..key.public_key.len() - 1].to_vec();
        let other_form = [&[0x02][..], &key.public_key[1..]].concat();
        let public_keys = [other.public_key.clone(), changed, cut, other_form, Vec::new()];
        let with_public_key = |public_key: Vec<u8>| SigningKey { public_key, ..key.clone() };
        let wrong_private_key = SigningKey { private_key: other.private_key.clone(), ..key.clone() };
        let no_private_key = SigningKey { private_key: Some(Vec::new()), ..key.clone() };
        let damaged = public_keys.map(with_public_key).into_iter().chain([wrong_private_key, no_private_key]);
        for (number, damaged) in damaged.enumerate() {
            let read = LoadedKeys::load(only(damaged), None).map(drop);
            assert!(
                matches!(&read, Err(SigningError::Unreadable(id)) if *id == key.id),
                "{algorithm:?} {number}: {read:?}"
            );
        }
        // A retired key has no private part, and takes as much room as MOST_RETIRED says.
        let at = Some(UnixSeconds(1));
        let retired = SigningKey { private_key: None, promoted_at: at, retired_at: at, ..key };
        let bytes = if algorithm == SigningAlgorithm::Rs256 { 327 } else { 122 };
        assert_eq!(encode(&retired).len(), bytes);
        assert_eq!(LoadedKeys::load(only(retired), None).expect("the key is readable").public.len(), 1);
    }
}

/// The header decides nothing: each forgery has the id of a published key.
#[test]
fn a_token_whose_header_has_another_algorithm_than_its_key_is_refused() {
    for [algorithm, other] in
        [[SigningAlgorithm::Rs256, SigningAlgorithm::Es256], [SigningAlgorithm::Es256, SigningAlgorithm::Rs256]]
    {
        let key = make(algorithm, None);
        let (id, public_key) = (key.id.clone(), key.public_key.clone());
        let keys = load(key);
        let token = keys.sign(&claims()).expect("signed");
        let (_, payload_and_signature) = token.split_once('.').expect("a header");
        for alg in ["RS256", "ES256", "HS256", "PS256", "ES384", "EdDSA", "none"] {
            let header = URL_SAFE_NO_PAD.encode(json!({"alg": alg, "kid": id, "typ": "JWT"}).to_string());
            let forged = format!("{header}.{payload_and_signature}");
            assert_eq!(keys.read_hint(&forged), None, "{algorithm:?} as {alg}");
        }
        // A public key is a secret that everyone knows.
        let header = Header { kid: Some(id.clone()), ..Header::new(Algorithm::HS256) };
        let forged = jsonwebtoken::encode(&header, &claims(), &EncodingKey::from_secret(&public_key)).expect("signed");
        assert_eq!(keys.read_hint(&forged), None, "{algorithm:?} as a secret");
        let forged = load(SigningKey { id, ..make(other, None) }).sign(&claims()).expect("signed");
        assert_eq!(keys.read_hint(&forged), None, "a key of {other:?} with the id of another key");
        assert_eq!(keys.read_hint(&token), Some(hint()));
    }
}
