//! The registry's key and its signed heads.

use selfsame_protocol::ledger::{HeadComparison, SignedHead, compare_heads};

use super::*;
use crate::{HeadSigningError, KeyCipher};

/// Starts a service on a store, with the key that encrypts private keys.
async fn start_on(store: &Store, instance: &'static str, key_encryption_key: Option<[u8; 32]>) -> Service {
    let mut settings = Settings::for_instance(instance);
    settings.sign_in.key_cipher = key_encryption_key.map(|key| Arc::new(KeyCipher::new(&key).expect("a cipher")));
    let service = Service::start(ServiceParts::new(settings, store.clone()).clock(clock()));
    service.await.expect("the service starts")
}

async fn stop(service: Service) {
    timeout(PATIENCE, service.stop()).await.expect("the service stops");
}

async fn head(service: &Service) -> Arc<SignedHead> {
    service.registry().signed_head().await.expect("a head")
}

async fn create_account(service: &Service, number: u64) {
    let registry = service.registry();
    let request_id = submit(&registry, number).await;
    expect_finalized(&registry, &request_id).await;
}

#[tokio::test]
async fn each_head_is_signed_once_and_with_one_key() {
    let (_folder, _, store, _) = service_parts("heads");
    let service = start_on(&store, "heads", None).await;
    let empty = head(&service).await;
    assert_eq!((empty.head.height, empty.head.domain, empty.verify()), (0, DOMAIN, Ok(())));
    assert!(Arc::ptr_eq(&empty, &head(&service).await), "signed once");
    create_account(&service, 1).await;
    let registry = service.registry();
    // Many callers at a time get one signature.
    let callers: Vec<_> = (0..8)
        .map(|_| {
            let registry = registry.clone();
            tokio::spawn(async move { registry.signed_head().await.expect("a head") })
        })
        .collect();
    let first = head(&service).await;
    for caller in callers {
        assert!(Arc::ptr_eq(&first, &caller.await.expect("no panic")), "signed once");
    }
    let tip = *registry.snapshot().tip();
    assert_eq!((first.head.height, first.head.block_hash), (1, tip.seal.hash));
    assert_eq!((first.head.result_hash, first.head.root, first.head.time), (tip.result_hash, tip.root, tip.seal.time));
    assert_eq!(compare_heads(&empty, &first), Ok(HeadComparison::DifferentHeights));
    drop(registry);
    stop(service).await;
    // After a restart, the same head has the same signature.
    let service = start_on(&store, "heads", None).await;
    assert_eq!(*head(&service).await, *first);
    stop(service).await;
}

#[tokio::test]
async fn callers_that_race_for_the_first_key_get_the_same_one() {
    let (_folder, _, store, _) = service_parts("first-key");
    let service = start_on(&store, "first-key", None).await;
    let heads = futures_util::future::join_all((0..8).map(|_| head(&service))).await;
    assert!(heads.iter().all(|other| other.public_key == heads[0].public_key), "{heads:?}");
    stop(service).await;
    let service = start_on(&store, "first-key", None).await;
    assert_eq!(head(&service).await.public_key, heads[0].public_key);
    stop(service).await;
}

#[tokio::test]
async fn the_key_is_encrypted_in_the_store_and_stays_the_same() {
    let (_folder, _, store, _) = service_parts("encrypted-key");
    let outcome = async |key| {
        let service = start_on(&store, "encrypted-key", key).await;
        let outcome = service.registry().signed_head().await.map(|head| head.public_key);
        stop(service).await;
        outcome
    };
    let key = outcome(None).await.expect("a head");
    // The key that was stored before is encrypted now.
    for _ in 0..2 {
        assert_eq!(outcome(Some([7; 32])).await.expect("a head"), key);
    }
    assert!(matches!(outcome(None).await, Err(HeadSigningError::Encrypted)));
    assert!(matches!(outcome(Some([8; 32])).await, Err(HeadSigningError::Decrypt)));
    assert_eq!(outcome(Some([7; 32])).await.expect("a head"), key);
    // A key that is encrypted from the first start on.
    let (_folder, _, store, _) = service_parts("encrypted-key");
    let service = start_on(&store, "encrypted-key", Some([7; 32])).await;
    let other = head(&service).await.public_key;
    assert_ne!(other, key, "every store has its own key");
    stop(service).await;
    let service = start_on(&store, "encrypted-key", None).await;
    assert!(matches!(service.registry().signed_head().await, Err(HeadSigningError::Encrypted)));
    stop(service).await;
}
