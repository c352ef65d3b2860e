/** Calls over HTTP, and those of the wallet interface: groups, enrolment, sealed copies. */

import { type Bytes, readField, readHex, toField, toHex } from "./bytes.ts";
import type { BegunAct, Content, Slot } from "./sealed.ts";
import { readContent } from "./sealed.ts";
import { PAGE_BYTES } from "./tree.ts";
import { VaultError, type Service } from "./vault.ts";

export type Fetch = (url: string, options: RequestInit) => Promise<Response>;

export interface Call {
  method?: "GET" | "POST" | "PUT" | "DELETE";
  headers?: Record<string, string>;
  body?: unknown;
  /** The longest answer that is read, in bytes. */
  limit?: number;
  cache?: RequestCache;
  /** In milliseconds. */
  timeout?: number;
}

export interface Answer {
  status: number;
  headers: Headers;
  bytes: Bytes;
}

const TIMEOUT = 20_000;
const LIMIT = 256 << 10;
/** Pauses before a request is sent again because the service is busy, in milliseconds. */
const PAUSES = [300, 1500];
const LONGEST_PAUSE = 3000;

const sleep = (duration: number) => new Promise((resolve) => setTimeout(resolve, duration));

const readAtMost = async (response: Response, limit: number): Promise<Bytes> => {
  const parts: Uint8Array[] = [];
  let length = 0;
  const reader = response.body?.getReader();
  while (reader) {
    const { done, value } = await reader.read();
    if (done) break;
    length += value.length;
    if (length > limit) {
      await reader.cancel();
      throw new VaultError("unavailable", "the answer is too long");
    }
    parts.push(value);
  }
  const all = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
};

const callOnce = async (fetch: Fetch, url: string, call: Call): Promise<Answer> => {
  const abort = new AbortController();
  const timer = setTimeout(() => abort.abort(), call.timeout ?? TIMEOUT);
  const options: RequestInit = {
    method: call.method ?? "GET",
    headers: {
      accept: "application/json",
      ...(call.body === undefined ? {} : { "content-type": "application/json" }),
      ...call.headers,
    },
    ...(call.body === undefined ? {} : { body: JSON.stringify(call.body) }),
    cache: call.cache ?? "no-store",
    credentials: "omit",
    redirect: "manual",
    referrerPolicy: "no-referrer",
    signal: abort.signal,
  };
  try {
    const response = await fetch(url, options);
    if (response.type === "opaqueredirect" || (response.status >= 300 && response.status < 400)) {
      throw new VaultError("unavailable", "the service redirects, which the wallet does not follow");
    }
    return { status: response.status, headers: response.headers, bytes: await readAtMost(response, call.limit ?? LIMIT) };
  } catch (error) {
    if (error instanceof VaultError) throw error;
    // `fetch` does not say why: without a network, and where another origin refuses, it is the same error.
    throw abort.signal.aborted ? new VaultError("unavailable", "no answer in time") : new VaultError("offline");
  } finally {
    clearTimeout(timer);
  }
};

/** Sends a request, again while the service says that it is busy. All requests of this wallet may be repeated. */
export const send = async (fetch: Fetch, url: string, call: Call = {}): Promise<Answer> => {
  for (let attempt = 0; ; attempt++) {
    const answer = await callOnce(fetch, url, call);
    const pause = PAUSES[attempt];
    const isBusy = answer.status === 503 || (answer.status === 429 && codeOfAnswer(answer) !== "replaced_today");
    if (!isBusy || pause === undefined) return answer;
    const asked = Number(answer.headers.get("retry-after") ?? "0") * 1000;
    if (asked > LONGEST_PAUSE) return answer;
    await sleep(Math.max(pause, asked || 0));
  }
};

/** The body as JSON; `null` when it is none. */
export const jsonOf = ({ bytes }: Answer): unknown => {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes)) as unknown;
  } catch {
    return null;
  }
};

const codeOfAnswer = (answer: Answer): string => {
  const code = (jsonOf(answer) as { code?: unknown } | null)?.code;
  return typeof code === "string" && /^[a-z0-9_]{1,64}$/.test(code) ? code : "";
};

/** What an answer that is no success means to the wallet. Codes of the service are passed on. */
export const refusal = (answer: Answer): VaultError => {
  const code = codeOfAnswer(answer);
  const { message } = (jsonOf(answer) ?? {}) as { message?: unknown };
  const detail = typeof message === "string" ? message.slice(0, 300) : `status ${answer.status}`;
  if (answer.status >= 500 || code === "rate_limit_exceeded" || code === "rate_limit") return new VaultError("unavailable", code || detail);
  return answer.status >= 400 && code !== "" ? new VaultError(code, detail) : new VaultError("unavailable", detail);
};

/** The body of a success. */
export const sendJson = async (fetch: Fetch, url: string, call: Call = {}): Promise<Record<string, unknown>> => {
  const answer = await send(fetch, url, call);
  if (answer.status < 200 || answer.status >= 300) throw refusal(answer);
  const body = jsonOf(answer);
  if (typeof body !== "object" || body === null) throw unreadable(url);
  return body as Record<string, unknown>;
};

const unreadable = (what: string): VaultError => new VaultError("unavailable", `the answer cannot be read: ${what.slice(0, 100)}`);

// What is read.

export interface Tree {
  /** The roll; `null` for the live tree. */
  roll: string | null;
  size: number;
  root: Bytes;
  pageRoots: Bytes[];
}

export interface Group {
  id: string;
  name: string;
  groupKey: Bytes;
  environment: string;
  /** The public name under which pages made with client kits ask for members. */
  legacyIdentifier: string | null;
  live: Tree;
  rolls: (Tree & { actions: Bytes[] })[];
}

const isCount = (value: unknown): value is number => Number.isInteger(value) && (value as number) >= 0;

const readTree = (value: Record<string, unknown>, roll: string | null): Tree | null => {
  const { size, root, page_roots } = value;
  const rootBytes = readField(root);
  const pageRoots = Array.isArray(page_roots) ? page_roots.map(readField) : [null];
  if (!isCount(size) || !rootBytes || pageRoots.some((page) => page === null)) return null;
  return { roll, size, root: rootBytes, pageRoots: pageRoots as Bytes[] };
};

const readGroup = (value: Record<string, unknown>): Group | null => {
  const { id, name, group_key, environment, legacy_identifier, rolls } = value;
  const [groupKey, live] = [readHex(group_key, 32), readTree(value, null)];
  if (typeof id !== "string" || typeof name !== "string" || typeof environment !== "string" || !groupKey || !live) return null;
  if (!Array.isArray(rolls)) return null;
  const read: Group["rolls"] = [];
  for (const roll of rolls as Record<string, unknown>[]) {
    const tree = typeof roll?.["name"] === "string" ? readTree(roll, roll["name"]) : null;
    const list = (Array.isArray(roll?.["actions"]) ? roll["actions"] : []) as { external_nullifier?: unknown }[];
    const actions = list.map((action) => readField(action?.external_nullifier));
    if (!tree || actions.some((action) => action === null)) return null;
    read.push({ ...tree, actions: actions as Bytes[] });
  }
  const legacyIdentifier = typeof legacy_identifier === "string" ? legacy_identifier : null;
  return { id, name, groupKey, environment, legacyIdentifier, live, rolls: read };
};

export interface Enrolled {
  position: number;
}

export interface StoredCopy extends Content {
  version: number;
}

export type Permit = { group: string; code: string } | { handle: string; write_key: string };

/** The wallet interface of the service that this wallet belongs to. */
export class WalletService {
  readonly fetch: Fetch;
  /** Its address, without a slash at the end. */
  readonly url: string;
  #service: Promise<Service> | null = null;

  constructor(fetch: Fetch, url: string) {
    this.fetch = fetch;
    this.url = url;
  }

  /** `wallet.json`, read once. The simulator's part changes while the daemon runs, so it is read again on demand. */
  async service(again = false): Promise<Service> {
    if (again) this.#service = null;
    this.#service ??= this.#readService(again ? "no-store" : "no-cache");
    this.#service.catch(() => {
      this.#service = null;
    });
    return this.#service;
  }

  async #readService(cache: RequestCache): Promise<Service> {
    const body = await sendJson(this.fetch, `${this.url}/wallet.json`, { cache, limit: 1 << 20 });
    const { issuer, bridge, verify, operator, simulator } = body as unknown as Service;
    const areAddresses = [issuer, bridge, verify].every((url) => typeof url === "string" && URL.canParse(url));
    if (!areAddresses) throw unreadable("wallet.json");
    return {
      issuer,
      bridge,
      verify,
      operator: typeof operator === "string" ? operator : null,
      simulator: typeof simulator === "object" && simulator !== null ? simulator : null,
    };
  }

  /**
   * Reads a group. `lastKnown`: where the service cannot be reached, as the browser has last read it. Its root may count for
   * as long as the issuer takes an older one, and the issuer can be somewhere else.
   */
  async group(id: string, lastKnown: "no" | "lastKnown" = "no"): Promise<Group> {
    const url = `${this.url}/groups/${encodeURIComponent(id)}`;
    const read = (cache: RequestCache) => sendJson(this.fetch, url, { cache, limit: 4 << 20 });
    // The answer has an ETag, with which the browser asks whether it has changed.
    const body = await read("no-cache").catch((error: unknown) => {
      if (lastKnown === "no" || !(error instanceof VaultError) || error.code !== "offline") throw error;
      return read("force-cache");
    });
    const group = readGroup(body);
    if (!group || group.id !== id) throw unreadable("the group");
    return group;
  }

  /** A page never changes under its root, and the browser keeps it. */
  async page(id: string, root: Bytes): Promise<Bytes> {
    const url = `${this.url}/groups/${encodeURIComponent(id)}/pages/${toField(root)}`;
    const headers = { accept: "application/octet-stream, application/json" };
    const answer = await send(this.fetch, url, { cache: "default", limit: PAGE_BYTES, headers });
    if (answer.status !== 200) throw refusal(answer);
    return answer.bytes;
  }

  async enrol(id: string, act: BegunAct["act"], body: unknown): Promise<Enrolled> {
    const { position } = await sendJson(this.fetch, `${this.url}/groups/${encodeURIComponent(id)}/${act}`, { method: "POST", body });
    if (!isCount(position)) throw unreadable("the enrolment");
    return { position };
  }

  async leave(id: string, body: unknown): Promise<void> {
    await sendJson(this.fetch, `${this.url}/groups/${encodeURIComponent(id)}/leave`, { method: "POST", body });
  }

  // Sealed copies.

  #copy(handle: string): string {
    return `${this.url}/sealed/${handle}`;
  }

  /** `null` when there is none. */
  async readCopy(handle: string): Promise<StoredCopy | null> {
    const answer = await send(this.fetch, this.#copy(handle));
    if (answer.status === 404) return null;
    if (answer.status !== 200) throw refusal(answer);
    const body = jsonOf(answer);
    const [content, version] = [readContent(body), (body as { version?: unknown } | null)?.version];
    if (!content || !isCount(version)) throw unreadable("the sealed copy");
    return { ...content, version };
  }

  /** Makes a copy. Returns its version. */
  async createCopy(content: Content, handles: string[], writeKeyHash: Bytes, permit: Permit | null): Promise<number> {
    const body = { ...this.#body(content, handles, writeKeyHash), ...(permit ? { permit } : {}) };
    return this.#version(await sendJson(this.fetch, this.#copy(handles[0]!), { method: "PUT", headers: { "if-none-match": "*" }, body }));
  }

  async changeCopy(content: Content, handles: string[], writeKeyHash: Bytes, owner: { version: number; writeKey: string; handle: string }): Promise<number> {
    const headers = { "if-match": `"${owner.version}"`, authorization: `Bearer ${owner.writeKey}` };
    return this.#version(
      await sendJson(this.fetch, this.#copy(owner.handle), { method: "PUT", headers, body: this.#body(content, handles, writeKeyHash) }),
    );
  }

  async deleteCopy(handle: string, version: number, writeKey: string): Promise<void> {
    const headers = { "if-match": `"${version}"`, authorization: `Bearer ${writeKey}` };
    const answer = await send(this.fetch, this.#copy(handle), { method: "DELETE", headers });
    if (answer.status !== 204 && answer.status !== 404) throw refusal(answer);
  }

  #body({ iv, sealed, slots }: Content, handles: string[], writeKeyHash: Bytes): Record<string, unknown> {
    const sent: Slot[] = slots.map(({ kind, iv, key }) => ({ kind, iv, key }));
    return { iv, sealed, slots: sent, handles, write_key_hash: toHex(writeKeyHash) };
  }

  #version({ version }: Record<string, unknown>): number {
    if (!isCount(version)) throw unreadable("the version of the copy");
    return version;
  }
}

