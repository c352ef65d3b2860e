// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

/// A stand-in for the registry of issuers. Everyone may call it.
contract IssuerRegistry {
    struct Pubkey {
        uint256 x;
        uint256 y;
    }

    event IssuerSchemaRegistered(uint64 indexed issuerSchemaId, Pubkey pubkey, address signer, uint160 oprfKeyId);
    event IssuerSchemaRemoved(uint64 indexed issuerSchemaId, Pubkey pubkey, address signer);
    event IssuerSchemaPubkeyUpdated(uint64 indexed issuerSchemaId, Pubkey oldPubkey, Pubkey newPubkey);
    event IssuerSchemaSignerUpdated(uint64 indexed issuerSchemaId, address oldSigner, address newSigner);

    mapping(uint64 => Pubkey) private keys;
    mapping(uint64 => address) private signers;

    function register(uint64 id, uint256 x, uint256 y, address signer) external {
        keys[id] = Pubkey(x, y);
        signers[id] = signer;
        emit IssuerSchemaRegistered(id, keys[id], signer, uint160(id));
    }

    function updatePubkey(uint64 id, uint256 x, uint256 y) external {
        emit IssuerSchemaPubkeyUpdated(id, keys[id], Pubkey(x, y));
        keys[id] = Pubkey(x, y);
    }

    function updateSigner(uint64 id, address signer) external {
        emit IssuerSchemaSignerUpdated(id, signers[id], signer);
        signers[id] = signer;
    }

    function remove(uint64 id) external {
        emit IssuerSchemaRemoved(id, keys[id], signers[id]);
        delete keys[id];
        delete signers[id];
    }

    /// Zeros for an issuer that is not registered.
    function issuerSchemaIdToPubkey(uint64 id) external view returns (Pubkey memory) {
        return keys[id];
    }

    function getSignerForIssuerSchemaId(uint64 id) external view returns (address) {
        return signers[id];
    }
}
