/**
 * Serves the wallet's own files without the network.
 *
 * A version is fetched whole, each file is compared with its hash, and nothing of it is used before all of it is there.
 * It takes over when the pages of the former version are closed, or when the person asks for it: a page that takes it over
 * while it is being loaded was seen to wait for ever in Chromium 156.
 */

declare const VERSION: string;
/** SHA-256 of each file, in base64url. */
declare const HASHES: Record<string, string>;

interface Waiting extends Event {
  waitUntil(what: Promise<unknown>): void;
}
interface Fetching extends Waiting {
  request: Request;
  respondWith(answer: Promise<Response>): void;
}
interface Scope {
  location: Location;
  clients: { matchAll(options: object): Promise<{ postMessage(what: string): void }[]>; claim(): Promise<void> };
  skipWaiting(): Promise<void>;
  addEventListener(name: "install" | "activate", listener: (event: Waiting) => void): void;
  addEventListener(name: "fetch", listener: (event: Fetching) => void): void;
  addEventListener(name: "message", listener: (event: Waiting & { data: unknown }) => void): void;
}

const scope = self as unknown as Scope;
const FILES = `wallet-${VERSION}`;
/** The last good `wallet.json`; it outlives versions. */
const SETTINGS = "wallet-service";
const SETTINGS_FILE = "/wallet.json";
/** Addresses that are answered with `index.html`. */
const PAGES = new Set(["/", "/join", "/replace", "/sign-in", "/prove", "/restore", "/about"]);
/** Large files that hold no policy: a former version's are as good when they have the hash. */
const SHARED = ["key.bin", "prover.wasm"];
/** What is fetched when it is first asked for: large pictures, languages, and programs that few requests need. */
const LATER = /^icon-\d|^simulator|^signatures|^words-(?!en)/;
/** Longest wait for `wallet.json` where an older one is there, in milliseconds. */
const PATIENCE = 4000;

const addressOf = (name: string): string => (name === "index.html" ? "/" : `/${name}`);

async function hasHash(answer: Response, hash: string | undefined): Promise<boolean> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", await answer.clone().arrayBuffer()));
  return btoa(String.fromCharCode(...digest)).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "") === hash;
}

/** One file of this version, from the network. */
async function fetchFile(name: string): Promise<Response> {
  const answer = await fetch(addressOf(name), { cache: "no-cache", credentials: "omit", redirect: "error" });
  if (!answer.ok || !(await hasHash(answer, HASHES[name]))) throw new Error(`${name} is not of version ${VERSION}`);
  return answer;
}

async function install(): Promise<void> {
  const cache = await caches.open(FILES);
  try {
    for (const name of Object.keys(HASHES)) {
      const former = await caches.match(addressOf(name));
      if (!former && LATER.test(name)) continue;
      await cache.put(addressOf(name), former && SHARED.includes(name) && (await hasHash(former, HASHES[name])) ? former : await fetchFile(name));
    }
    const settings = await fetch(SETTINGS_FILE, { cache: "no-cache", credentials: "omit" });
    if (settings.ok) await (await caches.open(SETTINGS)).put(SETTINGS_FILE, settings);
  } catch (error) {
    await caches.delete(FILES);
    throw error;
  }
}

async function activate(): Promise<void> {
  for (const name of await caches.keys()) if (name !== FILES && name !== SETTINGS) await caches.delete(name);
  await scope.clients.claim();
}

async function answerFile(name: string): Promise<Response> {
  const cache = await caches.open(FILES);
  const kept = await cache.match(addressOf(name));
  if (kept) return kept;
  const answer = await fetchFile(name);
  await cache.put(addressOf(name), answer.clone());
  return answer;
}

/** The service's addresses: from the network, and the last ones where there is none. */
async function answerSettings(): Promise<Response> {
  const cache = await caches.open(SETTINGS);
  const kept = await cache.match(SETTINGS_FILE);
  try {
    const answer = await fetch(SETTINGS_FILE, { cache: "no-cache", credentials: "omit", ...(kept ? { signal: AbortSignal.timeout(PATIENCE) } : {}) });
    if (!answer.ok) return kept ?? answer;
    const text = await answer.clone().text();
    const changed = kept !== undefined && (await kept.clone().text()) !== text;
    await cache.put(SETTINGS_FILE, answer.clone());
    if (changed) await renewPolicies();
    return answer;
  } catch (error) {
    if (kept) return kept;
    throw error;
  }
}

/** Policies name the service's addresses, and are kept with pages and worker: they are fetched again. */
async function renewPolicies(): Promise<void> {
  const cache = await caches.open(FILES);
  for (const name of ["index.html", "worker.js"]) await cache.put(addressOf(name), await fetchFile(name));
  for (const page of await scope.clients.matchAll({ type: "window" })) page.postMessage("service changed");
}

scope.addEventListener("install", (event) => event.waitUntil(install()));
scope.addEventListener("activate", (event) => event.waitUntil(activate()));
scope.addEventListener("message", (event) => {
  if (event.data === "take over") event.waitUntil(scope.skipWaiting());
});
scope.addEventListener("fetch", (event) => {
  const { method, url, mode } = event.request;
  const { origin, pathname } = new URL(url);
  if (method !== "GET" || origin !== scope.location.origin) return;
  const name = pathname.slice(1);
  if (mode === "navigate" && PAGES.has(pathname)) event.respondWith(answerFile("index.html"));
  else if (pathname === SETTINGS_FILE) event.respondWith(answerSettings());
  else if (Object.hasOwn(HASHES, name)) event.respondWith(answerFile(name));
});
