// Every page of the wallet, in each of its states, for the tests of all of them and for their pictures: a walk
// that calls `see` with the name of a state and the page that shows it.

import { createWorldBridgeStore } from "idkit-core-2.1";

// What the client kit needs outside of a browser.
import "../bridge/node/clients.mjs";
import { shortLink } from "../relying_parties/node/pages.mjs";
import { newKeychain } from "./keychain.mjs";
import { ACTION, GROUP_NAME, OTHER_APP, VOTE_APP } from "./service.mjs";
import { at, beginHere, choice, codeOnScreen, join, press, signInHere, typePassphrase, word } from "./walks.mjs";

// Codes of problems, as the service gives them to a link that is read.
const PROBLEMS = [
  "unavailable", "other_service", "unknown_group", "unknown_code", "code_expired", "code_used", "enrolled_under_another_number", "not_a_member",
  "replacement_secret_wrong", "replaced_today", "group_full", "changed_elsewhere", "not_signed", "answered", "expired", "sign_in_over_bridge",
  "link_proof_asked", "not_from_application", "not_on_roll", "another_account", "proof_refused", "no_copy", "wrong_key", "storage",
];

let people = 0;

// `device` makes a device of the scene (options as for `newDevice`). `service` has a roll-free action.
export async function tour({ service, device }, see, { problems = true } = {}) {
  const { wallet } = service.urls;
  const number = () => `T-${process.pid}-${(people += 1)}`;
  const open = async (page, path, ...states) => {
    await page.goto("about:blank");
    await page.goto(wallet + path);
    return at(page, ...states);
  };

  // ---- A person who has nothing.
  const keychain = newKeychain();
  const phone = await device({ passkeys: keychain });
  const { page } = phone;
  await open(page, "/", "empty");
  await see("empty", page);
  await open(page, "/about", "about");
  await see("about", page);
  await open(page, "/restore", "restore");
  await see("restore", page);
  await press(phone, "restore-code");
  await at(page, "restore-code");
  await see("restore-code", page);
  await page.locator("#recovery-code").fill("8V2B-3F5F");
  await see("restore-code-typed", page);
  await page.locator("#recovery-code").fill(`${"8V2B-".repeat(6)}8V2B`);
  await see("restore-code-wrong", page);
  await open(page, "/nowhere", "problem").catch(() => {});

  // ---- Joining.
  const member = number();
  const link = await service.invite(member);
  await page.goto(link);
  await at(page, "join");
  await see("join", page);
  await press(phone, "join-with-passkey");
  await at(page, "joined");
  await see("joined", page);
  await press(phone, "make-code");
  await at(page, "code");
  await see("code", page);
  const code = await codeOnScreen(page);
  await press(phone, "code-kept");
  await at(page, "code-kept");
  await see("code-kept", page);
  await page.goto("about:blank");
  await page.goto(link);
  await at(page, "member-already");
  await see("member-already", page);
  await open(page, "/", "home");
  await see("home", page);
  await page.goto(await service.invite(number(), "staff"));
  await at(page, "adding");
  await see("adding", page);

  // ---- What home leads to.
  for (const [hash, state] of [["#code", "new-code"], ["#device", "device"], ["#lost", "lost"], ["#leave.members", "leave"], ["#forget", "forget"]]) {
    await open(page, `/${hash}`, state);
    await see(state, page);
  }
  await open(page, "/#scan", "scan", "scan-none", "scan-refused").then((state) => see(state, page));
  await phone.context.addInitScript(() => {
    const refuse = () => Promise.reject(new DOMException("", sessionStorage.getItem("camera") ?? "NotFoundError"));
    if (navigator.mediaDevices && sessionStorage.getItem("camera")) navigator.mediaDevices.getUserMedia = refuse;
  });
  await page.evaluate(() => sessionStorage.setItem("camera", "NotAllowedError"));
  await open(page, "/#scan", "scan-refused");
  await see("scan-refused", page);

  // ---- Signing in, here and there.
  await beginHere(phone, service, page, service.authorization());
  await see("sign-in-here", page);
  const refusing = service.front;
  await press(phone, "not-now");
  await at(page, "refused");
  await see("refused", page);
  await beginHere(phone, service, page, service.authorization(undefined, { scope: "openid profile email" }));
  await see("sign-in-stand-ins", page);
  const desk = await device({ viewport: { width: 1280, height: 900 }, isMobile: false, hasTouch: false, passkeys: "none" });
  await desk.page.goto(service.authorization());
  await page.goto(await shortLink(desk.page));
  await phone.tap(page.locator(".offers a").first());
  await at(page, "sign-in");
  await see("sign-in-there", page);
  await press(phone, "sign-in");
  await at(page, "digits");
  await see("digits", page);

  // ---- Proofs of client kits.
  const ask = async (request) => {
    const { getState } = createWorldBridgeStore();
    await getState().createClient({ app_id: VOTE_APP, action: ACTION, bridge_url: service.urls.bridge, verification_level: "device", signal: "yes", ...request });
    return `/prove#${new URL(getState().connectorURI).searchParams}`;
  };
  await open(page, await ask({}), "proof");
  await see("proof", page);
  await press(phone, "proof-yes");
  await at(page, "proof-done");
  await see("proof-done", page);
  await open(page, await ask({ app_id: "app_staging_00000000000000000000000000000001", action: "anything" }), "proof");
  await see("proof-unknown", page);
  await open(page, await ask({ action: "sign-in" }), "problem").catch(() => {});
  await see("problem-sign_in_over_bridge", page);

  // ---- Other devices.
  const second = await device({ passkeys: keychain });
  await second.page.goto(`${wallet}/restore`);
  await at(second.page, "restore");
  await press(second, "restore-passkey");
  await at(second.page, "restored");
  await see("restored", second.page);
  const paper = await device({ passkeys: newKeychain() });
  await paper.page.goto(`${wallet}/restore`);
  await at(paper.page, "restore");
  await press(paper, "restore-code");
  await at(paper.page, "restore-code");
  await paper.page.locator("#recovery-code").fill(code);
  await see("restore-code-right", paper.page);
  await press(paper, "restore-code-button");
  await at(paper.page, "restored");
  await press(paper, "restored-both");
  await at(paper.page, "add-way");
  await see("add-way", paper.page);
  await open(second.page, "/#lost", "lost");
  await press(second, "lost-removed");
  await at(second.page, "lost-passkey");
  await see("lost-passkey", second.page);
  await press(second, "add-passkey-button");
  await at(second.page, "code");
  await see("code-replaces", second.page);
  await press(second, "code-kept");
  await at(second.page, "lost-done");
  await see("lost-done", second.page);
  await beginHere(phone, service, page, service.authorization());
  await press(phone, "sign-in");
  await at(page, "problem");
  await see("problem-removed", page);
  await open(second.page, "/#leave.members", "leave");
  await press(second, "leave", { group: GROUP_NAME });
  await at(second.page, "left");
  await see("left", second.page);
  await open(second.page, "/#forget", "forget");
  await press(second, "forget-yes");
  await at(second.page, "forgotten");
  await see("forgotten", second.page);

  // ---- Without a passkey that seals.
  const plain = await device({ passkeys: "plain" });
  await plain.page.goto(await service.invite(number()));
  await at(plain.page, "join");
  await press(plain, "join-with-passkey");
  await at(plain.page, "no-prf");
  await see("no-prf", plain.page);
  await press(plain, "go-on-with-code");
  await at(plain.page, "code");
  await see("code-first", plain.page);
  const kept = await codeOnScreen(plain.page);
  await press(plain, "code-kept");
  await at(plain.page, "code-check");
  await see("code-check", plain.page);
  const position = Number(/\d+/.exec(await plain.page.locator("label[for=group]").innerText())[0]);
  await plain.page.locator("#group").fill(kept.split("-")[position - 1]);
  await press(plain, "continue");
  await at(plain.page, "passphrase");
  await see("passphrase", plain.page);
  await typePassphrase(plain.page);
  await press(plain, "continue");
  await at(plain.page, "joined");
  await see("joined-with-code", plain.page);
  await beginHere(plain, service, plain.page, service.authorization());
  await see("sign-in-passphrase", plain.page);
  const none = await device({ passkeys: "missing" });
  await none.page.goto(await service.invite(number()));
  await at(none.page, "no-passkeys");
  await see("no-passkeys", none.page);
  const inside = await device({ userAgent: "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148 Instagram 380.0" });
  await inside.page.goto(await service.invite(number()));
  await at(inside.page, "in-app");
  await see("in-app", inside.page);

  // ---- An enroller's link, and problems.
  const again = await device({ passkeys: newKeychain() });
  await join(again, await service.invite(number()));
  await again.page.goto(service.authorization(OTHER_APP));
  await again.tap(again.page.locator(".way a.button"));
  await again.tap(again.page.locator(".offers a").first());
  await at(again.page, "problem");
  await see("problem-no_credential", again.page);
  const anew = await device({ passkeys: newKeychain() });
  const known = number();
  await join(anew, await service.invite(known));
  const fresh = await device({ passkeys: newKeychain() });
  await fresh.page.goto(await service.invite(known));
  await at(fresh.page, "join");
  await see("join-anew", fresh.page);
  await fresh.page.goto(service.authorization());
  await fresh.tap(fresh.page.locator(".way a.button"));
  await fresh.tap(fresh.page.locator(".offers a").first());
  await at(fresh.page, "problem");
  await see("problem-no_wallet", fresh.page);
  if (problems) {
    const unused = await service.invite(number());
    for (const code of PROBLEMS) {
      service.front.replace("/groups/members", () => ({ status: 400, headers: { "content-type": "application/json" }, body: JSON.stringify({ code, message: "" }) }));
      try {
        await fresh.page.goto("about:blank");
        await fresh.page.goto(unused);
        await at(fresh.page, "problem");
        await see(`problem-${code}`, fresh.page);
      } finally {
        service.front.restore("/groups/members");
      }
    }
  }
  await open(again.page, "/", "home");
  await again.context.setOffline(true);
  await again.page.locator("#offline").waitFor();
  await see("home-offline", again.page);
  await again.context.setOffline(false);
}
