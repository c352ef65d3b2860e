/** The page's side of the worker. */

import { METHODS, type Port, type Question, type Reply } from "./messages.ts";
import { VaultError, type Vault } from "./vault.ts";

/** A vault whose acts are carried out by the worker. Errors are `VaultError`s. */
export const openVault = (worker: Port & Pick<Partial<Worker>, "onerror">): Vault => {
  const waiting = new Map<number, { resolve: (value: unknown) => void; reject: (error: VaultError) => void }>();
  let last = 0;
  let failure: VaultError | null = null;
  worker.addEventListener("message", ({ data }: MessageEvent<Reply>) => {
    const question = waiting.get(data.id);
    waiting.delete(data.id);
    if ("code" in data) question?.reject(new VaultError(data.code, data.detail));
    else question?.resolve(data.value);
  });
  // A worker that cannot be loaded answers nothing.
  worker.onerror = (event) => {
    failure = new VaultError("unavailable", event instanceof ErrorEvent ? event.message : "the worker does not start");
    for (const { reject } of waiting.values()) reject(failure);
    waiting.clear();
  };
  const ask = (method: Question["method"]) => (...parameters: unknown[]) =>
    new Promise((resolve, reject) => {
      if (failure) return reject(failure);
      last += 1;
      waiting.set(last, { resolve, reject });
      worker.postMessage({ id: last, method, parameters } satisfies Question);
    });
  const methods = Object.keys(METHODS) as Question["method"][];
  return Object.fromEntries(methods.map((method) => [method, ask(method)])) as unknown as Vault;
};
