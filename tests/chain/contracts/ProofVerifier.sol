// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

/// A stand-in for the verifier, which knows where the other contracts are, and whose
/// implementation can be changed as behind a proxy (ERC-1967). It verifies nothing. Everyone may
/// call it.
contract ProofVerifier {
    /// The storage slot of the implementation's address, from ERC-1967.
    bytes32 private constant IMPLEMENTATION = 0x360894a13ba1a3210667c828492db98dca3e2076cc3735a920a3ca505d382bbc;

    event WorldIDRegistryUpdated(address oldRegistry, address newRegistry);
    event CredentialSchemaIssuerRegistryUpdated(address oldRegistry, address newRegistry);
    event OprfKeyRegistryUpdated(address oldRegistry, address newRegistry);
    event VerifierUpdated(address oldVerifier, address newVerifier);
    event MinExpirationThresholdUpdated(uint64 oldThreshold, uint64 newThreshold);
    event Upgraded(address indexed implementation);

    address public getWorldIDRegistry;
    address public getCredentialSchemaIssuerRegistry;
    address public getOprfKeyRegistry;
    address public getVerifier;
    uint64 public getMinExpirationThreshold = 5 hours;

    constructor(address registry, address issuers, address keys, address verifier) {
        getWorldIDRegistry = registry;
        getCredentialSchemaIssuerRegistry = issuers;
        getOprfKeyRegistry = keys;
        getVerifier = verifier;
    }

    function updateWorldIDRegistry(address registry) external {
        emit WorldIDRegistryUpdated(getWorldIDRegistry, registry);
        getWorldIDRegistry = registry;
    }

    function updateCredentialSchemaIssuerRegistry(address registry) external {
        emit CredentialSchemaIssuerRegistryUpdated(getCredentialSchemaIssuerRegistry, registry);
        getCredentialSchemaIssuerRegistry = registry;
    }

    function updateOprfKeyRegistry(address registry) external {
        emit OprfKeyRegistryUpdated(getOprfKeyRegistry, registry);
        getOprfKeyRegistry = registry;
    }

    function updateVerifier(address verifier) external {
        emit VerifierUpdated(getVerifier, verifier);
        getVerifier = verifier;
    }

    function updateMinExpirationThreshold(uint64 threshold) external {
        emit MinExpirationThresholdUpdated(getMinExpirationThreshold, threshold);
        getMinExpirationThreshold = threshold;
    }

    /// Writes another implementation's address; what this contract does stays the same.
    function setImplementation(address implementation) external {
        assembly {
            sstore(IMPLEMENTATION, implementation)
        }
        emit Upgraded(implementation);
    }
}
