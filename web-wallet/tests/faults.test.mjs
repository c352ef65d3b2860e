// Nothing is half done: connections that break before and after each request, kills at each writing.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { core, isRefusal } from "./core.mjs";
import { Device, joined, newPasskey, signsIn, startService } from "./service.mjs";

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
  assert.ok(await signsIn(service, whole));
  await assert.rejects(new Device(service).start().restore(passkey(), userHandle), isRefusal("no_copy"));
  assert.equal((await new Device(service).start().restore(next(), newHandle)).groups[0].joined, true);
});

test("a replacement goes on after each request whose answer was lost, and ends the stolen device", async () => {
  const { device, wallet, passkey, userHandle } = await joined(service, "F-3");
  const before = await signsIn(service, wallet);
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
  assert.equal(await signsIn(service, later), before);
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
  assert.equal(await signsIn(service, other), before);
  // A second one on the same day is refused, and goes on later.
  const { code: third } = await later.beginReplacement();
  await assert.rejects(later.replace([{ kind: "code", code: third }]), isRefusal("replaced_today"));
  assert.equal((await later.status()).pending, "replace");
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
  assert.ok(await signsIn(service, later));
  const record = await device.storage.read();
  const zero = { kind: "passkey", credential: new Uint8Array(1), output: new Uint8Array(32) };
  assert.equal(await core.openSlots(zero, record.content.slots, []), null);
  assert.equal(await core.openPlain(new Uint8Array(32), record.content), null);
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
