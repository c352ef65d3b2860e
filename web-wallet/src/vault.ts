/**
 * What the pages may ask of the worker, and what it answers.
 *
 * The secret of a person is unsealed in the worker only (`worker.ts`). The pages know what this file
 * says, and nothing else: names, statements to show, and what became of an act. Passkeys are the one
 * thing that a worker cannot use; a page brings their PRF output here, and forgets it.
 */

/** How a copy is opened or closed: one slot of `slots`. */
export type Sealing =
  /** `output`: the 32 bytes that the passkey made of PRF_INPUT. */
  | { kind: "passkey"; credential: Uint8Array; output: Uint8Array }
  /** The recovery code, as typed. */
  | { kind: "code"; code: string }
  /** On this device only; never part of the copy at the service. */
  | { kind: "passphrase"; passphrase: string };

/** What can be known without opening anything. */
export interface Status {
  /** Whether this browser keeps a wallet. */
  exists: boolean;
  /** Whether the worker has it open. */
  open: boolean;
  /** How it can be opened here. `credential` is the passkey's id. */
  slots: { kind: Sealing["kind"]; credential?: Uint8Array }[];
  /** The groups it belongs to, or is about to join. */
  groups: Membership[];
  /** Whether the person has been shown a recovery code and said that it is kept. */
  codeKept: boolean;
  /** An act that was begun and whose answer did not come: the pages unlock and `resume`, or offer to go on with it. */
  pending: "join" | "replace" | null;
  /**
   * Whether the service has what this browser has, so that another device finds it. False while something could not be
   * sent yet (the next act sends it), and for a wallet that only a passphrase opens.
   */
  copied: boolean;
}

export interface Membership {
  group: string;
  name: string;
  /** False between the sealing and the answer to joining. */
  joined: boolean;
}

/** What the page of a link shows before anything is made. */
export interface Invitation {
  /** What the link does now, as the service says it; a link for joining may have become one for replacing. */
  act: "join" | "replace";
  group: string;
  /** The group's name. */
  name: string;
  /** Whether this browser's wallet is a member already, and the link adds nothing. `enrol` is harmless all the same. */
  member: boolean;
}

/** A request to sign in, read, with its signature and origins checked. */
export interface SignInAsked {
  application: string;
  /** The host that gets the answer. */
  host: string;
  scopes: string[];
  /** What began the sign-in, in the service's words. */
  initiator: { network: string; userAgent: string; time: number };
  /** The group whose member the person shows to be; null for the simulator's person. */
  group: { id: string; name: string } | null;
  /** Where the sign-in waits: in this browser, on another screen, or unknown (a link without a fragment). */
  place: "here" | "there";
  expiresAt: number;
  answered: boolean;
}

/** A request of a page made with a client kit, read from the bridge and judged. */
export interface ProofAsked {
  /** The application's name and page, as the service has them; null when it does not know the application. */
  application: string | null;
  applicationId: string;
  /** What the proof is for, as the service has it; null when it does not say. */
  action: string | null;
  /** The group whose member the person shows to be; null for the simulator's person. */
  group: { id: string; name: string } | null;
  /** The roll that counts for this action, if one does. */
  roll: string | null;
  /** Where the answer's page is, when it is http(s): shown, and offered afterwards. */
  returnTo: string | null;
}

/** Where a sign-in goes on. */
export type SignInAnswered =
  /** Open this address in this tab. */
  | { next: "return"; url: string }
  /** Show these three digits; they are typed where the sign-in began. */
  | { next: "digits"; digits: string }
  /** The other screen goes on by itself. */
  | { next: "nothing" };

/**
 * Why something was not done. `code` decides the words of the page (`words/en.json`, `problem-…`).
 * Codes of the service are passed on as they are (`code_used`, `replaced_today`, …).
 */
export class VaultError extends Error {
  constructor(
    readonly code: string,
    /** For the console and the page's small print. Never has a secret or a handle. */
    readonly detail: string = "",
  ) {
    super(`${code}: ${detail}`);
  }
}

/**
 * The codes that are the wallet's own:
 *
 * `offline` no connection · `unavailable` the service answers 5xx, or too late · `locked` nothing is open ·
 * `wrong_key` no slot opens with it · `no_wallet` nothing here · `no_copy` the service has no such copy ·
 * `not_a_code` the letters are no code (check letters) · `not_a_link` · `other_service` the link, request or
 * bridge is another service's · `not_signed` the issuer's signature does not hold · `expired` · `answered` ·
 * `no_credential` the wallet has nothing that is asked for · `sign_in_over_bridge` · `link_proof_asked` · `not_from_application` ·
 * `removed` the leaf is not in the group any more · `not_on_roll` · `another_account` ·
 * `proof_refused` with the service's code in `detail` · `storage` this browser refuses to store ·
 * `changed_elsewhere` another tab or device has changed the copy, or another tab is busy; asking again helps ·
 * `cross_device_denied` the application takes sign-ins only from the screen where they begin ·
 * `replaced_elsewhere` the leaf was replaced by another device, whose passkey or code opens the new copy (`restore`) ·
 * `other_group` the organization has made the group anew under the same id; a new link joins it ·
 * `other_wallet` this browser keeps another person's wallet; `forget` it first ·
 * `passphrase_too_short` fewer than 12 characters · `act_under_way` something has begun; `resume` first ·
 * `unreadable_copy`, `unreadable_request` made by something that this wallet does not understand ·
 * `failed` a fault of this program ·
 * `not_begun` `seal` without `create`, `replace` without `beginReplacement` · `gone` the id of `read` is of an earlier worker
 *
 * `permit_invalid` does not come from `seal` for a link that is not good any more: the reason does (`code_used`, …).
 */

export const PRF_INPUT = new TextEncoder().encode("selfsame seal");

export interface Vault {
  status(): Promise<Status>;
  /** Loads prover and key, so that a proof later takes a second. Never rejects. */
  prepare(): Promise<void>;

  /**
   * Reads a joining link (`#members.81VH…`, whole or its fragment), without spending anything. One that is not good any
   * more is refused here (`unknown_code`, `code_expired`, `code_used`), before a passkey is made for it.
   */
  readInvitation(link: string): Promise<Invitation>;
  /**
   * Makes a person: a new secret, in the worker's memory only. Returns the user handle that the passkey has to
   * get as its `user.id` (32 bytes), and a recovery code that is drawn now and shown when the caller wants. Until `seal`
   * has succeeded, or `lock`, another call returns the same person.
   */
  create(): Promise<{ userHandle: Uint8Array; code: string }>;
  /**
   * Seals what `create` has made, here and, with slots other than the passphrase's, in a copy at the service (with
   * `link` as its permit; null for the simulator's person in development). The copy is read back and opened before
   * this resolves. Repeating it after an error is harmless.
   */
  seal(by: Sealing[], link: string | null): Promise<void>;
  /**
   * Joins, or replaces by an enroller's link. The wallet is open. Goes on where a former call was interrupted. With
   * `fresh` a member gets a new secret in this group: for a stolen device whose thief may have the old one. To
   * applications the member is another person from then on, so the page asks first.
   */
  enrol(link: string, fresh?: boolean): Promise<Membership>;
  /** Goes on with what `pending` names, without a link: it is kept. The wallet is open. */
  resume(): Promise<void>;

  /** Opens what this browser keeps; by a code also when another device has drawn it. With `group` in mind nothing differs; it is open for this worker's life. */
  unlock(by: Sealing): Promise<void>;
  lock(): Promise<void>;
  /** Fetches the copy of a person whom this browser does not know: by a passkey's user handle, or by the code. */
  restore(by: Sealing, userHandle?: Uint8Array): Promise<Status>;
  /** A new recovery code in place of the old one. The caller shows it, then calls `codeKept`. */
  newCode(): Promise<string>;
  codeKept(): Promise<void>;
  /** A further passkey for the same copy: its user handle is that of the copy. */
  addSealing(by: Sealing): Promise<void>;
  userHandle(): Promise<Uint8Array>;

  /**
   * "My old device is lost or stolen": a new copy with these slots alone, then every leaf is replaced, then the old
   * copy goes. `userHandle` and the code come from `beginReplacement`, the same ones until `replace` or `lock`. `replace`
   * goes on where it was interrupted, and in a new worker `resume` does.
   */
  beginReplacement(): Promise<{ userHandle: Uint8Array; code: string }>;
  replace(by: Sealing[]): Promise<void>;

  leave(group: string): Promise<void>;
  /** Takes the wallet out of this browser. The copy at the service and the memberships stay. */
  forget(): Promise<void>;

  /**
   * Reads what a scanner, a link or a paste brings: a short page, a request, a connector URI, an invitation. For a
   * request to sign in `place` comes from the link's fragment, or is `there` for what was scanned.
   */
  read(text: string): Promise<
    | { is: "sign-in"; id: number; asked: SignInAsked }
    | { is: "proof"; id: number; asked: ProofAsked }
    | { is: "invitation"; link: string; invitation: Invitation }
  >;
  /** Proves and answers what `read` has read. Proves once more by itself when the root has just ended. */
  answerSignIn(id: number): Promise<SignInAnswered>;
  answerProof(id: number): Promise<void>;
  /** Tells the asking side that the person refuses. */
  refuse(id: number): Promise<void>;

  /** `wallet.json`. */
  service(): Promise<Service>;
}

/** `wallet.json`: which service these files belong to. */
export interface Service {
  /** The issuer of sign-in; requests to sign in come from its origin alone. */
  issuer: string;
  /** The message bridge's URL. */
  bridge: string;
  /** The verification interface's URL: names and actions of applications. */
  verify: string;
  /** Who runs the service: the operator's name; null when none is configured. */
  operator: string | null;
  /** Present with `--dev`: the simulator's seed, so that a person can be played without a group. */
  simulator: Simulation | null;
}

/** What simulated proofs need: the answer of the operator interface's `GET /simulator`, and the registry's newest root. */
export interface Simulation {
  seed: string;
  issuers: { id: number; identifiers: string[]; public_key: { x: string; y: string } }[];
  relying_parties: { app_id: string; rp_id: string; oprf_public_key: { x: string; y: string } | null }[];
  root: string;
}
