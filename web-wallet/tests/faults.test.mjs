// Nothing is half done: connections that break before and after each request, kills at each writing, races, old copies.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { core, isRefusal } from "./core.mjs";
import { Device, joined, newPasskey, startService } from "./service.mjs";

let service;
before(async () => (service = await startService()));
after(() => service?.stop());

const CUT = new TypeError("fetch failed");

// Breaks the connection once before and once after each kind of request: a method and a path without its ids.
const cutEverything = (device) => {
  const kindOf = ({ method, url }) => `${method} ${new URL(url).pathname.replace(/0x[0-9a-f]{64}|[0-9a-f]{64}/, "…")}`;
  const [cutBefore, cutAfter] = [new Set(), new Set()];
  device.before = async (request) => {
    if (cutBefore.has(kindOf(request))) return;
    cutBefore.add(kindOf(request));
    throw CUT;
  };
  device.after = async (request, response) => {
    if (cutAfter.has(kindOf(request))) return response;
    cutAfter.add(kindOf(request));
    throw CUT;
  };
  return { kinds: () => [...cutAfter].sort(), mend: () => Object.assign(device, { before: async () => undefined, after: async (_, response) => response }) };
};

// Does it again until no connection breaks. A storage that is killed is a failure of its own kind.
const untilDone = async (attempt) => {
  for (let failures = 0; failures < 60; failures++) {
    try {
      return await attempt(failures);
    } catch (error) {
      if (!["offline", "unavailable", "killed"].includes(error.code)) throw error;
    }
  }
  throw new Error("it never ended");
};

const signsIn = async (wallet) => {
  const begun = await service.beginSignIn();
  const { id } = await wallet.read(begun.link("#here"));
  return (await begun.completeAt((await wallet.answerSignIn(id)).url)).sub;
};

test("a joining goes on after each request whose answer was lost, also in a new worker", async () => {
  const device = new Device(service);
  const [link, passkey] = [await service.invite("F-1"), newPasskey()];
  const wallet = device.start();
  const { kinds, mend } = cutEverything(device);
  await wallet.create();
  await untilDone(() => wallet.readInvitation(link));
  await untilDone(() => wallet.seal([passkey()], link));
  await untilDone(async () => {
    const again = device.start();
    await again.unlock(passkey());
    await again.enrol(link);
  });
  assert.deepEqual(kinds(), ["GET /groups/members", "GET /sealed/…", "POST /groups/members/join", "PUT /sealed/…"]);
  mend();
  const later = device.start();
  await later.unlock(passkey());
  assert.deepEqual([(await later.status()).pending, (await later.status()).groups[0].joined], [null, true]);
  assert.equal(await service.standing("F-1"), "member");
});

// A storage that is killed around its n-th writing: before it, or after it.
const killedAt = (storage, place) => {
  let writings = 0;
  const kill = () => {
    throw Object.assign(new Error("killed"), { code: "killed" });
  };
  return {
    read: () => storage.read(),
    remove: () => storage.remove(),
    async write(record) {
      const [at, isAfter] = [Math.floor(place / 2), place % 2 === 1];
      const own = writings++;
      if (own === at && !isAfter) kill();
      await storage.write(record);
      if (own === at) kill();
    },
  };
};

test("a person who has joined or replaced is whole after a kill before and after each writing", async () => {
  const device = new Device(service);
  const [link, passkey] = [await service.invite("F-2"), newPasskey()];
  const wallet = device.start();
  const { userHandle } = await wallet.create();
  await wallet.seal([passkey()], link);
  await untilDone(async (place) => {
    const killed = device.start(killedAt(device.storage, place));
    await killed.unlock(passkey());
    await killed.enrol(link);
  });
  const next = newPasskey();
  let [isBegun, newHandle] = [false, null];
  await untilDone(async (place) => {
    const killed = device.start(killedAt(device.storage, place));
    const { pending } = await killed.status();
    isBegun ||= pending === "replace";
    await killed.unlock(isBegun ? next() : passkey());
    if (isBegun) return killed.resume();
    newHandle = (await killed.beginReplacement()).userHandle;
    return killed.replace([next()]);
  });
  const whole = device.start();
  await assert.rejects(whole.unlock(passkey()), isRefusal("wrong_key"));
  await whole.unlock(next());
  const { pending, copied } = await whole.status();
  assert.deepEqual([pending, copied], [null, true]);
  assert.ok(await signsIn(whole));
  await assert.rejects(new Device(service).start().restore(passkey(), userHandle), isRefusal("no_copy"));
  assert.equal((await new Device(service).start().restore(next(), newHandle)).groups[0].joined, true);
});

test("a replacement goes on after each request whose answer was lost, and ends the stolen device", async () => {
  const { device, wallet, passkey, userHandle } = await joined(service, "F-3");
  const before = await signsIn(wallet);
  const stolen = new Device(service);
  const thief = stolen.start();
  await thief.restore(passkey(), userHandle);

  const next = newPasskey();
  const { kinds, mend } = cutEverything(device);
  const { userHandle: newHandle, code } = await wallet.beginReplacement();
  await untilDone(async (failures) => {
    if (failures < 2) return wallet.replace([next(), { kind: "code", code }]);
    const again = device.start();
    await again.unlock(next());
    return again.resume();
  });
  assert.deepEqual(kinds(), ["DELETE /sealed/…", "GET /groups/members", "GET /sealed/…", "POST /groups/members/replace", "PUT /sealed/…"]);
  mend();
  const later = device.start();
  await later.unlock({ kind: "code", code });
  assert.deepEqual([(await later.status()).pending, (await later.status()).copied], [null, true]);
  // The same person to applications; the old device proves nothing and learns nothing.
  assert.equal(await signsIn(later), before);
  const begun = await service.beginSignIn();
  const { id } = await thief.read(begun.link("#there"));
  await assert.rejects(thief.answerSignIn(id), isRefusal("replaced_elsewhere"));
  await assert.rejects(thief.leave("members"), isRefusal("replaced_elsewhere"));
  await thief.beginReplacement();
  await assert.rejects(thief.replace([newPasskey()()]), isRefusal("replacement_secret_wrong"));
  assert.equal(await service.standing("F-3"), "member");
  await assert.rejects(new Device(service).start().restore(passkey(), userHandle), isRefusal("no_copy"));
  assert.equal((await new Device(service).start().restore(next(), newHandle)).groups[0].joined, true);
  // The owner's other device, which was not stolen, opens with the new code.
  const other = stolen.start();
  await other.unlock({ kind: "code", code });
  assert.equal(await signsIn(other), before);
  // A second one on the same day is refused, and goes on later.
  const { code: third } = await later.beginReplacement();
  await assert.rejects(later.replace([{ kind: "code", code: third }]), isRefusal("replaced_today"));
  assert.equal((await later.status()).pending, "replace");
});

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
  const after = await signsIn(owner);
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
  assert.ok(await signsIn(whole));
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
  assert.ok(await signsIn(left));
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

test("a new code, another passkey, a restoring and a leaving go on after lost answers", async () => {
  const { device, wallet, passkey, userHandle } = await joined(service, "F-8");
  const { kinds, mend } = cutEverything(device);
  const code = await untilDone(() => wallet.newCode());
  const more = newPasskey();
  await untilDone(() => wallet.addSealing(more()));
  await untilDone(() => wallet.leave("members"));
  assert.deepEqual(kinds(), ["GET /sealed/…", "POST /groups/members/leave", "PUT /sealed/…"]);
  mend();
  assert.equal(await service.standing("F-8"), "leaving");
  for (const by of [{ kind: "code", code }, more(), passkey()]) {
    const other = new Device(service);
    cutEverything(other);
    const restored = other.start();
    const status = await untilDone(() => restored.restore(by.output ? { ...by, output: by.output.slice() } : by, userHandle));
    assert.deepEqual(status.groups, [], "the leaving is in the copy");
  }
});

test("a wallet that is locked in the middle of an act has sealed nothing with an overwritten key", async () => {
  const { device, wallet, passkey } = await joined(service, "F-9");
  const acts = [wallet.newCode(), wallet.addSealing(newPasskey()())];
  await wallet.lock();
  await Promise.allSettled(acts);
  const later = device.start();
  await later.unlock(passkey());
  assert.ok(await signsIn(later));
  const record = await device.storage.read();
  const zero = { kind: "passkey", credential: new Uint8Array(1), output: new Uint8Array(32) };
  assert.equal(await core.openSlots(zero, record.content.slots, []), null);
  assert.equal(await core.openPlain(new Uint8Array(32), record.content), null);
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

test("a sign-in whose connection breaks is answered by the proof that was made, once", async () => {
  const { device, wallet } = await joined(service, "F-12");
  const begun = await service.beginSignIn();
  const { id } = await wallet.read(begun.link("#here"));
  const sent = [];
  device.before = async ({ url, body }) => {
    if (!url.endsWith("/proof")) return;
    sent.push(JSON.parse(body).responses[0].proof);
    if (sent.length === 1) throw CUT;
  };
  await assert.rejects(wallet.answerSignIn(id), isRefusal("offline"));
  assert.ok(await begun.completeAt((await wallet.answerSignIn(id)).url));
  assert.equal(sent[0], sent[1]);
  // An answer that was lost has arrived; where it leads to is lost with it.
  const again = await service.beginSignIn();
  const { id: lost } = await wallet.read(again.link("#here"));
  device.after = async (request, response) => {
    if (request.url.endsWith("/proof") && response.ok) throw CUT;
    return response;
  };
  await assert.rejects(wallet.answerSignIn(lost), isRefusal("offline"));
  await assert.rejects(wallet.answerSignIn(lost), isRefusal("answered"));
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
  assert.ok(await signsIn(wallet));
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
