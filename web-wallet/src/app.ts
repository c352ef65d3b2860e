/** The program of the pages: the worker, the pages, then the service worker. */
import { openVault } from "./client.ts";
import { offerUpdate, start } from "./start.ts";
import { currentLanguage } from "./words.ts";

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

const container = navigator.serviceWorker as ServiceWorkerContainer | undefined;
/** Whether the person has done something on this page: then it is not loaded again without being asked. */
let isUsed = false;
const reload = (): void => location.reload();

/** Listens to the service worker, which may speak while the page is being loaded. */
function listen(): void {
  if (!container) return;
  for (const name of ["pointerdown", "keydown"]) addEventListener(name, () => (isUsed = true), { capture: true, once: true });
  let isFirst = !container.controller;
  container.addEventListener("controllerchange", () => {
    // The language of this page was fetched before there was a service worker, which now keeps it.
    if (isFirst) void fetch(`/words-${currentLanguage()}.json`);
    else if (isUsed) offerUpdate(reload);
    else reload();
    isFirst = false;
  });
  container.addEventListener("message", (event) => {
    // The service has other addresses now, and the policy of this page still has the old ones.
    if (event.data === "service changed") offerUpdate(reload);
  });
}

async function keepFiles(): Promise<void> {
  if (!container) return;
  const registration = await container.register(script("/sw.js"), { updateViaCache: "none" });
  const offer = (): void => {
    if (!registration.waiting || !container.controller) return;
    offerUpdate(() => {
      isUsed = false;
      if (registration.waiting) registration.waiting.postMessage("take over");
      else reload();
    });
  };
  offer();
  registration.addEventListener("updatefound", () => {
    registration.installing?.addEventListener("statechange", offer);
  });
}

async function run(): Promise<void> {
  listen();
  const vault = openVault(new Worker(script("/worker.js"), { type: "module" }));
  await start(vault);
  // After what the person waits for: the service worker fetches the same files.
  await vault.prepare();
  await keepFiles().catch((error: unknown) => console.info("These pages do not work offline:", error));
}

void run();
