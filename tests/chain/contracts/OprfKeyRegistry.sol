// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

/// A stand-in for the registry of OPRF keys, without the rounds that make a key. Everyone may call
/// it.
contract OprfKeyRegistry {
    struct Affine {
        uint256 x;
        uint256 y;
    }

    struct PublicKeyAndEpoch {
        Affine key;
        uint32 epoch;
    }

    event SecretGenFinalize(uint160 indexed oprfKeyId, uint32 indexed epoch);
    event KeyDeletion(uint160 indexed oprfKeyId);

    error UnknownId(uint160 id);
    error DeletedId(uint160 id);

    mapping(uint160 => PublicKeyAndEpoch) private keys;
    mapping(uint160 => bool) private isDeleted;

    function setKey(uint160 id, uint256 x, uint256 y) external {
        if (isDeleted[id]) revert DeletedId(id);
        keys[id] = PublicKeyAndEpoch(Affine(x, y), 0);
        emit SecretGenFinalize(id, 0);
    }

    /// A new sharing of the same key: the point stays.
    function reshare(uint160 id) external {
        keys[id].epoch += 1;
        emit SecretGenFinalize(id, keys[id].epoch);
    }

    function deleteKey(uint160 id) external {
        isDeleted[id] = true;
        delete keys[id];
        emit KeyDeletion(id);
    }

    function getOprfPublicKey(uint160 id) external view returns (Affine memory) {
        return find(id).key;
    }

    function getOprfPublicKeyAndEpoch(uint160 id) external view returns (PublicKeyAndEpoch memory) {
        return find(id);
    }

    function find(uint160 id) private view returns (PublicKeyAndEpoch storage) {
        if (isDeleted[id]) revert DeletedId(id);
        if (keys[id].key.x == 0) revert UnknownId(id);
        return keys[id];
    }
}
