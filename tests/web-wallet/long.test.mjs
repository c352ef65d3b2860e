// Walks that the gate has no time for (LONG=1): without passkeys, with paper, with a camera, with a client kit,
// several devices, lost devices, answers that are lost, and leaving.

import assert from "node:assert/strict";

import { generateSignal } from "idkit-core-2.1/hashing";

import { scan } from "../applications/node/scan.mjs";
import { shortLink } from "../relying_parties/node/pages.mjs";
import { startBrowserWithCamera } from "./camera.mjs";
import { DESKTOP } from "./devices.mjs";
import { newKeychain } from "./keychain.mjs";
import { addKitPage } from "./kit.mjs";
import { newScene } from "./scene.mjs";
import { GROUP_NAME, QUESTION, VOTE_APP } from "./service.mjs";
import {
  at, backAtApplication, beginHere, hasProblem, join, joinByCode, keepCode, press, restoreByCode, restoreByPasskey,
  says, shutOut, signInHere, typePassphrase,
} from "./walks.mjs";

// An action that a roll counts for.
const CONFIG = `
[[actions]]
app_id = "${VOTE_APP}"
action = "elect"
description = "Who shall lead the board?"
environment = "staging"
accepted_identifiers = ["members"]
max_verifications = 1
roll = "spring"
`;

const scene = newScene({ isLong: true, config: CONFIG });
const { walk, device } = scene;

let people = 0;
// A member number that no other test has.
const somebody = () => `P-${(people += 1)}`;
const invited = async () => {
  const member = somebody();
  return { member, link: await scene.service.invite(member) };
};
const home = async (page) => {
  await page.goto(scene.service.urls.wallet);
  await at(page, "home");
};

// ---- Without a passkey that seals

walk("where a passkey cannot seal, the code on paper comes before the membership, and a passphrase opens it", async () => {
  const phone = await device({ passkeys: "plain" });
  const { page } = phone;
  const { member, link } = await invited();
  await page.goto(link);
  await at(page, "join");
  await press(phone, "join-with-passkey");
  await at(page, "no-prf");
  await joinByCode(phone, "go-on-with-code");
  assert.equal(await scene.service.standing(member), "member");
  // Another page has to open it again.
  await home(page);
  await beginHere(phone, scene.service);
  await typePassphrase(page, "another green boat at noon");
  await press(phone, "sign-in");
  await says(page, "passphrase-wrong");
  await typePassphrase(page);
  await press(phone, "sign-in");
  await backAtApplication(page);
});

walk("nobody is a member before the code was shown to be kept", async () => {
  const phone = await device({ passkeys: "plain" });
  const { page } = phone;
  const { member, link } = await invited();
  await page.goto(link);
  await at(page, "join");
  await press(phone, "without-passkey");
  await at(page, "code");
  await press(phone, "code-kept");
  await at(page, "code-check");
  await page.locator("#group").fill("0000");
  await press(phone, "continue");
  await says(page, "code-check-wrong");
  assert.equal(await scene.service.standing(member), "invited");
  // Closed here, the link is still good.
  await page.goto("about:blank");
  await page.goto(link);
  await at(page, "join");
  await joinByCode(phone, "without-passkey");
  assert.equal(await scene.service.standing(member), "member");
});

walk("a browser without passkeys first names another one, and goes on with the code", async () => {
  const phone = await device({ passkeys: "missing" });
  const { page } = phone;
  const { link } = await invited();
  await page.goto(link);
  await at(page, "no-passkeys");
  assert.equal(await page.locator("#address").innerText(), link);
  await press(phone, "go-on-here");
  await at(page, "join");
  await joinByCode(phone, "continue");
});

walk("inside another app the page leads to the browser", async () => {
  const userAgent = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148 Instagram 380.0";
  const phone = await device({ userAgent });
  const { page } = phone;
  const { link } = await invited();
  await page.goto(link);
  await at(page, "in-app");
  assert.equal(await page.locator("#address").innerText(), link);
});

walk("a person who cancels the passkey can try again", async () => {
  const phone = await device({ passkeys: "refusing" });
  const { page } = phone;
  const { member, link } = await invited();
  await page.goto(link);
  await at(page, "join");
  await press(phone, "join-with-passkey");
  await says(page, "passkey-declined");
  assert.equal(await scene.service.standing(member), "invited");
  await phone.setConfirming(true);
  await press(phone, "join-with-passkey");
  // The authenticator confirms now, and seals nothing: it is one without the extension.
  await at(page, "no-prf");
});

walk("a browser that never answers whether it keeps the storage stops nothing", async () => {
  const phone = await device();
  await phone.context.addInitScript(() => (StorageManager.prototype.persist = () => new Promise(() => {})));
  await join(phone, (await invited()).link);
});

walk("a browser that stores nothing says so, and spends no link", async () => {
  const phone = await device();
  await phone.context.route("**/worker.js", async (route) => {
    const answer = await route.fetch();
    const broken = "Object.defineProperty(globalThis,'indexedDB',{value:{open(){const r={};queueMicrotask(()=>{r.error=new DOMException('','SecurityError');r.onerror?.()});return r}}});";
    await route.fulfill({ response: answer, body: broken + (await answer.text()) });
  });
  const { page } = phone;
  const { member, link } = await invited();
  await page.goto(link);
  if ((await at(page, "join", "problem")) === "join") await press(phone, "join-with-passkey");
  await hasProblem(page, "storage");
  assert.equal(await scene.service.standing(member), "invited");
});

// ---- Paper

walk("the code on paper works in a browser that never saw the passkey, however it is written", async () => {
  const [phone, desk] = [await device(), await device({ ...DESKTOP, passkeys: "none" })];
  await join(phone, (await invited()).link);
  const code = await keepCode(phone);
  const sub = await signInHere(phone, scene.service);
  // One wrong letter is found while it is typed.
  const letter = code[0] === "A" ? "B" : "A";
  await desk.page.goto(`${scene.service.urls.wallet}/restore`);
  await at(desk.page, "restore");
  await press(desk, "restore-code");
  await at(desk.page, "restore-code");
  await desk.page.locator("#recovery-code").fill(letter + code.slice(1));
  await says(desk.page, "code-entry-wrong");
  const asWritten = code.toLowerCase().replaceAll("0", "o").replaceAll("1", "l").replaceAll("-", " ");
  await restoreByCode(desk, scene.service, asWritten);
  await press(desk, "restored-both");
  await at(desk.page, "add-way");
  await press(desk, "add-passphrase-button");
  await at(desk.page, "passphrase");
  await typePassphrase(desk.page);
  await press(desk, "continue");
  await at(desk.page, "home");
  await beginHere(desk, scene.service);
  await typePassphrase(desk.page);
  await press(desk, "sign-in");
  assert.equal(await backAtApplication(desk.page), sub);
});

walk("a new code takes the place of the old one", async () => {
  const [phone, desk] = [await device(), await device({ ...DESKTOP, passkeys: "none" })];
  await join(phone, (await invited()).link);
  const old = await keepCode(phone);
  await home(phone.page);
  await press(phone, "recovery-code");
  await at(phone.page, "new-code");
  const code = await keepCode(phone);
  assert.notEqual(code, old);
  await desk.page.goto(`${scene.service.urls.wallet}/restore`);
  await at(desk.page, "restore");
  await press(desk, "restore-code");
  await desk.page.locator("#recovery-code").fill(old);
  await press(desk, "restore-code-button");
  await says(desk.page, "problem-no_copy");
  await restoreByCode(desk, scene.service, code);
});

// ---- Another screen

walk("the wallet scans the code of another screen, and three digits complete the sign-in there", async () => {
  const camera = await startBrowserWithCamera();
  try {
    const phone = await device({ browser: camera.browser, permissions: ["camera"] });
    const desk = await device({ ...DESKTOP, passkeys: "none" });
    await join(phone, (await invited()).link);
    await desk.page.goto(scene.service.authorization());
    // What the screen shows is what the camera sees.
    const code = await scan(desk.page);
    assert.equal(code, await shortLink(desk.page));
    await camera.see(code);
    await home(phone.page);
    await press(phone, "scan");
    await at(phone.page, "sign-in");
    await says(phone.page, "sign-in-there-warning");
    await press(phone, "sign-in");
    await at(phone.page, "digits");
    const digits = (await phone.page.locator(".digits").innerText()).replace(/\D/g, "");
    const wrong = String((Number(digits) + 1) % 1000).padStart(3, "0");
    await desk.page.locator("#typed").fill(wrong);
    await desk.page.keyboard.press("Enter");
    await desk.page.getByText("It shows other digits.").waitFor();
    await desk.page.locator("#typed").fill(digits);
    await desk.page.keyboard.press("Enter");
    await backAtApplication(desk.page);
    await phone.context.close();
  } finally {
    await camera.close();
  }
});

walk("the camera reads a letter's code, and joins", async () => {
  const camera = await startBrowserWithCamera();
  try {
    const phone = await device({ browser: camera.browser, permissions: ["camera"] });
    const { member, link } = await invited();
    await camera.see(link);
    await phone.page.goto(scene.service.urls.wallet);
    await at(phone.page, "empty");
    await press(phone, "scan");
    await at(phone.page, "join");
    await press(phone, "join-with-passkey");
    await at(phone.page, "joined");
    assert.equal(await scene.service.standing(member), "member");
    await phone.context.close();
  } finally {
    await camera.close();
  }
});

walk("where there is no camera an address can be pasted", async () => {
  const [phone, desk] = [await device(), await device({ ...DESKTOP, passkeys: "none" })];
  await join(phone, (await invited()).link);
  await desk.page.goto(scene.service.authorization());
  await home(phone.page);
  await press(phone, "scan");
  await at(phone.page, "scan-none", "scan-refused");
  await phone.page.locator("#paste").fill("no address");
  await press(phone, "scan-paste-button");
  await says(phone.page, "problem-not_a_link-title");
  await phone.page.locator("#paste").fill(await shortLink(desk.page));
  await press(phone, "scan-paste-button");
  await at(phone.page, "sign-in");
  await says(phone.page, "sign-in-there-warning");
});

walk("a person who says no is believed, on both screens", async () => {
  const phone = await device();
  await join(phone, (await invited()).link);
  await beginHere(phone, scene.service);
  await press(phone, "not-now");
  await at(phone.page, "refused");
  const desk = await device({ ...DESKTOP, passkeys: "none" });
  await desk.page.goto(scene.service.authorization());
  await phone.page.goto(await shortLink(desk.page));
  await phone.tap(phone.page.locator(".offers a").first());
  await at(phone.page, "sign-in");
  await press(phone, "not-now");
  await at(phone.page, "refused");
  await desk.page.getByRole("heading", { name: "Not signed in" }).waitFor();
  assert.equal(await desk.page.locator("#error").innerText(), "access_denied");
});

walk("a clock that is wrong by a day stops no sign-in", async () => {
  for (const hours of [24, -24]) {
    const phone = await device();
    await phone.context.clock.install({ time: Date.now() + hours * 3_600_000 });
    await phone.context.clock.resume();
    await join(phone, (await invited()).link);
    await signInHere(phone, scene.service);
  }
});

// ---- Client kits

walk("a page with an unmodified client kit gets a proof that verifies", async () => {
  // The kit's page writes into the console.
  scene.allowErrors();
  const phone = await device();
  const desk = await device({ ...DESKTOP, passkeys: "none" });
  await join(phone, (await invited()).link);
  const address = await addKitPage(scene.service, "/vote");
  await desk.page.goto(address);
  await desk.page.getByRole("button", { name: "Vote" }).click();
  const uri = await scan(desk.page);
  // The line of docs/applications/idkit.md.
  await phone.page.goto(`${scene.service.urls.wallet}/prove#${new URL(uri).searchParams}`);
  await at(phone.page, "proof");
  await phone.page.getByText(QUESTION).waitFor();
  await press(phone, "proof-yes");
  await at(phone.page, "proof-done");
  await desk.page.waitForFunction(() => document.getElementById("outcome").textContent !== "");
  assert.equal(await desk.page.locator("#outcome").innerText(), "verified");
});

walk("a member whose leaf was replaced after the roll was taken votes by the roll, and one who joined later does not", async () => {
  const { createWorldBridgeStore } = await import("idkit-core-2.1");
  await import("../bridge/node/clients.mjs");
  const [phone, late] = [await device({ passkeys: newKeychain() }), await device({ passkeys: newKeychain() })];
  await join(phone, (await invited()).link);
  await scene.service.takeRoll("spring");
  await join(late, (await invited()).link);
  await home(phone.page);
  await press(phone, "lost-device");
  await shutOut(phone);
  const ask = async (page) => {
    const { getState } = createWorldBridgeStore();
    await getState().createClient({ app_id: VOTE_APP, action: "elect", bridge_url: scene.service.urls.bridge, verification_level: "device", signal: "yes" });
    await page.goto(`${scene.service.urls.wallet}/prove#${new URL(getState().connectorURI).searchParams}`);
    await at(page, "proof");
    return getState;
  };
  const getState = await ask(phone.page);
  await says(phone.page, "proof-roll", { roll: "spring" });
  await press(phone, "proof-yes");
  await at(phone.page, "proof-done");
  await getState().pollForUpdates();
  const { result } = getState();
  const verdict = await fetch(`${scene.service.urls.verify}/api/v2/verify/${VOTE_APP}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ ...result, action: "elect", signal_hash: generateSignal("yes").digest }),
  });
  assert.equal(verdict.status, 200, await verdict.text());
  await ask(late.page);
  await press(late, "proof-yes");
  await hasProblem(late.page, "not_on_roll");
});

// ---- Several devices

walk("a synced passkey opens the membership on a second device, which is the same member", async () => {
  const keychain = newKeychain();
  const [phone, desk] = [await device({ passkeys: keychain }), await device({ ...DESKTOP, passkeys: keychain })];
  await join(phone, (await invited()).link);
  const sub = await signInHere(phone, scene.service);
  const { size } = await scene.service.group();
  await restoreByPasskey(desk, scene.service);
  await press(desk, "restored-both");
  await at(desk.page, "home");
  assert.equal(await signInHere(desk, scene.service), sub);
  assert.equal((await scene.service.group()).size, size);
});

walk("a sign-in that finds no membership goes on once it was brought here", async () => {
  const keychain = newKeychain();
  const [phone, desk] = [await device({ passkeys: keychain }), await device({ ...DESKTOP, passkeys: keychain })];
  await join(phone, (await invited()).link);
  const sub = await signInHere(phone, scene.service);
  await desk.page.goto(scene.service.authorization());
  await desk.page.goto(await shortLink(desk.page));
  await desk.tap(desk.page.locator(".offers a").first());
  await hasProblem(desk.page, "no_wallet");
  await press(desk, "elsewhere");
  await at(desk.page, "restore");
  await press(desk, "restore-passkey");
  await at(desk.page, "restored");
  await press(desk, "restored-both");
  await at(desk.page, "sign-in");
  await press(desk, "sign-in");
  assert.equal(await backAtApplication(desk.page), sub);
});

walk("a passkey with another output on another device opens nothing, and the code does", async () => {
  const keychain = newKeychain();
  const [phone, desk] = [await device({ passkeys: keychain }), await device({ ...DESKTOP, passkeys: { ...keychain, get: (asked) => ({ ...keychain.get(asked), output: Buffer.alloc(32, 7).toString("base64") }) } })];
  await join(phone, (await invited()).link);
  const code = await keepCode(phone);
  await desk.page.goto(`${scene.service.urls.wallet}/restore`);
  await at(desk.page, "restore");
  await press(desk, "restore-passkey");
  await says(desk.page, "passkey-wrong");
  await restoreByCode(desk, scene.service, code);
});

walk("an authenticator that gives its output only when it is used is asked once more", async () => {
  const keychain = newKeychain();
  const once = { ...keychain, create: (asked) => ({ ...keychain.create(asked), output: undefined }) };
  const phone = await device({ passkeys: once });
  await join(phone, (await invited()).link);
  await signInHere(phone, scene.service);
});

// ---- Lost devices

walk("a lost device proves nothing once it is shut out, and the member stays the same one", async () => {
  const [old, fresh] = [newKeychain(), newKeychain()];
  const [lost, phone, desk] = [await device({ passkeys: old }), await device({ passkeys: fresh }), await device({ ...DESKTOP, passkeys: old })];
  await join(lost, (await invited()).link);
  const code = await keepCode(lost);
  const sub = await signInHere(lost, scene.service);
  await restoreByCode(phone, scene.service, code);
  await press(phone, "restored-lost");
  const newCode = await shutOut(phone);
  assert.notEqual(newCode, code);
  await press(phone, "to-home");
  await at(phone.page, "home");
  assert.equal(await signInHere(phone, scene.service), sub);
  // The old device, its passkey and its code.
  await beginHere(lost, scene.service);
  await press(lost, "sign-in");
  await hasProblem(lost.page, "replaced_elsewhere");
  await desk.page.goto(`${scene.service.urls.wallet}/restore`);
  await at(desk.page, "restore");
  await press(desk, "restore-passkey");
  await says(desk.page, "problem-no_copy");
  await press(desk, "restore-code");
  await desk.page.locator("#recovery-code").fill(code);
  await press(desk, "restore-code-button");
  await says(desk.page, "problem-no_copy");
  await restoreByCode(desk, scene.service, newCode);
});

walk("a person who cannot take the old device out goes on with paper alone", async () => {
  const keychain = newKeychain();
  const [lost, phone] = [await device({ passkeys: keychain }), await device({ passkeys: keychain })];
  await join(lost, (await invited()).link);
  const sub = await signInHere(lost, scene.service);
  await restoreByPasskey(phone, scene.service);
  await press(phone, "restored-lost");
  await at(phone.page, "lost");
  await press(phone, "lost-cannot");
  await at(phone.page, "code");
  const code = (await phone.page.locator("#code").innerText()).replace(/\s/g, "");
  await press(phone, "code-kept");
  await at(phone.page, "code-check");
  const position = Number(/\d+/.exec(await phone.page.locator("label[for=group]").innerText())[0]);
  await phone.page.locator("#group").fill(code.split("-")[position - 1]);
  await press(phone, "continue");
  await at(phone.page, "passphrase");
  await typePassphrase(phone.page);
  await press(phone, "continue");
  await at(phone.page, "lost-done");
  await beginHere(phone, scene.service);
  if (await phone.page.locator("#passphrase").count()) await typePassphrase(phone.page);
  await press(phone, "sign-in");
  assert.equal(await backAtApplication(phone.page), sub);
  await beginHere(lost, scene.service);
  await press(lost, "sign-in");
  await hasProblem(lost.page, "replaced_elsewhere");
  assert.equal(keychain.credentials.length, 1, "no new passkey reaches the old device");
});

walk("everything lost: a new link of the organization begins anew", async () => {
  const [lost, phone] = [await device(), await device()];
  const { member, link } = await invited();
  await join(lost, link);
  const sub = await signInHere(lost, scene.service);
  await phone.page.goto(await scene.service.invite(member));
  await at(phone.page, "join");
  await press(phone, "replace-with-passkey");
  await at(phone.page, "joined");
  assert.notEqual(await signInHere(phone, scene.service), sub, "with another secret it is another person there");
  await beginHere(lost, scene.service);
  await press(lost, "sign-in");
  await hasProblem(lost.page, "removed");
});

// ---- Leaving

walk("a member who leaves is none from that moment, and comes back with a new link", async () => {
  const phone = await device();
  const { member, link } = await invited();
  await join(phone, link);
  const sub = await signInHere(phone, scene.service);
  await home(phone.page);
  await press(phone, "leave", { group: GROUP_NAME });
  await at(phone.page, "leave");
  await press(phone, "leave", { group: GROUP_NAME });
  await at(phone.page, "left");
  assert.match(await scene.service.standing(member), /^(leaving|left)$/);
  await home(phone.page);
  assert.equal(await phone.page.locator(".membership").count(), 0);
  await phone.page.goto(await scene.service.invite(member));
  await at(phone.page, "adding");
  await press(phone, "join-add");
  await at(phone.page, "joined");
  assert.equal(await signInHere(phone, scene.service), sub, "with the same secret it is the same person");
});

walk("a browser that is told to forget keeps nothing, and the member stays one", async () => {
  const phone = await device();
  const { member, link } = await invited();
  await join(phone, link);
  await home(phone.page);
  await press(phone, "forget");
  await at(phone.page, "forget");
  await press(phone, "forget-yes");
  await at(phone.page, "forgotten");
  const kept = await phone.page.evaluate(async () => {
    const databases = await indexedDB.databases();
    const records = await Promise.all(
      databases.map(({ name }) => new Promise((resolve, reject) => {
        const request = indexedDB.open(name);
        request.onerror = () => reject(request.error);
        request.onsuccess = () => {
          const { result } = request;
          const names = [...result.objectStoreNames];
          const counts = names.map((store) => new Promise((done) => (result.transaction(store).objectStore(store).count().onsuccess = (event) => done(event.target.result))));
          Promise.all(counts).then((all) => resolve(all.reduce((sum, count) => sum + count, 0)));
        };
      })),
    );
    return { records: records.reduce((sum, count) => sum + count, 0), storage: Object.keys(localStorage).filter((key) => key !== "language") };
  });
  assert.deepEqual(kept, { records: 0, storage: [] });
  assert.equal(await scene.service.standing(member), "member");
  await restoreByPasskey(phone, scene.service);
});

walk("one browser holds memberships of two groups, and each answers where it is asked for", async () => {
  const phone = await device();
  const member = somebody();
  await join(phone, await scene.service.invite(member));
  await phone.page.goto(await scene.service.invite(member, "staff"));
  await at(phone.page, "adding");
  await press(phone, "join-add");
  await at(phone.page, "joined");
  await home(phone.page);
  assert.equal(await phone.page.locator(".membership").count(), 2);
  assert.equal(await scene.service.standing(member, "staff"), "member");
  await signInHere(phone, scene.service);
});

// ---- What is lost on the way

for (const [name, method, path] of [
  ["the sealed copy", "PUT", /^\/sealed\//],
  ["the copy that is read back", "GET", /^\/sealed\//],
  ["the joining", "POST", "/groups/members/join"],
]) {
  walk(`an answer about ${name} that is lost leaves a member, once`, async () => {
    const phone = await device();
    const { page } = phone;
    const { member, link } = await invited();
    await page.goto(link);
    await at(page, "join");
    scene.service.front.lose(method, path);
    await press(phone, "join-with-passkey");
    const state = await at(page, "joined", "problem");
    if (state === "problem") {
      await press(phone, "try-again");
      await at(page, "joined");
    }
    assert.equal(await scene.service.standing(member), "member");
    await signInHere(phone, scene.service);
  });
}

walk("a page that is closed while it joins goes on with the same link", async () => {
  const phone = await device();
  const { page } = phone;
  const { member, link } = await invited();
  await page.goto(link);
  await at(page, "join");
  const held = scene.service.front.hold("POST", "/groups/members/join");
  await press(phone, "join-with-passkey");
  await held.arrived;
  await page.goto("about:blank");
  held.release();
  await page.goto(link);
  const state = await at(page, "adding", "member-already");
  if (state === "adding") {
    await press(phone, "join-add");
    await at(page, "joined");
  }
  assert.equal(await scene.service.standing(member), "member");
  await signInHere(phone, scene.service);
});

walk("shutting out goes on where it was interrupted", async () => {
  const keychain = newKeychain();
  const phone = await device({ passkeys: keychain });
  const { page } = phone;
  await join(phone, (await invited()).link);
  const sub = await signInHere(phone, scene.service);
  await home(page);
  await press(phone, "lost-device");
  await at(page, "lost");
  await press(phone, "lost-removed");
  await at(page, "lost-passkey");
  await press(phone, "add-passkey-button");
  await at(page, "code");
  const held = scene.service.front.hold("POST", "/groups/members/replace");
  await press(phone, "code-kept");
  await held.arrived;
  await page.goto("about:blank");
  held.release();
  await home(page);
  await says(page, "home-pending-replace");
  await press(phone, "home-go-on");
  await at(page, "go-on");
  await press(phone, "home-go-on");
  await at(page, "lost-done");
  assert.equal(await signInHere(phone, scene.service), sub);
});
