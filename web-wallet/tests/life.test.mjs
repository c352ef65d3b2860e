// Lives of members with a daemon: joining, signing in, proving, a second device, replacing, leaving, coming back.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { core, isRefusal } from "./core.mjs";
import { DENYING, Device, joined, newPasskey, startService } from "./service.mjs";

let service;
// The member of the first test, who has a passkey and a code.
let first;
before(async () => (service = await startService()));
after(() => service?.stop());

test("a person joins with a link, and signs in in this browser and for another screen", async () => {
  const link = await service.invite("K-1");
  const device = new Device(service);
  const wallet = device.start();
  assert.deepEqual(await wallet.status(), { exists: false, open: false, slots: [], groups: [], codeKept: false, pending: null, copied: false });
  const invitation = { act: "join", group: "members", name: "Members of the cooperative", member: false };
  assert.deepEqual(await wallet.readInvitation(link), invitation);
  const { userHandle, code } = await wallet.create();
  const passkey = newPasskey();
  await wallet.seal([passkey(), { kind: "code", code }], link);
  assert.equal((await wallet.status()).pending, "join");
  assert.deepEqual(await wallet.enrol(link), { group: "members", name: "Members of the cooperative", joined: true });
  const { credential } = passkey();
  const status = await wallet.status();
  assert.deepEqual(status.slots, [{ kind: "passkey", credential }, { kind: "code" }]);
  assert.deepEqual([status.exists, status.open, status.pending, status.copied], [true, true, null, true]);
  assert.deepEqual(status.groups, [{ group: "members", name: "Members of the cooperative", joined: true }]);
  // The same link again spends nothing.
  assert.deepEqual(await wallet.readInvitation(link), { ...invitation, member: true });
  assert.equal((await wallet.enrol(link)).joined, true);
  assert.equal(await service.standing("K-1"), "member");

  const here = await service.beginSignIn();
  const read = await wallet.read(here.link("#here"));
  assert.equal(read.is, "sign-in");
  const { application, host, scopes, group, place, answered, initiator } = read.asked;
  assert.deepEqual([application, host, scopes, place, answered], ["Forum of the cooperative", "localhost:3000", ["openid"], "here", false]);
  assert.deepEqual(group, { id: "members", name: "Members of the cooperative" });
  assert.equal(initiator.userAgent, "the browser of the test");
  const next = await wallet.answerSignIn(read.id);
  assert.equal(next.next, "return");
  const claims = await here.completeAt(next.url);
  assert.deepEqual(claims[`${service.urls.issuer}/groups`], ["members"]);
  first = { device, wallet, passkey, userHandle };

  // A code that was scanned, by a worker that began anew: the request is read before the wallet is open.
  const later = device.start();
  const there = await service.beginSignIn();
  const scanned = await later.read(there.short_url);
  assert.equal(scanned.asked.place, "there");
  await assert.rejects(later.answerSignIn(scanned.id), isRefusal("locked"));
  await assert.rejects(later.unlock({ ...passkey(), output: new Uint8Array(32) }), isRefusal("wrong_key"));
  await later.unlock(passkey());
  const { next: what, digits } = await later.answerSignIn(scanned.id);
  assert.equal(what, "digits");
  assert.equal(await there.completeAt(there.request_url.replace("/request", "/complete")), null);
  assert.equal((await there.completeWith(digits)).sub, claims.sub);
  await assert.rejects(later.answerSignIn(scanned.id), isRefusal("gone"));
  assert.equal((await later.read(there.request_url).catch((error) => error)).code ?? "answered", "answered");

  // The paper code alone, in a browser that knows nothing: the same person.
  const other = new Device(service);
  const restored = other.start();
  await assert.rejects(restored.restore({ kind: "code", code: core.drawCode() }), isRefusal("no_copy"));
  const found = await restored.restore({ kind: "code", code: core.printCode(code) });
  assert.deepEqual([found.groups, found.codeKept], [status.groups, true]);
  const third = await service.beginSignIn();
  const answer = await restored.answerSignIn((await restored.read(third.link("#here"))).id);
  assert.equal((await third.completeAt(answer.url)).sub, claims.sub);
  // And by the passkey that was synced.
  const synced = new Device(service).start();
  await assert.rejects(synced.restore(passkey()), isRefusal("no_copy"));
  assert.equal((await synced.restore(passkey(), userHandle)).groups.length, 1);
});

test("what was not begun for a person is refused, or answered so that the other side knows", async () => {
  const device = new Device(service, first.device.storage);
  const wallet = device.start();
  await wallet.unlock(first.passkey());
  const begun = await service.beginSignIn();
  const { id } = await wallet.read(begun.link("#there"));
  await wallet.refuse(id);
  await assert.rejects(wallet.refuse(id), isRefusal("gone"));
  const again = await wallet.read(begun.link("#there"));
  assert.equal(again.asked.answered, true);
  await assert.rejects(wallet.answerSignIn(again.id), isRefusal("answered"));

  const denying = await service.beginSignIn(DENYING);
  await assert.rejects(wallet.read(denying.link("#there")), isRefusal("cross_device_denied"));
  await assert.rejects(wallet.read(denying.request_url), isRefusal("cross_device_denied"));
  const { id: here } = await wallet.read(denying.link("#here"));
  assert.ok(await denying.completeAt((await wallet.answerSignIn(here)).url));

  await assert.rejects(wallet.read("https://elsewhere.example/authorize/t/request#here"), isRefusal("other_service"));
  await assert.rejects(wallet.read(`${service.urls.issuer}/s/abcdefghijkl2347`), isRefusal("expired"));
  await assert.rejects(wallet.read(`${service.urls.issuer}/authorize/AAAA/request`), isRefusal("expired"));
  await assert.rejects(wallet.read("hello"), isRefusal("not_a_link"));
  await assert.rejects(new Device(service).start().read(begun.link("#here")), isRefusal("no_wallet"));
  // A request that the issuer did not sign, and one that is answered elsewhere.
  for (const [change, refusal] of [
    [(body) => ({ ...body, request: body.request.replace(/.....$/, "AAAAA") }), "not_signed"],
    [(body) => ({ ...body, request: body.request.replace(/\.[^.]*\./, `.${btoa("{}").replace(/=/g, "")}.`) }), "not_signed"],
    [(body) => ({ ...body, request: undefined }), "not_signed"],
  ]) {
    device.after = async (request, response) => (request.url.endsWith("/request") ? Response.json(change(await response.json())) : response);
    await assert.rejects(wallet.read((await service.beginSignIn()).link("#here")), isRefusal(refusal));
  }
  device.after = async (request, response) => (request.url.endsWith("/jwks") ? Response.json({ keys: [] }) : response);
  await assert.rejects(wallet.read((await service.beginSignIn()).link("#here")), isRefusal("not_signed"));
  device.after = async (request, response) => (request.url.includes("/s/") ? Response.json({ request_url: "https://elsewhere.example/authorize/t/request" }) : response);
  await assert.rejects(wallet.read((await service.beginSignIn()).short_url), isRefusal("other_service"));
});

test("a link that is not good is refused before a person is made, and leaves nothing behind", async () => {
  const used = await service.invite("K-3");
  const other = new Device(service).start();
  await other.create();
  await other.seal([newPasskey()()], used);
  await other.enrol(used);
  const wallet = new Device(service).start();
  await assert.rejects(wallet.readInvitation(used), isRefusal("code_used"));
  const never = used.replace(/\.\w+$/, `.${core.drawCode()}`);
  await assert.rejects(wallet.readInvitation(never), isRefusal("unknown_code"));
  await assert.rejects(wallet.readInvitation(never.replace("#members", "#strangers")), isRefusal("unknown_group"));
  await wallet.create();
  await assert.rejects(wallet.seal([newPasskey()()], used), isRefusal("code_used"));
  assert.equal((await wallet.status()).exists, false);
  // The same person, with a good link.
  const good = await service.invite("K-4");
  await wallet.seal([newPasskey()()], good);
  assert.equal((await wallet.enrol(good)).joined, true);
});

test("without a passkey the code and a passphrase open the wallet, and the copy has the code's slot only", async () => {
  const device = new Device(service);
  const wallet = device.start();
  const link = await service.invite("K-5");
  const { code } = await wallet.create();
  const passphrase = { kind: "passphrase", passphrase: "a long passphrase" };
  await wallet.seal([passphrase, { kind: "code", code }], link);
  await wallet.enrol(link);
  const sent = device.requests.filter(({ method }) => method === "PUT").map(({ body }) => JSON.parse(body));
  assert.ok(sent.length >= 1 && sent.every(({ slots, handles }) => slots.every(({ kind }) => kind === "code") && handles.length === 2));
  const later = device.start();
  assert.deepEqual((await later.status()).slots, [{ kind: "code" }, { kind: "passphrase" }]);
  await assert.rejects(later.unlock({ kind: "passphrase", passphrase: "another passphrase" }), isRefusal("wrong_key"));
  await later.unlock(passphrase);
  // A new code ends the old one, also where there is nothing but a code.
  const second = await later.newCode();
  await assert.rejects(new Device(service).start().restore({ kind: "code", code }), isRefusal("no_copy"));
  assert.equal((await new Device(service).start().restore({ kind: "code", code: second })).groups.length, 1);
  // A passkey that can be made later, for the same copy.
  const passkey = newPasskey();
  const userHandle = await later.userHandle();
  await later.addSealing(passkey());
  assert.equal((await new Device(service).start().restore(passkey(), userHandle)).groups.length, 1);
  const next = await later.newCode();
  assert.equal((await later.status()).codeKept, false);
  await later.codeKept();
  assert.equal((await later.status()).codeKept, true);
  await assert.rejects(new Device(service).start().restore({ kind: "code", code: second }), isRefusal("no_copy"));
  assert.equal((await new Device(service).start().restore({ kind: "code", code: next })).groups.length, 1);
  assert.equal((await new Device(service).start().restore(passkey(), userHandle)).groups.length, 1);
});

test("a member who leaves proves nothing, and comes back with a new link as the same person", async () => {
  const { wallet } = await joined(service, "K-6");
  const sub = async () => {
    const begun = await service.beginSignIn();
    const { id } = await wallet.read(begun.link("#here"));
    return (await begun.completeAt((await wallet.answerSignIn(id)).url)).sub;
  };
  const before = await sub();
  await wallet.leave("members");
  assert.deepEqual((await wallet.status()).groups, []);
  assert.equal(await service.standing("K-6"), "leaving");
  const begun = await service.beginSignIn();
  await assert.rejects(wallet.read(begun.link("#here")), isRefusal("no_credential"));
  await wallet.enrol(await service.invite("K-6"));
  assert.equal(await sub(), before);
});

test("a member who was removed between consent and proof is told so, and so is the screen that waits", async () => {
  const { wallet } = await joined(service, "K-7");
  const begun = await service.beginSignIn();
  const { id } = await wallet.read(begun.link("#there"));
  await service.remove("K-7");
  await assert.rejects(wallet.answerSignIn(id), isRefusal("removed"));
  const state = await (await fetch(begun.request_url, { headers: { accept: "application/json" } })).json();
  assert.equal(state.answered, true);
  // A new link, and everything is as before.
  const link = await service.invite("K-7");
  assert.deepEqual(await wallet.readInvitation(link), { act: "join", group: "members", name: "Members of the cooperative", member: false });
  await wallet.enrol(link);
  // An enroller's link for one who is there: for the leaf that was lost with another device.
  const replacing = await service.invite("K-7");
  assert.match(replacing, /\/replace#/);
  const { act, member } = await wallet.readInvitation(replacing.replace("/replace", "/join"));
  assert.deepEqual([act, member], ["replace", true]);
});

test("a second group is added to the same copy, and one answers where it is asked for", async () => {
  const { device, wallet, passkey, userHandle } = first;
  const link = await service.invite("S-1", "staff");
  await wallet.enrol(link);
  assert.deepEqual((await wallet.status()).groups.map(({ group }) => group), ["members", "staff"]);
  const restored = await new Device(service).start().restore(passkey(), userHandle);
  assert.deepEqual(restored.groups.map(({ group }) => group), ["members", "staff"]);
  // A wallet of this browser is not lost to another person's copy.
  const other = await joined(service, "K-8");
  await assert.rejects(device.start().restore(other.passkey(), other.userHandle), isRefusal("other_wallet"));
  const begun = await service.beginSignIn();
  assert.equal((await wallet.read(begun.link("#here"))).asked.group.id, "members");
  await wallet.forget();
  assert.equal((await wallet.status()).exists, false);
  assert.equal((await wallet.restore(passkey(), userHandle)).groups.length, 2);
});

test("a root that ends while the proof is made is proved again once, by itself", async () => {
  const { device, wallet } = first;
  const begun = await service.beginSignIn();
  const { id } = await wallet.read(begun.link("#here"));
  // Another member is removed after the pages were fetched.
  let answers = 0;
  device.before = async ({ url }) => {
    if (url.endsWith("/proof") && answers++ === 0) await service.remove("K-8");
  };
  assert.ok(await begun.completeAt((await wallet.answerSignIn(id)).url));
  assert.equal(answers, 2);
});
