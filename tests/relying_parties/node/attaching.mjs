// The pages of people who have had legacy proofs: attaching a current proof a day later, undoing
// it, and the question about an older credential. The second day is that of a daemon that begins
// again on the same data with its clock a day ahead.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { CALLBACK, OPRF_KEY, start } from "./daemon.mjs";

// People of one application have attached nothing, those of the other one have.
const APP = "app_staging_5e1f5a3e00000000000000000000001a";
const ATTACHED_APP = "app_staging_5e1f5a3e00000000000000000000001b";

const withHistory = (id) => `
[[apps]]
id = "${id}"
name = "Example reading room"
public = true
proof = "account"
subject = "nullifier"
history = "legacy"
redirect_uris = ["${CALLBACK}"]
wallet_link = "wallet://open?request={request}"

[[relying_parties]]
app_id = "${id}"
${OPRF_KEY}`;

// Legacy proofs have not ended, whatever the day of the test.
const CONFIG = `
[sign_in]
transaction_lifetime = "1h"
legacy_ends_at = "2100-01-01T00:00:00Z"
${[APP, ATTACHED_APP].map(withHistory).join("")}`;

const A_DAY_LATER = 25 * 3600 * 1000;

// A daemon on the second day, and its sign-ins, each with its path and the cookies of its browser.
// `prepare` begins one in a new browser, as that of pages.mjs does. Each legacy proof takes seconds, so
// without `isWhole` there are the sign-ins that need two of them.
export async function startOnSecondDay(prepare, isWhole) {
  const folder = mkdtempSync(join(tmpdir(), "selfsame-"));
  const wishes = (id) => ({ client_id: id, prompt: "login" });
  const first = await start({ config: CONFIG, hasDomain: true, folder });
  const remembering = async (id) => {
    const { cookies } = await prepare(first, wishes(id), async (page, { request }) => {
      first.answer(request);
      await page.getByRole("link", { name: "This is my own computer", exact: true }).click();
      await page.getByRole("heading", { name: "Received" }).waitFor();
    });
    return cookies.filter(({ name }) => name.endsWith("selfsame_accounts"));
  };
  const known = await remembering(APP);
  const [attaching, disputing] = isWhole ? [await remembering(ATTACHED_APP), await remembering(ATTACHED_APP)] : [];
  await first.kill();
  const clock = new Date(Date.now() + A_DAY_LATER).toISOString().replace(/\.\d+Z$/, "Z");
  const daemon = await start({ config: CONFIG, hasDomain: true, folder, clock });

  const button = (page, name) => page.getByRole("button", { name, exact: true });
  // The sign-in that takes the place of the one on the page, once there is `next`.
  const moveTo = async (page, seen, next) => {
    await next.waitFor();
    seen.path = new URL(page.url()).pathname;
    seen.request = new URL(`${seen.path}/request`, daemon.issuer).href;
  };
  const code = (page) => page.locator(".way a.button");
  const fail = (path, error_code) => {
    const headers = { "content-type": "application/json" };
    return fetch(new URL(`${path}/proof`, daemon.issuer), { method: "POST", headers, body: JSON.stringify({ error_code }) });
  };
  const toQuestion = async (page, { request }) => {
    daemon.answer(request);
    await button(page, "Give the new proof").waitFor();
  };
  const toCode = async (page, seen) => {
    await toQuestion(page, seen);
    await button(page, "Give the new proof").click();
    await moveTo(page, seen, code(page));
  };
  // An authenticator without legacy proofs is asked for one of a newer credential.
  const toOlder = async (page, seen) => {
    await fail(seen.path, "world_id_3_not_available");
    await moveTo(page, seen, page.getByRole("link", { name: "I had an account here before" }));
  };
  const begin = (id, cookies, change) => prepare(daemon, wishes(id), change, cookies);
  const signIns = { older: await begin(APP, [], toOlder), code: await begin(APP, known, toCode) };
  if (isWhole) {
    signIns.question = await begin(APP, known, toQuestion);
    signIns.failed = await begin(APP, known, async (page, seen) => {
      await toCode(page, seen);
      await fail(seen.path, "credential_unavailable");
      await page.getByText("Your authenticator gave no proof. It has no credential").waitFor();
    });
    signIns["no-account"] = await begin(APP, [], async (page, seen) => {
      await toOlder(page, seen);
      await page.getByRole("link", { name: "I had an account here before" }).click();
      await button(page, "Look for my account").click();
      await moveTo(page, seen, code(page));
      assert.throws(() => daemon.answer(seen.request), /no account was found/);
      await page.getByText("it belongs to no account here").waitFor();
    });
    await begin(ATTACHED_APP, attaching, async (page, seen) => {
      await toCode(page, seen);
      daemon.answer(seen.request);
      await page.getByRole("link", { name: "That was me" }).waitFor();
    });
    // The other browser asks for the session that was attached; its person cannot give it.
    signIns.dispute = await begin(ATTACHED_APP, disputing, async (page, seen) => {
      const { path } = seen;
      await fail(path, "generic_error");
      await moveTo(page, seen, page.locator(`main[data-transaction]:not([data-transaction="${path}"])`));
      daemon.answer(seen.request);
      await button(page, "That was not me").waitFor();
    });
    // A browser that has not known the account for a day.
    signIns.elsewhere = await begin(ATTACHED_APP, [], async (page, { request }) => {
      daemon.answer(request);
      await page.getByRole("link", { name: "That was me" }).waitFor();
    });
  }
  return {
    daemon,
    signIns,
    async stop() {
      await daemon.kill();
      rmSync(folder, { recursive: true });
    },
  };
}

// Opens each of these pages in a browser.
export const pagesOfAttaching = ({ daemon, signIns }) => {
  const paths = {
    "attach-question": ["question", "/complete"],
    "attach-code": ["code", ""],
    "attach-not": ["failed", "/complete"],
    "attached-dispute": ["dispute", "/complete"],
    "attached-elsewhere": ["elsewhere", "/complete"],
    "older-credential": ["older", "/older"],
    "older-no-account": ["no-account", "/complete"],
  };
  const there = Object.entries(paths).filter(([, [name]]) => signIns[name]);
  const open = (name, more) => async (page) => {
    await page.context().addCookies(signIns[name].cookies);
    await page.goto(new URL(signIns[name].path + more, daemon.issuer).href);
  };
  return Object.fromEntries(there.map(([page, [name, more]]) => [page, open(name, more)]));
};
