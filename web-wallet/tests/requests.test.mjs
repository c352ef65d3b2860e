// Requests without a service: the issuer's signature, connector URIs, and what pages made with client kits ask for.

import assert from "node:assert/strict";
import { generateKeyPairSync, sign } from "node:crypto";
import { test } from "node:test";

import { core, hex, isRefusal, readJson } from "./core.mjs";

const ISSUER = "https://id.example";
const keys = {
  RS256: generateKeyPairSync("rsa", { modulusLength: 2048 }),
  ES256: generateKeyPairSync("ec", { namedCurve: "P-256" }),
};
const jwks = Object.entries(keys).map(([alg, { publicKey }]) => ({ ...publicKey.export({ format: "jwk" }), kid: alg, alg, use: "sig" }));

const signed = (header, claims, key = keys[header.kid] ?? keys.RS256) => {
  const text = [header, claims].map((part) => Buffer.from(JSON.stringify(part)).toString("base64url")).join(".");
  const options = key.privateKey.asymmetricKeyType === "ec" ? { key: key.privateKey, dsaEncoding: "ieee-p1363" } : key.privateKey;
  return `${text}.${sign("sha256", Buffer.from(text), options).toString("base64url")}`;
};
const header = (kid, more = {}) => ({ alg: kid, kid, typ: "selfsame-request+jwt", ...more });

test("a request that one of the issuer's keys has signed is read, of either algorithm", async () => {
  for (const kid of ["RS256", "ES256"]) {
    const claims = { iss: ISSUER, app_id: "app_a" };
    assert.deepEqual(await core.verifyRequest(signed(header(kid), claims), ISSUER, jwks), claims);
  }
});

test("other objects, other keys, other algorithms and changed texts are not signed requests", async () => {
  const claims = { iss: ISSUER };
  const good = signed(header("RS256"), claims);
  const [head, body, signature] = good.split(".");
  const strange = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const of = (changes) => [{ ...jwks[0], ...changes }];
  const table = [
    ["no parts", "", jwks],
    ["two parts", `${head}.${body}`, jwks],
    ["an ID token", signed(header("RS256", { typ: "JWT" }), claims), jwks],
    ["no type", signed({ alg: "RS256", kid: "RS256" }, claims), jwks],
    ["an extension that has to be understood", signed(header("RS256", { crit: ["exp"] }), claims), jwks],
    ["no algorithm", `${Buffer.from(JSON.stringify(header("RS256", { alg: "none" }))).toString("base64url")}.${body}.`, jwks],
    ["another algorithm than the key's", signed(header("RS256", { alg: "ES256" }), claims), jwks],
    ["a key of another algorithm", good, of({ alg: "RS512" })],
    ["a key without an algorithm", good, of({ alg: undefined })],
    ["a symmetric key", good, [{ kty: "oct", k: "AAAA", kid: "RS256", alg: "HS256" }]],
    ["an inherited name as the algorithm", signed(header("RS256", { alg: "constructor" }), claims), of({ alg: "constructor" })],
    ["no such key", signed(header("RS256", { kid: "other" }), claims), jwks],
    ["no key id", signed({ alg: "RS256", typ: "selfsame-request+jwt" }, claims), jwks],
    ["another's key", signed(header("RS256"), claims, strange), jwks],
    ["another text", `${head}.${Buffer.from(JSON.stringify({ ...claims, more: 1 })).toString("base64url")}.${signature}`, jwks],
    ["a padded signature", `${head}.${body}.${signature}==`, jwks],
    ["another issuer", signed(header("RS256"), { iss: "https://other.example" }), jwks],
    ["no issuer", signed(header("RS256"), {}), jwks],
    ["no list of keys", good, null],
  ];
  for (const [name, jws, published] of table) await assert.rejects(core.verifyRequest(jws, ISSUER, published), isRefusal("not_signed"), name);
});

test("a key that the issuer has made since the list was read is found", async () => {
  const claims = {
    iss: ISSUER, app_id: "app_a", app_name: "A", action: "", signal: "0x00", nonce: "0x01", protocol_versions: ["3.0"], environment: "staging",
    scopes: "openid", answer_url: `${ISSUER}/authorize/1/proof`, redirect_host: "a.example", expires_at: 1,
  };
  const address = `${ISSUER}/authorize/1/request`;
  const asked = [];
  const fetch = (signedForm, fresh) => async (url, { cache }) => {
    if (url === address) return Response.json({ request: signedForm });
    asked.push(cache);
    return Response.json({ keys: cache === "reload" ? fresh : jwks.slice(0, 1) });
  };
  const link = core.readSignInLink(`${address}#here`);
  const { request } = await core.openSignIn(fetch(signed(header("ES256"), claims), jwks), ISSUER, link);
  assert.deepEqual([request.appId, asked], ["app_a", ["default", "reload"]]);
  // One that no list has is asked for once more, and no oftener.
  asked.length = 0;
  await assert.rejects(core.openSignIn(fetch(signed(header("ES256"), claims), jwks.slice(0, 1)), ISSUER, link), isRefusal("not_signed"));
  assert.deepEqual(asked, ["default", "reload"]);
  asked.length = 0;
  await core.openSignIn(fetch(signed(header("RS256"), claims), []), ISSUER, link);
  assert.deepEqual(asked, ["default"]);
});

test("where the service cannot be reached, a proof takes the group as it was last read, and nothing else does", async () => {
  const service = (known) => {
    const asked = [];
    const fetch = async (_, { cache }) => {
      asked.push(cache);
      if (cache !== "force-cache" || !known) throw new TypeError("fetch failed");
      return Response.json({
        id: "members", name: "Members", group_key: "00".repeat(32), environment: "staging", legacy_identifier: null, version: 1, size: 0, members: 0,
        root: `0x${"00".repeat(32)}`, page_roots: [], rolls: [],
      });
    };
    return { asked, wallet: new core.WalletService(fetch, "https://wallet.example") };
  };
  const known = service(true);
  assert.equal((await known.wallet.group("members", "lastKnown")).name, "Members");
  await assert.rejects(known.wallet.group("members"), isRefusal("offline"));
  assert.deepEqual(known.asked, ["no-cache", "force-cache", "no-cache"]);
  await assert.rejects(service(false).wallet.group("members", "lastKnown"), isRefusal("offline"));
});

const BRIDGE = "https://bridge.example";
const KEY = Buffer.alloc(32, 0xfb).toString("base64");
const uri = (changes = {}, base = "https://world.org/verify?") => {
  const parameters = new URLSearchParams({ t: "wld", i: "4ab2c0b2-5f4e-4e2b-9f0c-0f5b8f7f8a51", k: KEY, b: BRIDGE, ...changes });
  return base + parameters;
};

test("a connector URI names request, key and page, and its bridge has to be the service's", () => {
  for (const base of ["https://world.org/verify?", "https://wallet.example/prove#", "selfsame://connect?"]) {
    const read = core.readConnector(` ${uri({ return_to: "https://app.example/?x=1" }, base)}\n`, `${BRIDGE}/`);
    assert.equal(hex(read.key), "fb".repeat(32));
    assert.deepEqual([read.id, read.bridge, read.returnTo], ["4ab2c0b2-5f4e-4e2b-9f0c-0f5b8f7f8a51", BRIDGE, "https://app.example/?x=1"]);
  }
  for (const [text, refusal] of [
    [uri({ t: "other" }), "not_a_link"],
    [uri({ i: "short" }), "not_a_link"],
    [uri({ i: "../../../../../etc/passwd" }), "not_a_link"],
    [uri({ k: "AAAA" }), "not_a_link"],
    [uri().replace(/k=[^&]*/, `k=${KEY.replace("+", " ")}`), "not_a_link"],
    [`${uri()}&i=4ab2c0b2-5f4e-4e2b-9f0c-0f5b8f7f8a52`, "not_a_link"],
    [uri({ b: "https://other.example" }), "other_service"],
    [uri({ b: "http://bridge.example" }), "other_service"],
    [uri({ b: `${BRIDGE}/path` }), "other_service"],
    [uri({ b: "https://user@bridge.example" }), "other_service"],
    [uri({ b: "bridge" }), "other_service"],
  ]) {
    assert.throws(() => core.readConnector(text, BRIDGE), isRefusal(refusal), text);
  }
  assert.ok(core.isConnector(uri({}, "https://wallet.example/prove#")));
  for (const text of ["", "t=wld", "https://wallet.example/join#members.x", `${uri()}&x=${"x".repeat(9000)}`]) assert.ok(!core.isConnector(text), text);
});

const { vectors: recorded } = readJson("wallet/vectors/bridge_requests.json");
const textOf = (kit, name) => JSON.parse(recorded.find((vector) => vector.client.endsWith(kit) && vector.name === name).text);
const read = (request, now) => core.readAsked(Buffer.from(JSON.stringify(request)), now ?? (request.proof_request?.created_at ?? 0) + 1);
const rejection = (refusal, code) => (error) => isRefusal(refusal)(error) && error.rejection === code;

test("requests of every client kit are read, and those that want no proof of a member are known", () => {
  const table = [
    ["4.3.0", "a legacy proof of an orb, with a description and a return URL", "vote", ["orb"]],
    ["4.3.0", "a legacy proof of a face, bound to bytes", "vote", ["selfie"]],
    ["4.3.0", "a proof of human, or a legacy proof", "vote", ["proof_of_human", "orb"]],
    ["4.3.0", "a selfie", "vote", []],
    ["4.3.0", "any of two", "vote", []],
    ["4.3.0", "a new session", "", []],
    ["4.3.0", "a session", "", []],
    ["4.3.0", "sandbox, through another page", "vote", []],
    ["4.2.4", "a new session", "", []],
    ["2.1.0", "a legacy proof of a document", "vote", ["document", "secure_document", "orb"]],
    ["1.5.0", "a legacy proof of an orb", "vote", ["orb"]],
  ];
  for (const [kit, name, action, names] of table) {
    const asked = read(textOf(kit, name));
    assert.deepEqual([asked.action, asked.names, asked.isPresentKit], [action, names, kit.startsWith("4")], `${kit}, ${name}`);
    assert.equal(asked.signalHash === null, names.length === 0);
    assert.equal(asked.environment, name.includes("production") ? "production" : "staging");
  }
  assert.equal(read(textOf("4.3.0", "production, by default")).environment, "production");
  assert.equal(hex(read(textOf("4.3.0", "a proof of human, or a legacy proof")).signalHash), "00a74698f6102d8b4088433b45f375775607857188a8b4b407a2eed2fc21ccea");
});

test("messages of every client kit open with the key of their URI alone", async () => {
  for (const { uri, message, text } of recorded) {
    const connector = core.readConnector(uri, "http://127.0.0.1:48085");
    const answering = (body) => async () => Response.json(body);
    assert.equal(core.readUtf8(await core.fetchRequest(answering(message), connector)), text);
    const other = { ...connector, key: core.randomBytes(32) };
    await assert.rejects(core.fetchRequest(answering(message), other), rejection("unreadable_request", "malformed_request"));
  }
});

test("the signer of a request is whose server has signed it, and no change of it is that signer's", () => {
  const { signer, signed } = readJson("protocol/vectors/rp_signatures.json");
  const asked = ({ action, sig, nonce, createdAt, expiresAt }) => ({
    nonce, created_at: createdAt, expires_at: expiresAt, signature: sig,
    ...(action === null ? { proof_type: "session" } : { action: core.toField(core.h2f(core.utf8(action))) }),
  });
  // What the public server kit signs; verification reads the same file.
  for (const request of signed.map(asked)) {
    assert.equal(core.signerOf(request), signer);
    assert.equal(core.signerOf({ ...request, signature: request.signature.slice(2).toUpperCase() }), signer);
    const short = Number.parseInt(request.signature.slice(-2), 16) - 27;
    assert.equal(core.signerOf({ ...request, signature: `${request.signature.slice(0, -2)}0${short}` }), signer);
    const [head, parity] = [request.signature.slice(0, -2), request.signature.slice(-2) === "1b" ? "1c" : "1b"];
    for (const changes of [
      { nonce: "0x01" },
      { created_at: request.created_at + 1 },
      { expires_at: request.expires_at + 1 },
      { proof_type: "uniqueness", action: core.toField(core.hashText("another")) },
      { signature: `${head}${parity}` },
    ]) {
      const other = core.signerOf({ ...request, ...changes });
      assert.match(other, /^0x[0-9a-f]{40}$/, JSON.stringify(changes));
      assert.notEqual(other, signer, JSON.stringify(changes));
    }
    // The other form of the same signature, whose s is in the upper half, is refused as verification refuses it.
    const s = BigInt(`0x${request.signature.slice(66, 130)}`);
    const high = (0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n - s).toString(16).padStart(64, "0");
    const changed = [
      { signature: `${request.signature.slice(0, 66)}${high}${parity}` },
      { signature: `${head}1d` },
      { signature: request.signature.slice(0, -2) },
      { signature: `0x${"00".repeat(64)}1b` },
      { signature: `0x${"ff".repeat(64)}1b` },
      { signature: undefined },
      { nonce: core.toField(core.toBytes32(core.MODULUS)) },
      { nonce: undefined },
      { created_at: -1 },
      { expires_at: 2 ** 53 },
      { expires_at: String(request.expires_at) },
      { proof_type: "uniqueness", action: undefined },
    ];
    for (const changes of changed) assert.equal(core.signerOf({ ...request, ...changes }), null, JSON.stringify(changes));
  }
  // Requests as the client kits of version 4 have made them of what the server had signed, with the key 0x01…01.
  const current = recorded.map(({ text }) => JSON.parse(text).proof_request).filter((request) => request);
  assert.ok(current.length > 10);
  for (const request of current) assert.equal(core.signerOf(request), "0x1a642f0e3c3af545e7acbd38b07251b3990914f1");
});

test("a statement that signs in is refused in every spelling, whatever it is called", () => {
  const uniqueness = "a proof of human, or a legacy proof";
  const hash = core.toField(core.hashText("sign-in"));
  const signIn = rejection("sign_in_over_bridge", "feature_unavailable");
  for (const [kit, name, changes] of [
    ["2.1.0", "a sign-in, without an action", {}],
    ["1.5.0", "a sign-in, without an action", {}],
    ["2.1.0", "a legacy proof of an orb", { action: "" }],
    ["2.1.0", "a legacy proof of an orb", { action: null }],
    ["2.1.0", "a legacy proof of an orb", { action: "sign-in" }],
    ["2.1.0", "a legacy proof of an orb", { action: "0x7369676e2d696e" }],
    ["2.1.0", "a legacy proof of an orb", { action: "0x7369676E2D696E" }],
  ]) {
    assert.throws(() => read({ ...textOf(kit, name), ...changes }), signIn, `${name} ${JSON.stringify(changes)}`);
  }
  for (const action of ["sign-in", "0x7369676e2d696e"]) {
    for (const allow_legacy_proofs of [true, false]) {
      const request = textOf("4.3.0", uniqueness);
      assert.throws(() => read({ ...request, action, allow_legacy_proofs, proof_request: { ...request.proof_request, action: hash } }), signIn);
    }
  }
  assert.equal(read({ ...textOf("2.1.0", "a legacy proof of an orb"), action: "sign-in " }).action, "sign-in ");
});

test("malformed, late and unknown requests are refused with the code of the kit", () => {
  const uniqueness = "a proof of human, or a legacy proof";
  const request = textOf("4.3.0", uniqueness);
  const { proof_request } = request;
  const current = (changes) => ({ ...request, proof_request: { ...proof_request, ...changes } });
  const malformed = ["unreadable_request", "malformed_request"];
  for (const [changed, refusal, now] of [
    [{ ...request, app_id: "5e1f" }, malformed],
    [{ ...request, app_id: `app_${"a".repeat(2048)}` }, malformed],
    [{ ...request, action: "Vote" }, malformed],
    [{ ...request, action: 7 }, malformed],
    [{ ...request, signal: "user-1" }, malformed],
    [{ ...request, signal: `0x${"f".repeat(64)}` }, malformed],
    [{ ...request, verification_level: "iris" }, malformed],
    [{ ...request, verification_level: "constructor" }, malformed],
    [{ ...request, environment: "test" }, malformed],
    [{ ...request, min_protocol_version: "5.0" }, malformed],
    [{ ...request, proof_request: "1" }, malformed],
    [current({ proof_requests: [] }), malformed],
    [current({ action: null }), malformed],
    [current({ session_id: "session_1" }), malformed],
    [current({ version: 2 }), ["no_credential", "feature_unavailable"]],
    [current({ proof_type: "age" }), ["no_credential", "feature_unavailable"]],
    [{ ...request, identity_attributes: [{}] }, ["no_credential", "feature_unavailable"]],
    [current({ expires_at: proof_request.created_at }), ["unreadable_request", "invalid_timestamp"]],
    [request, ["expired", "rp_signature_expired"], proof_request.expires_at + 1],
    [request, ["unreadable_request", "timestamp_too_far_in_future"], proof_request.created_at - 301],
  ]) {
    assert.throws(() => read(changed, now), rejection(...refusal), JSON.stringify(changed).slice(0, 200));
  }
  for (const text of ["", "[]", "{", "null", `${" ".repeat(300_000)}{}`]) assert.throws(() => core.readAsked(Buffer.from(text), 0), rejection(...malformed), text.slice(0, 20));
  assert.deepEqual(core.rejectionOf("feature_unavailable", false), { error_code: "generic_error" });
  assert.deepEqual(core.rejectionOf("user_rejected", false), { error_code: "verification_rejected" });
  assert.deepEqual(core.rejectionOf("user_rejected", true), { error_code: "user_rejected" });
  // Legacy proofs are not given where the page takes none.
  for (const changes of [{ min_protocol_version: "4.0" }, { allow_legacy_proofs: false }, { allow_legacy_proofs: null }]) {
    assert.equal(read({ ...request, ...changes }).signalHash, null, JSON.stringify(changes));
  }
});

test("the page to go back to is one of http or https that link and request agree on", () => {
  for (const [link, request, expected] of [
    [null, null, null],
    ["https://app.example/back?x=1#y", null, "https://app.example/back?x=1#y"],
    ["", " https://app.example/ ", "https://app.example/"],
    ["https://a.example/", "https://a.example/", "https://a.example/"],
    ["https://a.example/", "https://b.example/", null],
    ["javascript:alert(1)", null, null],
    ["myapp://back", null, null],
    ["https://app.example@evil.example/", null, null],
    ["https://app.example/a b", null, null],
    ["https://app.example/\u001b[31m", null, null],
    [`https://app.example/${"x".repeat(2048)}`, null, null],
  ]) {
    assert.equal(core.returnPage(link, request), expected, `${link} ${request}`);
  }
});

test("a proof of joining, replacing or leaving is refused by value", () => {
  const [own, other] = [core.randomBytes(32), core.randomBytes(32)];
  assert.throws(() => core.refuseLinkProof([other, own], core.enrolmentExternalNullifier(own)), isRefusal("link_proof_asked"));
  core.refuseLinkProof([other], core.enrolmentExternalNullifier(own));
});

test("the credential is chosen by the id or the public name of a group that is joined, in the environment", () => {
  const group = (id, changes = {}) => ({ group: id, name: id, joined: true, environment: "staging", legacyIdentifier: null, ...changes });
  const groups = [group("a", { legacyIdentifier: "device" }), group("b"), group("c", { joined: false }), group("d", { environment: "production" }), group("e", { legacyIdentifier: "device" })];
  const called = (names, environment = "staging") => core.calledOneOf(groups, environment, names).map(({ group }) => group);
  assert.deepEqual(called(["orb"]), []);
  assert.deepEqual(called(["b", "device"]), ["b", "a", "e"]);
  assert.deepEqual(called(["c", "d"]), []);
  assert.deepEqual(called(["d"], "production"), ["d"]);
});

test("HTTP: redirects, long answers, busy services and silence are errors with a name", async () => {
  const call = (answer, options) => core.sendJson(async () => answer, "https://wallet.example/x", options);
  await assert.rejects(call(new Response(null, { status: 302, headers: { location: "https://elsewhere.example" } })), isRefusal("unavailable"));
  await assert.rejects(call(new Response("x".repeat(300_000))), isRefusal("unavailable"));
  await assert.rejects(call(new Response("no JSON")), isRefusal("unavailable"));
  await assert.rejects(call(Response.json({ code: "code_used", message: "used" }, { status: 409 })), isRefusal("code_used"));
  await assert.rejects(call(Response.json({ code: "not a code" }, { status: 409 })), isRefusal("unavailable"));
  await assert.rejects(call(Response.json({ code: "internal_server_error" }, { status: 500 })), isRefusal("unavailable"));
  let calls = 0;
  const busy = async () => (calls++ === 0 ? new Response(null, { status: 503, headers: { "retry-after": "0" } }) : Response.json({ done: true }));
  assert.deepEqual(await core.sendJson(busy, "https://wallet.example/x"), { done: true });
  assert.equal(calls, 2);
  await assert.rejects(call(new Response(null, { status: 503, headers: { "retry-after": "60" } })), isRefusal("unavailable"));
  const silent = (_, { signal }) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  await assert.rejects(core.sendJson(silent, "https://wallet.example/x", { timeout: 20 }), isRefusal("unavailable"));
  await assert.rejects(core.sendJson(() => Promise.reject(new TypeError("fetch failed")), "https://wallet.example/x"), isRefusal("offline"));
  let options;
  await core.sendJson(async (_, given) => ((options = given), Response.json({})), "https://wallet.example/x");
  assert.deepEqual([options.credentials, options.redirect, options.referrerPolicy, options.cache], ["omit", "manual", "no-referrer", "no-store"]);
});

test("a page asks the worker over messages, and gets values, errors with codes, and no other methods", async () => {
  const { port1, port2 } = new MessageChannel();
  const outputs = [];
  const vault = {
    status: async () => ({ exists: false }),
    unlock: async (by) => {
      outputs.push(by.output);
      throw new core.VaultError("wrong_key", "detail");
    },
    lock: async () => {
      throw new Error("has a secret in its message");
    },
  };
  for (const port of [port1, port2]) port.start();
  core.answerOver(port2, vault);
  const client = core.openVault(port1);
  try {
    assert.deepEqual(await client.status(), { exists: false });
    const output = new Uint8Array(32).fill(7);
    await assert.rejects(client.unlock({ kind: "passkey", credential: new Uint8Array(1), output }), (error) => isRefusal("wrong_key")(error) && error.detail === "detail");
    assert.equal(output[0], 7, "the page may try again with its own copy");
    assert.equal(outputs[0][0], 0, "the worker's copy is overwritten");
    await assert.rejects(client.lock(), (error) => isRefusal("failed")(error) && !error.message.includes("secret"));
    const answer = new Promise((resolve) => port1.addEventListener("message", ({ data }) => data.id === 99 && resolve(data)));
    port1.postMessage({ id: 99, method: "constructor", parameters: [] });
    assert.deepEqual(await answer, { id: 99, code: "failed", detail: "unknown method" });
  } finally {
    port1.close();
    port2.close();
  }
});

test("tabs take turns, and one that waits for a sleeping tab gives up", async () => {
  // Web Locks, as far as the wallet uses them; Node.js has none.
  const waiting = [];
  let isHeld = false;
  const next = () => {
    isHeld = waiting.length > 0;
    waiting.shift()?.();
  };
  const locks = {
    async request(_, { signal }, work) {
      if (isHeld) {
        await new Promise((resolve, reject) => {
          waiting.push(resolve);
          signal.addEventListener("abort", () => {
            waiting.splice(waiting.indexOf(resolve), 1);
            reject(signal.reason);
          });
        });
      }
      isHeld = true;
      try {
        return await work();
      } finally {
        next();
      }
    },
  };
  const [first, second] = [core.exclusive(locks, 50), core.exclusive(locks, 50)];
  const order = [];
  let wake;
  const sleeping = first(() => new Promise((resolve) => (wake = resolve)));
  await assert.rejects(second(async () => order.push("never")), isRefusal("changed_elsewhere"));
  wake();
  await sleeping;
  const turns = ["a", "b", "c"].map((mark, index) => [first, second][index % 2](async () => order.push(mark)));
  await assert.rejects(first(() => Promise.reject(new core.VaultError("locked"))), isRefusal("locked"));
  await Promise.all(turns);
  assert.deepEqual(order.toSorted(), ["a", "b", "c"]);
  // Without locks the acts of one worker take turns.
  const alone = core.exclusive(undefined);
  const done = [];
  await Promise.all([alone(async () => { await null; done.push(1); }), alone(async () => done.push(2))]);
  assert.deepEqual(done, [1, 2]);
});
