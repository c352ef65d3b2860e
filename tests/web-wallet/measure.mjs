// Measures what the specification bounds, in Chromium, and prints it: `DAEMON=… node measure.mjs`. Times of one core
// are processor time of the browser's pages, so that other work on the machine does not count.

import { startBrowser } from "../relying_parties/node/browser.mjs";
import { newDevice } from "./devices.mjs";
import { startService } from "./service.mjs";
import { at, backAtApplication, beginHere, join, press } from "./walks.mjs";

const PROOFS = 6;
// How long a person reads what is asked, in milliseconds.
const READING = 4_000;

const service = await startService();
const browser = await startBrowser();
try {
  const devtools = await browser.newBrowserCDPSession();
  // Processor time of all pages together, in seconds.
  const spent = async () => (await devtools.send("SystemInfo.getProcessInfo")).processInfo.filter(({ type }) => type === "renderer").reduce((sum, { cpuTime }) => sum + cpuTime, 0);
  const line = (what, ...values) => console.log(what.padEnd(60), ...values);

  const phone = await newDevice(browser, service);
  const { page } = phone;
  const begin = Date.now();
  await join(phone, await service.invite("M-1"));
  line("from the link to a member, seconds", ((Date.now() - begin) / 1000).toFixed(1));
  await beginHere(phone, service);
  await press(phone, "sign-in");
  await backAtApplication(page);
  line("from the link to the application, seconds and taps", ((Date.now() - begin) / 1000).toFixed(1), phone.taps);
  await page.goto(service.urls.wallet);
  await at(page, "home");
  await page.evaluate(() => navigator.serviceWorker.ready.then(() => true));
  const bytes = service.front.drain().filter(({ path }) => !/^\/(groups|sealed)/.test(path)).reduce((sum, each) => sum + each.bytes, 0);
  line("files of the first visit, with those for offline, bytes", bytes);
  await page.reload();
  await at(page, "home");
  line("files of the second visit, bytes", service.front.drain().reduce((sum, each) => sum + each.bytes, 0));

  // How long the page's worker answers nothing at most, while it loads prover and key: a call of an unknown name is
  // answered at once. The page's policy would not let a test begin a worker.
  const idle = await newDevice(browser, service, { bypassCSP: true });
  await idle.page.goto(`${service.urls.wallet}/about`);
  const { longest, loading } = await idle.page.evaluate(async () => {
    const worker = new Worker("/worker.js", { type: "module" });
    const waiting = new Map();
    worker.addEventListener("message", ({ data }) => waiting.get(data.id)?.());
    let last = 0;
    const ask = (method) => new Promise((resolve) => {
      waiting.set((last += 1), resolve);
      worker.postMessage({ id: last, method, parameters: [] });
    });
    await ask("nothing");
    let isReady = false;
    const begin = performance.now();
    ask("prepare").then(() => (isReady = true));
    let longest = 0;
    while (!isReady) {
      const from = performance.now();
      await ask("nothing");
      longest = Math.max(longest, performance.now() - from);
    }
    return { longest, loading: performance.now() - begin };
  });
  line("prover and key are loaded, milliseconds", loading.toFixed(0));
  line("the worker answers nothing at most for, milliseconds", longest.toFixed(0));
  await idle.close();

  // From the tap to the answer that is sent: the passkey, the group's list, the proof. The first one is asked for at
  // once, while the page still loads prover and key; before the others the person has read for a while.
  for (let count = 1; count <= PROOFS; count += 1) {
    await beginHere(phone, service, page, service.authorization());
    if (count > 1) await page.waitForTimeout(READING);
    const [from, used] = [Date.now(), await spent()];
    const sent = page.waitForRequest((request) => request.method() === "POST" && request.url().endsWith("/proof"));
    await press(phone, "sign-in");
    await sent;
    const [wall, core] = [(Date.now() - from) / 1000, (await spent()) - used];
    line(`a proof ${count === 1 ? "at once, with loading" : "after reading"}: seconds, seconds of one core`, wall.toFixed(2), core.toFixed(2));
    await backAtApplication(page);
  }
} finally {
  await browser.close();
  await service.stop();
}
