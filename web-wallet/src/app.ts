/** The program of the pages: the worker, the pages, then the service worker. */
import { openVault } from "./client.ts";
import { offerUpdate, start } from "./start.ts";

interface ScriptPolicy {
  createScriptURL(address: string): unknown;
}
interface TrustedTypes {
  createPolicy(name: string, rules: { createScriptURL: (address: string) => string }): ScriptPolicy;
}

const policy = (globalThis as { trustedTypes?: TrustedTypes }).trustedTypes?.createPolicy("selfsame-wallet", {
  createScriptURL: (address) => {
    if (address !== "/worker.js" && address !== "/sw.js") throw new TypeError(address);
    return address;
  },
});
/** An address of a script, of which there are two. The types of the DOM do not know trusted ones. */
const script = (address: "/worker.js" | "/sw.js"): string => (policy?.createScriptURL(address) ?? address) as string;

/** Longest wait for a new version to take over before the first page is shown, in milliseconds. */
const TAKE_OVER = 1500;

/** Whether a new version waits and takes over now, because this is the only page. The page is then loaded again. */
async function takesOver(): Promise<boolean> {
  const container = navigator.serviceWorker;
  if (!container?.controller) return false;
  const waiting = (await container.getRegistration())?.waiting;
  if (!waiting) return false;
  const changed = new Promise<boolean>((done) => {
    container.addEventListener("controllerchange", () => done(true), { once: true });
    setTimeout(() => done(false), TAKE_OVER);
  });
  waiting.postMessage("take over when alone");
  if (!(await changed)) return false;
  location.reload();
  return true;
}

async function keepFiles(): Promise<void> {
  const container = navigator.serviceWorker;
  if (!container) return;
  const first = !container.controller;
  let wanted = false;
  container.addEventListener("controllerchange", () => {
    if (wanted) location.reload();
    else if (!first) offerUpdate(() => location.reload());
  });
  const registration = await container.register(script("/sw.js"), { updateViaCache: "none" });
  const offer = (): void => {
    if (!registration.waiting || !container.controller) return;
    offerUpdate(() => {
      wanted = true;
      if (registration.waiting) registration.waiting.postMessage("take over");
      else location.reload();
    });
  };
  offer();
  registration.addEventListener("updatefound", () => {
    registration.installing?.addEventListener("statechange", offer);
  });
}

async function run(): Promise<void> {
  navigator.serviceWorker?.addEventListener("message", (event) => {
    // The service has other addresses now, and the policy of this page still has the old ones.
    if (event.data === "service changed") offerUpdate(() => location.reload());
  });
  if (await takesOver()) return;
  const vault = openVault(new Worker(script("/worker.js"), { type: "module" }));
  await start(vault);
  // After what the person waits for: the service worker fetches the same files.
  await vault.prepare();
  await keepFiles().catch((error: unknown) => console.info("These pages do not work offline:", error));
}

void run();
