// Makes the key that the server signs requests with, and prints it with its address.

import { keccak_256 } from "@noble/hashes/sha3";
import { bytesToHex } from "@noble/hashes/utils";
import { getPublicKey, utils } from "@noble/secp256k1";

const key = utils.randomPrivateKey();
// The address: the last 20 bytes of the hash of the uncompressed public key without its first byte.
const address = keccak_256(getPublicKey(key, false).slice(1)).slice(-20);
console.log(`SIGNING_KEY=${bytesToHex(key)}`);
console.log(`signing_key = "0x${bytesToHex(address)}"`);
