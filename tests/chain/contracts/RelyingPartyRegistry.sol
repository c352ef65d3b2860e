// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

/// A stand-in for the registry of relying parties. Everyone may call it.
contract RelyingPartyRegistry {
    struct RelyingParty {
        bool initialized;
        bool active;
        address manager;
        address signer;
        uint160 oprfKeyId;
        string unverifiedWellKnownDomain;
    }

    event RpRegistered(uint64 indexed rpId, uint160 indexed oprfKeyId, address manager, string unverifiedWellKnownDomain);
    event RpUpdated(
        uint64 indexed rpId,
        uint160 indexed oprfKeyId,
        bool active,
        address manager,
        address signer,
        string unverifiedWellKnownDomain
    );

    error RpIdDoesNotExist();
    error RpIdInactive();

    mapping(uint64 => RelyingParty) private parties;

    function register(uint64 id, address manager, address signer, string calldata domain) external {
        parties[id] = RelyingParty(true, true, manager, signer, uint160(id), domain);
        emit RpRegistered(id, uint160(id), manager, domain);
    }

    function update(uint64 id, bool active, address signer) external {
        RelyingParty storage party = parties[id];
        party.active = active;
        party.signer = signer;
        emit RpUpdated(id, party.oprfKeyId, active, party.manager, signer, party.unverifiedWellKnownDomain);
    }

    function getRp(uint64 id) external view returns (RelyingParty memory) {
        if (!parties[id].initialized) revert RpIdDoesNotExist();
        if (!parties[id].active) revert RpIdInactive();
        return parties[id];
    }

    function getRpUnchecked(uint64 id) external view returns (RelyingParty memory) {
        if (!parties[id].initialized) revert RpIdDoesNotExist();
        return parties[id];
    }

    function getOprfKeyIdAndSigner(uint64 id) external view returns (uint160, address) {
        if (!parties[id].initialized) revert RpIdDoesNotExist();
        return (parties[id].oprfKeyId, parties[id].signer);
    }
}
