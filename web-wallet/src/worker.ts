/** The worker of a page: the only place where secrets are open. */

import { answerOver } from "./answering.ts";
import type { Port } from "./messages.ts";
import { ProverLoader, type ReadFile } from "./prover.ts";
import { refusal, send } from "./service.ts";
import { BrowserStorage, exclusive } from "./storage.ts";
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

const wallet = new Wallet({
  fetch: fetchWeb,
  storage: new BrowserStorage(indexedDB),
  exclusive: exclusive(navigator.locks),
  prover: new ProverLoader(readFile),
  async simulator() {
    const program = `${url}/simulator.js`;
    return (await import(program)) as typeof import("./simulator.ts");
  },
  url,
  now: () => Math.floor(Date.now() / 1000),
});

answerOver(self as unknown as Port, wallet);
