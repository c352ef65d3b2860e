/**
 * Passkeys: made, used, and found again. A passkey's PRF output seals the secret and is never the secret itself,
 * because the same passkey has another output on some devices.
 */
import { PRF_INPUT } from "./vault.ts";

export interface Passkey {
  credential: Uint8Array;
  /** 32 bytes, for the worker. */
  output: Uint8Array;
}

/**
 * `declined` nothing was chosen, or it took too long · `no_prf` made, but it cannot seal; `stays` when the browser could
 * not be told to drop it · `again` made, and has to be used once more, with a press of its own · `unusable` the browser
 * or the device refuses
 */
export class PasskeyError extends Error {
  constructor(
    readonly code: "declined" | "no_prf" | "again" | "unusable",
    readonly credential: Uint8Array | null = null,
    readonly stays = false,
  ) {
    super(code);
  }
}

/** Whether this browser has passkeys at all. */
export const passkeysExist = (): boolean =>
  typeof PublicKeyCredential !== "undefined" && typeof navigator.credentials?.create === "function";

const random = (): Uint8Array<ArrayBuffer> => crypto.getRandomValues(new Uint8Array(32));
const prf = (): AuthenticationExtensionsClientInputs => ({ prf: { eval: { first: PRF_INPUT as BufferSource } } });
const buffer = (bytes: Uint8Array): BufferSource => bytes as Uint8Array<ArrayBuffer>;
const MINUTES = 60_000;

/** The output in an answer, when it has one of the right form. Some browsers answered with other lengths. */
function outputOf(credential: PublicKeyCredential): Uint8Array | null {
  const first = credential.getClientExtensionResults().prf?.results?.first;
  if (!first) return null;
  const bytes = first instanceof ArrayBuffer ? new Uint8Array(first) : new Uint8Array(first.buffer, first.byteOffset, first.byteLength);
  return bytes.length === 32 ? bytes.slice() : null;
}

function problem(error: unknown): PasskeyError {
  const name = error instanceof DOMException ? error.name : "";
  return new PasskeyError(name === "NotAllowedError" || name === "AbortError" ? "declined" : "unusable");
}

async function get(options: Partial<PublicKeyCredentialRequestOptions>): Promise<PublicKeyCredential> {
  try {
    const publicKey = { challenge: random(), userVerification: "required", timeout: 3 * MINUTES, extensions: prf(), ...options } as const;
    const credential = await navigator.credentials.get({ publicKey });
    if (credential instanceof PublicKeyCredential) return credential;
  } catch (error) {
    throw problem(error);
  }
  throw new PasskeyError("declined");
}

/** Makes a passkey for a person whose copies have `userHandle`. `name` is what the lists of passkeys show. */
export async function makePasskey(userHandle: Uint8Array, name: string, service: string): Promise<Passkey> {
  let made: PublicKeyCredential;
  try {
    const credential = await navigator.credentials.create({
      publicKey: {
        challenge: random(),
        rp: { name: service },
        user: { id: buffer(userHandle), name, displayName: name },
        pubKeyCredParams: [
          { type: "public-key", alg: -7 },
          { type: "public-key", alg: -257 },
          { type: "public-key", alg: -8 },
        ],
        authenticatorSelection: { residentKey: "required", requireResidentKey: true, userVerification: "required" },
        timeout: 5 * MINUTES,
        // Windows Hello has the extension only where the input is there at creation.
        extensions: prf(),
      },
    });
    if (!(credential instanceof PublicKeyCredential)) throw new PasskeyError("declined");
    made = credential;
  } catch (error) {
    throw error instanceof PasskeyError ? error : problem(error);
  }
  const credential = new Uint8Array(made.rawId).slice();
  const output = outputOf(made);
  if (output) return { credential, output };
  if (made.getClientExtensionResults().prf?.enabled !== true) return drop(credential);
  // Many authenticators answer the input only when the passkey is used.
  try {
    return await usePasskey([credential]);
  } catch (error) {
    // Safari may want a press of its own for the second call.
    if (!(error instanceof PasskeyError)) throw error;
    if (error.code === "no_prf") return drop(credential);
    throw error.code === "declined" ? new PasskeyError("again", credential) : error;
  }
}

/** Takes a passkey that cannot seal out of the person's list, where the browser can be asked to. */
async function drop(credential: Uint8Array): Promise<never> {
  const signals = PublicKeyCredential as unknown as {
    signalUnknownCredential?: (what: { rpId: string; credentialId: string }) => Promise<void>;
  };
  let stays = true;
  if (signals.signalUnknownCredential) {
    const credentialId = btoa(String.fromCharCode(...credential)).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
    await signals.signalUnknownCredential({ rpId: location.hostname, credentialId }).then(
      () => (stays = false),
      () => undefined,
    );
  }
  throw new PasskeyError("no_prf", credential, stays);
}

/** Uses one of the passkeys that this browser's wallet is sealed with. */
export async function usePasskey(credentials: Uint8Array[]): Promise<Passkey> {
  const used = await get({ allowCredentials: credentials.map((id) => ({ type: "public-key", id: buffer(id) })) });
  const output = outputOf(used);
  const credential = new Uint8Array(used.rawId).slice();
  if (!output) throw new PasskeyError("no_prf", credential, true);
  return { credential, output };
}

/** Lets the person choose among the passkeys of this service. */
export async function findPasskey(): Promise<Passkey & { userHandle: Uint8Array }> {
  const used = await get({});
  const output = outputOf(used);
  const credential = new Uint8Array(used.rawId).slice();
  const handle = (used.response as AuthenticatorAssertionResponse).userHandle;
  if (!output || !handle) throw new PasskeyError("no_prf", credential, true);
  return { credential, output, userHandle: new Uint8Array(handle).slice() };
}
