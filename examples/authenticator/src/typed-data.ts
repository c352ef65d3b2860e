// The EIP-712 messages of the registry's operations.

import { signTyped } from "micro-eth-signer";
import type { Key } from "./keys.js";

/** What `GET /config` of the gateway says about the registry. */
export interface Domain {
  chainId: number;
  registryAddress: string;
}

const uint64 = "uint64";
const uint32 = "uint32";
const uint256 = "uint256";
const address = "address";

/** The fields of each type, in their order: all of this is part of what is signed. */
export const TYPES = {
  UpdateAuthenticator: {
    leafIndex: uint64,
    oldAuthenticatorAddress: address,
    newAuthenticatorAddress: address,
    pubkeyId: uint32,
    newAuthenticatorPubkey: uint256,
    newOffchainSignerCommitment: uint256,
    nonce: uint256,
  },
  InsertAuthenticator: {
    leafIndex: uint64,
    newAuthenticatorAddress: address,
    pubkeyId: uint32,
    newAuthenticatorPubkey: uint256,
    newOffchainSignerCommitment: uint256,
    nonce: uint256,
  },
  RemoveAuthenticator: {
    leafIndex: uint64,
    authenticatorAddress: address,
    pubkeyId: uint32,
    authenticatorPubkey: uint256,
    newOffchainSignerCommitment: uint256,
    nonce: uint256,
  },
  RecoverAccount: {
    leafIndex: uint64,
    newAuthenticatorAddress: address,
    newAuthenticatorPubkey: uint256,
    newOffchainSignerCommitment: uint256,
    nonce: uint256,
  },
  InitiateRecoveryAgentUpdate: { leafIndex: uint64, newRecoveryAgent: address, nonce: uint256 },
  CancelRecoveryAgentUpdate: { leafIndex: uint64, nonce: uint256 },
};

export type TypeName = keyof typeof TYPES;

/** Signs an operation: 65 bytes as `0x` and hex digits. */
export function sign(domain: Domain, type: TypeName, message: Record<string, bigint | string>, key: Key): string {
  const fields = Object.entries(TYPES[type]).map(([name, type]) => ({ name, type }));
  const EIP712Domain = [
    { name: "name", type: "string" },
    { name: "version", type: "string" },
    { name: "chainId", type: "uint256" },
    { name: "verifyingContract", type: "address" },
  ];
  const typed = {
    types: { EIP712Domain, [type]: fields },
    primaryType: type,
    domain: {
      name: "WorldIDRegistry",
      version: "1.0",
      chainId: BigInt(domain.chainId),
      verifyingContract: domain.registryAddress,
    },
    message,
  };
  // Without extra entropy the signature is that of RFC 6979, so that it can be compared with the vectors.
  return signTyped(typed as never, key.seed, false);
}
