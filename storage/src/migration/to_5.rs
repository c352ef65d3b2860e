//! Schema 5: the nodes may not tell the implementation behind a contract, so it is optional.

use alloy_primitives::Address;
use selfsame_protocol::chain::deployment::ContractCode;
use selfsame_protocol::encode_fields;
use selfsame_protocol::encoding::{DecodeError, decode, encode};

use super::{FamilyChange, SchemaChange};
use crate::schema::family;

pub(super) const CHANGE: SchemaChange = SchemaChange {
    families: &[FamilyChange { family: family::CONTRACT_CODE.name, change: contract_code }],
    ..SchemaChange::NONE
};

/// A contract's code in schema 4.
struct ContractCode4 {
    implementation: Address,
    proof_verifier: Option<Address>,
}

encode_fields!(ContractCode4 { implementation, proof_verifier } version 1 of "a contract's code");

/// In schema 4 a record was only made when the nodes had told the implementation.
fn contract_code(old: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let ContractCode4 { implementation, proof_verifier } = decode(old)?;
    Ok(encode(&ContractCode { implementation: Some(implementation), proof_verifier }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_implementation_becomes_optional_and_nothing_else_changes() {
        let address = Address::repeat_byte;
        for proof_verifier in [None, Some(address(2))] {
            let old = encode(&ContractCode4 { implementation: address(1), proof_verifier });
            let new: ContractCode = decode(&contract_code(&old).expect("it decodes")).expect("it decodes");
            assert_eq!(new, ContractCode { implementation: Some(address(1)), proof_verifier });
        }
        assert!(contract_code(&[1, 2, 3]).is_err(), "a damaged record is no record of the schema");
    }
}
