// What others try: a hostile application's page, strangers with links, codes and handles, an operator's network
// that puts old copies back, and thieves of unlocked phones (LONG=1).

import assert from "node:assert/strict";

import { shortLink, transactionOf } from "../relying_parties/node/pages.mjs";
import { DESKTOP } from "./devices.mjs";
import { newKeychain } from "./keychain.mjs";
import { newScene } from "./scene.mjs";
import { DENYING_APP, OTHER_APP, VOTE_APP } from "./service.mjs";
import {
  at, beginHere, codeOnScreen, hasProblem, join, keepCode, press, restoreByCode, restoreByPasskey, says, shutOut, signInHere,
} from "./walks.mjs";

// A name that an application chooses for itself.
const MARKUP = `<img src=x onerror="document.title='broken'"><script>document.title='broken'</script>`;
const MARKUP_APP = "app_staging_5e1f5a3e0000000000000000000000c3";
const CONFIG = `
[[apps]]
id = "${MARKUP_APP}"
name = '''${MARKUP}'''
public = true
proof = "legacy"
accepted_identifiers = ["members"]
redirect_uris = ["http://localhost:3000/callback"]
`;

const scene = newScene({ isLong: true, config: CONFIG });
const { walk, device } = scene;

let people = 0;
const invited = async () => {
  const member = `A-${(people += 1)}`;
  return { member, link: await scene.service.invite(member) };
};
async function member(options) {
  const phone = await device(options);
  const { member, link } = await invited();
  await join(phone, link);
  return Object.assign(phone, { member, link });
}
const walletLink = async (page, short) => {
  await page.goto(short);
  return page.locator(".offers a").first().getAttribute("href");
};

// ---- A hostile application

walk("a page of another origin frames, opens, reads and calls nothing of the wallet", async () => {
  scene.allowErrors();
  const phone = await member();
  const { wallet } = scene.service.urls;
  scene.service.application.pages["/hostile"] = "<h1>Hostile</h1>";
  const page = await phone.context.newPage();
  await page.goto(`${scene.service.application.url}/hostile`);
  const seen = await page.evaluate(async (wallet) => {
    const framed = await new Promise((resolve) => {
      const frame = document.createElement("iframe");
      frame.src = wallet;
      frame.onload = () => {
        try {
          resolve(frame.contentDocument === null ? "other origin" : "nothing");
        } catch {
          resolve("other origin");
        }
      };
      document.body.append(frame);
    });
    const read = async (path, options) => fetch(wallet + path, options).then(() => "read", () => "refused");
    return {
      framed,
      calls: await Promise.all([read("/wallet.json"), read("/groups"), read("/groups/members"), read(`/sealed/${"0".repeat(64)}`), read("/groups/members/leave", { method: "POST", headers: { "content-type": "application/json" }, body: "{}" })]),
    };
  }, wallet);
  assert.deepEqual(seen.calls, Array(5).fill("refused"));
  const frame = page.frames().find((each) => each !== page.mainFrame());
  assert.ok(!/Your memberships/.test(await frame.locator("body").innerText().catch(() => "")), "the wallet is in no frame");
  // A window of the wallet has no way back, and the opener none to it.
  const opened = phone.context.waitForEvent("page");
  await page.evaluate((wallet) => (globalThis.opened = window.open(wallet)), wallet);
  const popup = await opened;
  await at(popup, "home");
  assert.equal(await popup.evaluate(() => window.opener), null);
  assert.equal(await page.evaluate(() => globalThis.opened.closed), true, "the window is cut off");
});

walk("a link to an act of the wallet does nothing before the person presses a button there", async () => {
  const phone = await member();
  for (const [hash, state] of [["#forget", "forget"], ["#leave.members", "leave"], ["#lost", "lost"], ["#code", "new-code"]]) {
    await phone.page.goto("about:blank");
    await phone.page.goto(`${scene.service.urls.wallet}/${hash}`);
    await at(phone.page, state);
  }
  assert.equal(await scene.service.standing(phone.member), "member");
  await signInHere(phone, scene.service);
});

walk("names of applications are text", async () => {
  const phone = await member();
  await beginHere(phone, scene.service, phone.page, scene.service.authorization(MARKUP_APP, { redirect_uri: "http://localhost:3000/callback" }));
  assert.ok((await phone.page.locator("h1").innerText()).includes("<img src=x"));
  assert.equal(await phone.page.locator("#main img").count(), 0);
  assert.ok(!(await phone.page.title()).startsWith("broken"));
});

walk("an application gets no proof of a group that the person is not in", async () => {
  const phone = await member();
  await phone.page.goto(scene.service.authorization(OTHER_APP));
  await phone.tap(phone.page.locator(".way a.button"));
  await phone.tap(phone.page.locator(".offers a").first());
  await hasProblem(phone.page, "no_credential");
});

walk("an application that takes no answers from elsewhere gets none", async () => {
  const [phone, desk] = [await member(), await device({ ...DESKTOP, passkeys: "none" })];
  await desk.page.goto(scene.service.authorization(DENYING_APP));
  const request = new URL(`${await transactionOf(desk.page)}/request`, desk.page.url()).href;
  await phone.page.goto(`${scene.service.urls.wallet}/sign-in?request=${encodeURIComponent(request)}#there`);
  if ((await at(phone.page, "sign-in", "problem")) === "sign-in") await press(phone, "sign-in");
  await hasProblem(phone.page, "cross_device_denied");
});

// ---- A stranger with links and codes

walk("a link that a stranger sends signs the stranger in only with the digits, whatever stands behind it", async () => {
  for (const fragment of ["#there", "#here", ""]) {
    const [victim, stranger] = [await member(), await device({ ...DESKTOP, passkeys: "none" })];
    await stranger.page.goto(scene.service.authorization());
    const short = await shortLink(stranger.page);
    const elsewhere = await victim.context.newPage();
    const link = (await walletLink(elsewhere, short)).replace(/#\w+$/, "") + fragment;
    await victim.page.goto(link);
    await at(victim.page, "sign-in");
    // The victim reads what the other screen is, unless the stranger says that there is none.
    if (fragment !== "#here") await says(victim.page, "sign-in-there-warning");
    await press(victim, "sign-in");
    if (fragment === "#here") {
      // The way back works in the browser alone that began.
      await victim.page.getByRole("heading", { name: "This sign-in began in another browser" }).waitFor();
    } else await at(victim.page, "digits");
    const before_ = scene.service.application.signedIn.length;
    await stranger.page.goto(new URL(`${new URL(stranger.page.url()).pathname}/complete`, scene.service.urls.issuer).href);
    for (const guess of ["000", "001"]) {
      await stranger.page.goto(new URL(`${await transactionOf(stranger.page).catch(() => new URL(stranger.page.url()).pathname)}/complete?digits=${guess}`, scene.service.urls.issuer).href);
    }
    assert.equal(scene.service.application.signedIn.length, before_, `nobody is signed in by a link with ${fragment || "no fragment"}`);
  }
});

walk("codes of strangers lead to no other origin", async () => {
  const phone = await member();
  const elsewhere = "https://evil.example";
  const requests = [
    `${elsewhere}/s/aaaaaaaaaaaaaaaa`,
    `${elsewhere}/authorize/${"0".repeat(32)}/request`,
    `${scene.service.urls.wallet}/sign-in?request=${encodeURIComponent(`${elsewhere}/authorize/${"0".repeat(32)}/request`)}#here`,
    `https://world.org/verify?t=wld&i=${"0".repeat(32)}&k=${encodeURIComponent(Buffer.alloc(32).toString("base64"))}&b=${encodeURIComponent(elsewhere)}`,
    `${elsewhere}/join#members.${"0".repeat(28)}`,
  ];
  for (const text of requests) {
    await phone.page.goto(`${scene.service.urls.wallet}/#scan`);
    await at(phone.page, "scan-none", "scan-refused", "scan");
    await phone.page.locator("#paste").fill(text);
    await press(phone, "scan-paste-button");
    await at(phone.page, "problem");
    const title = await phone.page.locator("h1").innerText();
    assert.ok(!/did not work/.test(title), `${text}: ${title}`);
  }
  // `assertClean` looks for requests to the other origin.
});

walk("a link that was used opens nothing for a second person, who is told", async () => {
  const [first, second] = [await member(), await device()];
  await second.page.goto(first.link);
  await hasProblem(second.page, "code_used");
});

walk("a request that the issuer has not signed is not shown", async () => {
  const [phone, desk] = [await member(), await device({ ...DESKTOP, passkeys: "none" })];
  await desk.page.goto(scene.service.authorization());
  const request = new URL(`${await transactionOf(desk.page)}/request`, desk.page.url()).href;
  const changes = {
    "another application": (body) => ({ ...body, request: changed(body.request, { app_name: "Your bank" }) }),
    "no signature": (body) => ({ ...body, request: body.request.replace(/[^.]+$/, "") }),
    "no signed form": ({ request: _, ...body }) => body,
    "an answer to another host": (body) => ({ ...body, request: changed(body.request, { answer_url: "https://evil.example/" }) }),
  };
  const changed = (jws, claims) => {
    const [head, body, signature] = jws.split(".");
    const text = JSON.stringify({ ...JSON.parse(Buffer.from(body, "base64url")), ...claims });
    return [head, Buffer.from(text).toString("base64url"), signature].join(".");
  };
  for (const [name, change] of Object.entries(changes)) {
    await phone.context.unroute("**/request").catch(() => {});
    await phone.context.route("**/authorize/*/request", async (route) => {
      const answer = await route.fetch();
      await route.fulfill({ response: answer, json: change(await answer.json()) });
    });
    await phone.page.goto("about:blank");
    await phone.page.goto(`${scene.service.urls.wallet}/sign-in?request=${encodeURIComponent(request)}#there`);
    await hasProblem(phone.page, "not_signed").catch((error) => {
      throw new Error(`${name}: ${error.message}`);
    });
    await phone.context.unroute("**/authorize/*/request");
  }
});

// ---- Over the bridge

walk("no page gets a sign-in over the bridge, however it writes it", async () => {
  const { createWorldBridgeStore } = await import("idkit-core-2.1");
  await import("../bridge/node/clients.mjs");
  const phone = await member();
  for (const action of ["", "sign-in", `0x${Buffer.from("sign-in").toString("hex")}`]) {
    const { getState } = createWorldBridgeStore();
    await getState().createClient({ app_id: VOTE_APP, action, bridge_url: scene.service.urls.bridge, verification_level: "device", signal: "" });
    await phone.page.goto("about:blank");
    await phone.page.goto(`${scene.service.urls.wallet}/prove#${new URL(getState().connectorURI).searchParams}`);
    await hasProblem(phone.page, "sign_in_over_bridge");
    await getState().pollForUpdates();
    assert.equal(getState().result, null, action);
    assert.notEqual(getState().verificationState, "confirmed", action);
  }
});

// ---- Handles and copies

// The requests about sealed copies that passed since the last call.
const copies = () => scene.service.front.drain().filter(({ path }) => path.startsWith("/sealed/"));

walk("a stranger with a handle opens, changes and deletes nothing", async () => {
  scene.service.front.drain();
  const phone = await member();
  const [{ path }] = copies();
  const { wallet } = scene.service.urls;
  const read = await (await fetch(wallet + path)).json();
  assert.deepEqual(Object.keys(read).sort(), ["iv", "sealed", "slots", "version"]);
  const body = JSON.stringify({ iv: read.iv, sealed: read.sealed, slots: read.slots, handles: [path.slice(8)], write_key_hash: "0".repeat(64) });
  const json = { "content-type": "application/json" };
  const tries = [
    [{ method: "PUT", headers: { ...json, "if-match": `"${read.version}"` }, body }, 401],
    [{ method: "PUT", headers: { ...json, "if-match": `"${read.version}"`, authorization: `Bearer ${"0".repeat(64)}` }, body }, 403],
    [{ method: "PUT", headers: { ...json, "if-none-match": "*" }, body }, 403],
    [{ method: "DELETE", headers: { "if-match": `"${read.version}"` } }, 401],
    [{ method: "DELETE", headers: { "if-match": `"${read.version}"`, authorization: `Bearer ${"0".repeat(64)}` } }, 403],
  ];
  for (const [options, status] of tries) assert.equal((await fetch(wallet + path, options)).status, status, JSON.stringify(options.headers));
  assert.deepEqual(await (await fetch(wallet + path)).json(), read);
  // The handle is in no log.
  assert.ok(!scene.service.log().includes(path.slice(8)));
  await phone.wipe();
  await restoreByPasskey(phone, scene.service);
});

walk("an old sealed copy that is put back brings no old leaf back", async () => {
  const keychain = newKeychain();
  scene.service.front.drain();
  const phone = await member({ passkeys: keychain });
  const [{ path: oldPath }] = copies();
  const old = await (await fetch(scene.service.urls.wallet + oldPath)).text();
  const sub = await signInHere(phone, scene.service);
  const thiefs = keychain.copy();
  await phone.page.goto(`${scene.service.urls.wallet}/#lost`);
  await shutOut(phone);
  const asOld = () => ({ status: 200, headers: { "content-type": "application/json", "cache-control": "no-store", etag: '"1"' }, body: old });
  scene.service.front.replace(oldPath, asOld);
  try {
    const thief = await device({ passkeys: thiefs });
    await thief.page.goto(`${scene.service.urls.wallet}/restore`);
    await at(thief.page, "restore");
    await press(thief, "restore-passkey");
    await at(thief.page, "restored");
    await press(thief, "restored-both");
    await at(thief.page, "home");
    await beginHere(thief, scene.service);
    await press(thief, "sign-in");
    await hasProblem(thief.page, "removed");
    // It cannot replace either: its secret is not the one that the service has.
    await thief.page.goto(`${scene.service.urls.wallet}/#lost`);
    await at(thief.page, "lost");
  } finally {
    scene.service.front.restore(oldPath);
  }
  assert.equal(await signInHere(phone, scene.service), sub, "the member goes on");
});

walk("a device whose copy at the service was put back to an old version loses nothing", async () => {
  scene.service.front.drain();
  const phone = await member();
  const [{ path }] = copies();
  const old = await (await fetch(scene.service.urls.wallet + path)).text();
  const code = await keepCode(phone);
  const sub = await signInHere(phone, scene.service);
  const asOld = (request) => (request.method === "GET" ? { status: 200, headers: { "content-type": "application/json", "cache-control": "no-store", etag: '"1"' }, body: old } : { status: 412, headers: { "content-type": "application/json" }, body: '{"code":"version_mismatch","message":""}' });
  scene.service.front.replace(path, asOld);
  try {
    await phone.page.goto(`${scene.service.urls.wallet}/#code`);
    await at(phone.page, "new-code");
    await press(phone, "make-code");
    // It says that the copy cannot be written, and keeps what it has.
    await at(phone.page, "problem");
    assert.equal(await signInHere(phone, scene.service), sub);
  } finally {
    scene.service.front.restore(path);
  }
  const desk = await device({ ...DESKTOP, passkeys: "none" });
  await restoreByCode(desk, scene.service, code);
});

// ---- A stolen phone that is unlocked

for (const first of ["owner", "thief"]) {
  walk(`of owner and thief who both shut the other one out the first wins, here the ${first}, and the organization's link undoes it`, async () => {
    const shared = newKeychain();
    const owner = await device({ passkeys: shared });
    const { member: number, link } = await invited();
    await join(owner, link);
    const code = await keepCode(owner);
    const sub = await signInHere(owner, scene.service);
    // The thief has the phone unlocked, and the owner has the paper.
    const thief = owner;
    const second = await device({ passkeys: newKeychain() });
    await restoreByCode(second, scene.service, code);
    await press(second, "restored-lost");
    await at(second.page, "lost");
    await thief.page.goto(`${scene.service.urls.wallet}/#lost`);
    await at(thief.page, "lost");
    const [winner, loser] = first === "owner" ? [second, thief] : [thief, second];
    // Both have begun; each stands before the last press.
    for (const each of [winner, loser]) {
      await press(each, "lost-removed");
      await at(each.page, "lost-passkey");
      await press(each, "add-passkey-button");
      await at(each.page, "code");
      assert.match(await codeOnScreen(each.page), /-/);
    }
    await press(winner, "code-kept");
    await at(winner.page, "lost-done");
    await press(loser, "code-kept");
    await at(loser.page, "problem");
    const title = await loser.page.locator("h1").innerText();
    assert.ok(["Another device was faster", "Only once a day", "You are not a member any more", "It was changed elsewhere"].includes(title), title);
    assert.equal(await signInHere(winner, scene.service), sub);
    await beginHere(loser, scene.service);
    if (await loser.page.locator("#recovery-code").count()) assert.fail("the loser's wallet asks for a code");
    await press(loser, "sign-in");
    await at(loser.page, "problem");
    // The organization makes a link: its holder begins anew, and both others are out.
    const fresh = await device({ passkeys: newKeychain() });
    await fresh.page.goto(await scene.service.invite(number));
    await at(fresh.page, "join");
    await press(fresh, "replace-with-passkey");
    await at(fresh.page, "joined");
    assert.notEqual(await signInHere(fresh, scene.service), sub);
    await beginHere(winner, scene.service);
    await press(winner, "sign-in");
    await hasProblem(winner.page, "removed");
  });
}

// ---- Secrets

walk("no address, no log and no console has a code, and no header says where the person came from", async () => {
  const phone = await device();
  const { member: number, link } = await invited();
  const printed = [];
  const referrers = [];
  phone.context.on("console", (message) => printed.push(message.text()));
  phone.context.on("request", (request) => request.url().startsWith("http") && referrers.push(request.headers().referer));
  scene.service.front.drain();
  await join(phone, link);
  const code = await keepCode(phone);
  await phone.page.goto(scene.service.urls.wallet);
  await at(phone.page, "home");
  assert.equal(await scene.service.standing(number), "member");
  const paths = scene.service.front.drain().map(({ path }) => path).join("\n");
  const secrets = [link.split(".").at(-1), code, code.replaceAll("-", "")];
  for (const [what, text] of Object.entries({ paths, console: printed.join("\n"), log: scene.service.log() })) {
    for (const secret of secrets) assert.ok(!text.includes(secret), `${what} has a code`);
  }
  assert.deepEqual(referrers.filter(Boolean), []);
  const stored = await phone.page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie]));
  for (const secret of secrets) assert.ok(!stored.includes(secret));
});
