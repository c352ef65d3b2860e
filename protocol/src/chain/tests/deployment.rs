//! What a verifier names, the code behind contracts, and relying parties.

use alloy_primitives::aliases::U160;

use super::super::contracts::AnswerError;
use super::super::contracts::abi::RelyingParty;
use super::super::deployment::{AcceptedCode, ContractCode, Deployment, UnacceptedCode, read_implementation};
use super::*;
use crate::chain::deployment::{RegisteredParty, read_relying_party};
use crate::verification::RelyingPartyId;

fn contract(byte: u8) -> Address {
    Address::repeat_byte(byte)
}

#[test]
fn a_deployment_is_read_strictly() {
    let good = [1, 2, 3, 4].map(|byte| returned(contract(byte)));
    let expected =
        Deployment { registry: contract(1), issuers: contract(2), oprf_keys: contract(3), proof_verifier: contract(4) };
    assert_eq!(Deployment::read(&good), Ok(expected));
    let wide = Answer::Returned(B256::repeat_byte(1).0.into());
    for (answer, expected) in [
        (returned(Address::ZERO), AnswerError::NoAddress { call: "getOprfKeyRegistry" }),
        (Answer::Returned(Bytes::new()), AnswerError::NoContract),
        (wide, AnswerError::Encoding { call: "getOprfKeyRegistry" }),
        (returned((contract(1), contract(2))), AnswerError::Encoding { call: "getOprfKeyRegistry" }),
        (Answer::Storage(B256::ZERO), AnswerError::OtherKind),
    ] {
        let mut answers = good.clone();
        answers[2] = answer;
        assert_eq!(Deployment::read(&answers), Err(expected));
    }
}

#[test]
fn an_implementation_is_an_address() {
    assert_eq!(read_implementation(&Answer::Storage(contract(7).into_word())), Ok(contract(7)));
    assert_eq!(read_implementation(&Answer::Storage(B256::ZERO)), Ok(Address::ZERO));
    let word = B256::repeat_byte(7);
    assert_eq!(read_implementation(&Answer::Storage(word)), Err(AnswerError::Implementation { word }));
    assert_eq!(read_implementation(&returned(contract(7))), Err(AnswerError::OtherKind));
}

#[test]
fn code_counts_that_was_seen_first_or_is_listed() {
    let code = |implementation: u8, proof_verifier: Option<u8>| ContractCode {
        // 0 stands for one that the nodes did not tell.
        implementation: (implementation != 0).then(|| contract(implementation)),
        proof_verifier: proof_verifier.map(contract),
    };
    let first = code(1, Some(1));
    let implementation = |byte| Some(UnacceptedCode::Implementation(contract(byte)));
    let proof_verifier = |byte| Some(UnacceptedCode::ProofVerifier(contract(byte)));
    let lists: [&[u8]; 3] = [&[], &[2], &[1, 2]];
    for (implementations, proof_verifiers, now, expected) in [
        (0, 0, code(1, Some(1)), None),
        (0, 0, code(2, Some(1)), implementation(2)),
        (0, 0, code(1, Some(2)), proof_verifier(2)),
        (0, 0, code(1, None), None),
        (0, 0, code(0, Some(1)), None),
        (0, 0, code(0, Some(2)), proof_verifier(2)),
        (1, 1, code(0, Some(2)), None),
        (1, 0, code(1, Some(1)), implementation(1)),
        (1, 0, code(2, Some(1)), None),
        (1, 1, code(2, Some(1)), proof_verifier(1)),
        (2, 2, code(1, Some(2)), None),
        (2, 2, code(3, Some(3)), implementation(3)),
    ] {
        let list = |index: usize| lists[index].iter().copied().map(contract).collect();
        let accepted = AcceptedCode { implementations: list(implementations), proof_verifiers: list(proof_verifiers) };
        assert_eq!(accepted.unaccepted(&first, &now), expected, "{accepted:?} {now:?}");
    }
    // What was not told at first is pinned when it is told.
    let untold = code(0, Some(1));
    assert_eq!(AcceptedCode::default().unaccepted(&untold, &code(2, Some(1))), None);
    assert_eq!(untold.completed_by(code(2, Some(2))), code(2, Some(1)));
}

#[test]
fn relying_parties_are_read_strictly() {
    let rp_id = RelyingPartyId(9);
    let party = |oprf_key_id: u64| RelyingParty {
        initialized: true,
        active: true,
        manager: contract(1),
        signer: contract(2),
        oprfKeyId: U160::from(oprf_key_id),
        unverifiedWellKnownDomain: "example.org".to_owned(),
    };
    let read = |party: RelyingParty| read_relying_party(rp_id, &returned(party));
    let registered = RegisteredParty { is_active: true, signer: contract(2), has_own_oprf_key: true };
    assert_eq!(read(party(9)), Ok(Some(registered)));
    assert_eq!(read(party(8)), Ok(Some(RegisteredParty { has_own_oprf_key: false, ..registered })));
    let inactive = RelyingParty { active: false, ..party(9) };
    assert_eq!(read(inactive), Ok(Some(RegisteredParty { is_active: false, ..registered })));
    assert_eq!(read(RelyingParty { initialized: false, ..party(9) }), Ok(None));
    let unknown = Answer::Reverted(Bytes::from_static(&[0x32, 0x00, 0xe7, 0xc0]));
    assert_eq!(read_relying_party(rp_id, &unknown), Ok(None));
    let inactive = Bytes::from_static(&[0x0b, 0xfc, 0x5e, 0x0d]);
    let reverted = AnswerError::Reverted { call: "getRpUnchecked", data: inactive.clone() };
    assert_eq!(read_relying_party(rp_id, &Answer::Reverted(inactive)), Err(reverted));
    assert_eq!(read_relying_party(rp_id, &Answer::Returned(Bytes::new())), Err(AnswerError::NoContract));
}
