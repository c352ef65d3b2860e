/** The worker of a page: the only place where secrets are open. */

import { answerOver } from "./answering.ts";
import type { Port } from "./messages.ts";
import { ProverLoader, type ReadFile } from "./prover.ts";
import { refusal, send } from "./service.ts";
import { BrowserStorage, exclusive } from "./storage.ts";
import { VaultError } from "./vault.ts";
import { Wallet } from "./wallet.ts";

const url = new URL(".", location.href).href.replace(/\/+$/, "");
const fetchWeb = (address: string, options: RequestInit) => fetch(address, options);

/** The service worker has the file, or the browser's cache. */
const readFile: ReadFile = async (name) => {
  const options = { cache: "default" as const, limit: 4 << 20, timeout: 120_000, headers: { accept: "*/*" } };
  const answer = await send(fetchWeb, `${url}/${name}`, options);
  if (answer.status !== 200) throw refusal(answer);
  return answer.bytes;
};

/** A program that few requests need. */
const load = (name: string): Promise<unknown> =>
  import(`${url}/${name}`).catch(() => {
    throw new VaultError("unavailable", name);
  });

const wallet = new Wallet({
  fetch: fetchWeb,
  storage: new BrowserStorage(indexedDB),
  exclusive: exclusive(navigator.locks),
  prover: new ProverLoader(readFile),
  simulator: () => load("simulator.js") as Promise<typeof import("./simulator.ts")>,
  signatures: () => load("signatures.js") as Promise<typeof import("./signatures.ts")>,
  url,
  now: () => Math.floor(Date.now() / 1000),
});

answerOver(self as unknown as Port, wallet);
