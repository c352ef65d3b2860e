// Several devices of one person, thieves, contested links, old copies, and services that contradict themselves.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { core, isRefusal } from "./core.mjs";
import { Device, joined, newPasskey, signsIn, startService } from "./service.mjs";

let service;
before(async () => (service = await startService()));
after(() => service?.stop());

test("of two who replace with the same copy the first wins, and the organization's link undoes a thief", async () => {
  const { wallet: owner, device, passkey, userHandle } = await joined(service, "F-4");
  const thief = new Device(service).start();
  await thief.restore(passkey(), userHandle);
  const [first, second] = [newPasskey(), newPasskey()];
  await thief.beginReplacement();
  await owner.beginReplacement();
  await thief.replace([first()]);
  await assert.rejects(owner.replace([second()]), isRefusal("replacement_secret_wrong"));
  const lost = await service.beginSignIn();
  await assert.rejects(owner.answerSignIn((await owner.read(lost.link("#here"))).id), (error) => ["replaced_elsewhere", "removed"].includes(error.code));
  // With a new secret, since the thief may have the old one.
  await owner.enrol(await service.invite("F-4"), true);
  const after = await signsIn(service, owner);
  assert.ok(after);
  const stolen = await service.beginSignIn();
  await assert.rejects(thief.answerSignIn((await thief.read(stolen.link("#there"))).id), isRefusal("removed"));
  // What the owner has sealed since the race opens the copy that the service keeps.
  const again = device.start();
  await again.unlock(second());
  assert.equal((await again.status()).copied, true);
});

test("two devices that write the same copy lose nothing of each other", async () => {
  const { device, wallet: first, passkey, userHandle } = await joined(service, "F-5");
  const second = new Device(service).start();
  await second.restore(passkey(), userHandle);
  await second.enrol(await service.invite("F-S", "staff"));
  // The first one does not know that, and writes.
  const code = await first.newCode();
  assert.deepEqual((await first.status()).groups.map(({ group }) => group), ["members", "staff"]);
  const third = new Device(service).start();
  assert.deepEqual((await third.restore({ kind: "code", code })).groups.map(({ group }) => group), ["members", "staff"]);
  // And the other way round: a new passkey there, and a new code here, at once.
  const more = newPasskey();
  await second.addSealing(more());
  const last = await third.newCode();
  assert.equal((await new Device(service).start().restore(more(), userHandle)).groups.length, 2);
  assert.equal((await new Device(service).start().restore({ kind: "code", code: last })).groups.length, 2);
  // The code that another device has drawn opens this one, which has not heard of it.
  const again = device.start();
  await again.unlock({ kind: "code", code: last });
  await assert.rejects(device.start().unlock({ kind: "code", code }), isRefusal("wrong_key"));
  await again.newCode();
  assert.equal((await new Device(service).start().restore(more(), userHandle)).groups.length, 2);
});

test("a copy that the service has put back is older, and the device goes on with what it has", async () => {
  const { device, wallet, passkey, userHandle } = await joined(service, "F-6");
  await wallet.newCode();
  // The copies of before the joining was answered, and of after it.
  const [early, old] = [device.copies[0], device.copies.at(-1)];
  const isCopy = ({ url }) => url.includes("/sealed/");
  // A service that was restored from a backup answers with an older copy, and takes writings of its version.
  const putBack = (copy, written) => async (request) => {
    if (!isCopy(request)) return undefined;
    if (request.method === "PUT") written.push(JSON.parse(request.body));
    return Response.json(request.method === "PUT" ? { version: copy.version + 1 } : copy);
  };
  const written = [];
  device.before = putBack(early, written);
  const again = device.start();
  await again.unlock(passkey());
  const code = await again.newCode();
  assert.deepEqual([(await again.status()).groups[0].joined, (await again.status()).pending], [true, null]);
  assert.equal(written.at(-1).slots.length, 2);
  device.before = async () => undefined;
  const whole = device.start();
  await whole.unlock({ kind: "code", code });
  assert.ok(await signsIn(service, whole));
  // A device that has the old copy alone, after the leaf was replaced: its leaf has gone, and no newer one is guessed.
  const { code: next } = await whole.beginReplacement();
  await whole.replace([{ kind: "code", code: next }]);
  const lone = new Device(service);
  lone.before = putBack(old, []);
  const left = lone.start();
  await left.restore(passkey(), userHandle);
  const begun = await service.beginSignIn();
  await assert.rejects(left.answerSignIn((await left.read(begun.link("#there"))).id), isRefusal("removed"));
  // A link of the organization brings it back: leaves that the group has already are passed over.
  lone.before = async () => undefined;
  await left.enrol(await service.invite("F-6"));
  assert.ok(await signsIn(service, left));
});

test("two tabs that write at once do one after the other, and one that was overtaken says so", async () => {
  const { device, wallet, passkey } = await joined(service, "F-7");
  const other = device.start();
  await other.unlock(passkey());
  const [first, second] = await Promise.all([wallet.newCode(), other.newCode()]);
  assert.notEqual(first, second);
  assert.equal((await new Device(service).start().restore({ kind: "code", code: second })).groups.length, 1);
  await assert.rejects(new Device(service).start().restore({ kind: "code", code: first }), isRefusal("no_copy"));
  // Without locks the record's revision decides.
  const record = await device.storage.read();
  await device.storage.write({ ...record, revision: record.revision + 1 });
  await assert.rejects(device.storage.write({ ...record, revision: record.revision + 1 }), isRefusal("changed_elsewhere"));
  // A tab of a wallet that another tab has replaced is locked.
  const { code } = await wallet.beginReplacement();
  await wallet.replace([{ kind: "code", code }]);
  await assert.rejects(other.newCode(), isRefusal("locked"));
  assert.equal((await other.status()).open, false);
  await wallet.forget();
  await assert.rejects(other.unlock(passkey()), isRefusal("no_wallet"));
});

test("of two persons with one link the first to join is the member, also when the other has taken the place of the copy", async () => {
  const link = await service.invite("F-10");
  const [first, second] = [new Device(service), new Device(service)].map((device) => device.start());
  const [passkey, other] = [newPasskey(), newPasskey()];
  const { userHandle } = await first.create();
  await first.seal([passkey()], link);
  await second.create();
  await second.seal([other()], link);
  // The code has one copy that is not kept, so the first one's has gone by now.
  await assert.rejects(new Device(service).start().restore(passkey(), userHandle), isRefusal("no_copy"));
  await first.enrol(link);
  assert.equal((await new Device(service).start().restore(passkey(), userHandle)).groups[0].joined, true);
  await assert.rejects(second.enrol(link), isRefusal("code_used"));
  assert.deepEqual([(await second.status()).groups, (await second.status()).pending], [[], null]);
  // The second one has a wallet without a group, which another link fills.
  await second.enrol(await service.invite("F-11"));
  assert.deepEqual([(await second.status()).groups.length, (await second.status()).copied], [1, true]);
});

test("a service that contradicts itself is believed nothing", async () => {
  const { device, wallet } = await joined(service, "F-13");
  const isGroup = ({ url }) => url.endsWith("/groups/members");
  const changed = (change) => async (request, response) => (isGroup(request) ? Response.json(change(await response.json())) : response);
  const refuses = async (code) => {
    const begun = await service.beginSignIn();
    await assert.rejects(wallet.answerSignIn((await wallet.read(begun.link("#here"))).id), isRefusal(code));
  };
  for (const [change, code] of [
    [(group) => ({ ...group, group_key: "11".repeat(32) }), "other_group"],
    [(group) => ({ ...group, root: `0x${"1".repeat(64)}` }), "unavailable"],
    [(group) => ({ ...group, size: group.size + 1024 }), "unavailable"],
    [(group) => ({ ...group, root: `0x${"f".repeat(64)}` }), "unavailable"],
    [(group) => ({ ...group, id: "staff" }), "unavailable"],
    [(group) => ({ ...group, rolls: [{ ...group, name: "r", actions: [], root: `0x${"1".repeat(64)}` }] }), "unavailable"],
  ]) {
    device.after = changed(change);
    await refuses(code);
  }
  // Another page than the one that was asked for, and one that has ended between two requests.
  device.after = async (request, response) => (request.url.includes("/pages/") ? new Response(new Uint8Array(core.PAGE_BYTES)) : response);
  await refuses("unavailable");
  device.after = async (_, response) => response;
  let asked = 0;
  device.before = async ({ url }) => (url.includes("/pages/") && asked++ === 0 ? Response.json({ code: "unknown_page", message: "" }, { status: 404 }) : undefined);
  assert.ok(await signsIn(service, wallet));
  assert.equal(asked, 2);
});

test("a wallet that only a passphrase opens has no copy, joins all the same, and says so", async () => {
  const device = new Device(service);
  const wallet = device.start();
  const link = await service.invite("F-14");
  await wallet.create();
  await wallet.seal([{ kind: "passphrase", passphrase: "a long passphrase" }], link);
  await wallet.enrol(link);
  assert.equal(device.requests.filter(({ url }) => url.includes("/sealed/")).length, 0);
  const { groups, copied, pending } = await wallet.status();
  assert.deepEqual([groups[0].joined, copied, pending], [true, false, null]);
});
