/** The worker's side of the messages. */

import { wipe } from "./bytes.ts";
import { METHODS, type Port, type Question, type Reply } from "./messages.ts";
import { VaultError, type Vault } from "./vault.ts";

/** Overwrites the outputs of passkeys in a message that was carried out. The page has its own copy. */
const wipeOutputs = (value: unknown): void => {
  if (Array.isArray(value)) value.forEach(wipeOutputs);
  else if (typeof value === "object" && value !== null && "output" in value && value.output instanceof Uint8Array) wipe(value.output);
};

const failureOf = (error: unknown): { code: string; detail: string } => {
  if (error instanceof VaultError) return { code: error.code, detail: error.detail };
  // Messages of other errors may quote what they failed on.
  return { code: "failed", detail: error instanceof Error ? error.name : "" };
};

/** Carries out what comes over a port. */
export const answerOver = (port: Port, vault: Vault): void => {
  port.addEventListener("message", async ({ data }: MessageEvent<Question>) => {
    const { id, method, parameters } = data;
    let reply: Reply;
    try {
      if (!Object.hasOwn(METHODS, method)) throw new VaultError("failed", "unknown method");
      const act = vault[method] as (...parameters: unknown[]) => Promise<unknown>;
      reply = { id, value: await act.apply(vault, parameters) };
    } catch (error) {
      reply = { id, ...failureOf(error) };
    } finally {
      wipeOutputs(parameters);
    }
    port.postMessage(reply);
  });
};
