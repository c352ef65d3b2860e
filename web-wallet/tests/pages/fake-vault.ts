/**
 * A vault that plays each state of the pages. `globalThis.scenario`, which a test sets before the page loads, says what is
 * kept, what requests say, and which calls fail with which code. Nothing of it gets into the built files.
 */
import { VaultError, type Membership, type ProofAsked, type Sealing, type Service, type SignInAsked, type SignInAnswered, type Status, type Vault } from "../../src/vault.ts";

export interface Scenario {
  exists?: boolean;
  open?: boolean;
  slots?: Sealing["kind"][];
  groups?: Membership[];
  codeKept?: boolean;
  pending?: Status["pending"];
  copied?: boolean;
  simulator?: boolean;
  operator?: string | null;
  groupName?: string;
  signIn?: Partial<SignInAsked>;
  proof?: Partial<ProofAsked>;
  answered?: SignInAnswered;
  /** Calls that fail, with their codes; `"code 1"` fails once. */
  fail?: Record<string, string>;
  /** Calls whose answer never comes. */
  hang?: string[];
  passphrase?: string;
}

/** A genuine code: its two last letters check the others. */
export const CODE = "K7Q2M9XTB4RW8ZCN3VHD6PFJ5GAN";

export function fakeVault(scenario: Scenario): Vault & { calls: string[] } {
  const calls: string[] = [];
  const kept = sessionStorage.getItem("fake-vault");
  const state: Status = {
    exists: scenario.exists ?? false,
    open: scenario.open ?? false,
    slots: [],
    groups: scenario.groups ?? (scenario.exists ? [{ group: "members", name: scenario.groupName ?? "Members of the cooperative", joined: true }] : []),
    codeKept: scenario.codeKept ?? scenario.exists ?? false,
    pending: scenario.pending ?? null,
    copied: scenario.copied ?? true,
  };
  if (kept) Object.assign(state, JSON.parse(kept), { open: false });
  for (const kind of scenario.slots ?? (state.exists ? ["passkey"] : [])) state.slots.push({ kind });
  const save = (): void => sessionStorage.setItem("fake-vault", JSON.stringify({ ...state, slots: [] }));
  const name = scenario.groupName ?? "Members of the cooperative";
  const ask = async <T>(call: string, answer: () => T): Promise<T> => {
    calls.push(call);
    if (scenario.hang?.includes(call)) await new Promise(() => undefined);
    const failure = scenario.fail?.[call];
    if (failure) {
      if (failure.endsWith(" 1")) delete scenario.fail?.[call];
      throw new VaultError(failure.replace(/ 1$/, ""), "as the scenario says");
    }
    return answer();
  };
  const opens = (by: Sealing): void => {
    if (by.kind === "passphrase" && by.passphrase !== (scenario.passphrase ?? "correct horse battery")) throw new VaultError("wrong_key");
    if (by.kind === "code" && by.code.replace(/-/g, "") !== CODE) throw new VaultError("wrong_key");
    state.open = true;
  };
  return {
    calls,
    status: () => ask("status", () => structuredClone(state)),
    prepare: async () => undefined,
    readInvitation: (link) =>
      ask("readInvitation", () => ({
        act: link.includes("/replace") ? ("replace" as const) : ("join" as const),
        group: "members",
        name,
        member: state.groups.some(({ group, joined }) => group === "members" && joined),
      })),
    create: () => ask("create", () => ({ userHandle: crypto.getRandomValues(new Uint8Array(32)), code: CODE })),
    seal: (by, link) =>
      ask("seal", () => {
        state.exists = state.open = true;
        state.slots = by.map(({ kind }) => ({ kind }));
        if (link) state.groups.push({ group: "members", name, joined: false });
        save();
      }),
    enrol: () =>
      ask("enrol", () => {
        const membership = { group: "members", name, joined: true };
        state.groups = [...state.groups.filter(({ group }) => group !== "members"), membership];
        save();
        return membership;
      }),
    resume: () => ask("resume", () => void (state.pending = null)),
    unlock: (by) => ask("unlock", () => opens(by)),
    lock: () => ask("lock", () => void (state.open = false)),
    restore: (by) =>
      ask("restore", () => {
        opens(by);
        state.exists = true;
        state.slots = [{ kind: by.kind }];
        state.groups = scenario.groups ?? [{ group: "members", name, joined: true }];
        state.codeKept = true;
        save();
        return structuredClone(state);
      }),
    newCode: () => ask("newCode", () => CODE),
    codeKept: () =>
      ask("codeKept", () => {
        state.codeKept = true;
        save();
      }),
    addSealing: ({ kind }) => ask("addSealing", () => void state.slots.push({ kind })),
    userHandle: () => ask("userHandle", () => new Uint8Array(32)),
    beginReplacement: () => ask("beginReplacement", () => ({ userHandle: crypto.getRandomValues(new Uint8Array(32)), code: CODE })),
    replace: () => ask("replace", () => void (state.pending = null)),
    leave: (group) =>
      ask("leave", () => {
        state.groups = state.groups.filter((one) => one.group !== group);
        save();
      }),
    forget: () =>
      ask("forget", () => {
        Object.assign(state, { exists: false, open: false, slots: [], groups: [], codeKept: false });
        sessionStorage.removeItem("fake-vault");
      }),
    read: (text) =>
      ask("read", () => {
        const group = scenario.simulator ? null : { id: "members", name };
        if (/\/join#|\/replace#/.test(text)) {
          return { is: "invitation", link: text, invitation: { act: "join", group: "members", name, member: false } } as const;
        }
        if (/\/prove#|t=wld/.test(text)) {
          const asked: ProofAsked = {
            application: "Votes of the cooperative", applicationId: "app_staging_5e1f5a3e0000000000000000000000c0",
            action: "Shall the cooperative buy the orchard?", group, roll: null, returnTo: "https://votes.example.org/", ...scenario.proof,
          };
          return { is: "proof", id: 1, asked } as const;
        }
        const now = Math.floor(Date.now() / 1000);
        const asked: SignInAsked = {
          application: "Allotment Exchange", host: "exchange.example.org", scopes: ["openid"],
          initiator: { network: "203.0.113.0/24", userAgent: "Mozilla/5.0 (Windows NT 10.0; rv:150.0) Gecko/20100101 Firefox/150.0", time: now - 60 },
          group, place: text.endsWith("#here") ? "here" : "there", expiresAt: now + 600, answered: false, ...scenario.signIn,
        };
        return { is: "sign-in", id: 1, asked } as const;
      }),
    answerSignIn: () => ask("answerSignIn", () => scenario.answered ?? ({ next: "digits", digits: "407" } as const)),
    answerProof: () => ask("answerProof", () => undefined),
    refuse: () => ask("refuse", () => undefined),
    service: () =>
      ask("service", (): Service => ({
        issuer: `${location.origin}`,
        bridge: "https://bridge.example.org",
        verify: "https://verify.example.org",
        operator: scenario.operator === undefined ? "Green Valley Cooperative" : scenario.operator,
        simulator: scenario.simulator ? { seed: "00", issuers: [], relying_parties: [], root: "0x0" } : null,
      })),
  };
}
