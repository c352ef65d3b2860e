// The rules without a service: every value of protocol/vectors/groups.json, tables of codes and links, sealed copies.

import assert from "node:assert/strict";
import { test } from "node:test";

import { bytes, core, hex, isRefusal, loader, readJson } from "./core.mjs";

const vectors = readJson("protocol/vectors/groups.json");
const prover = await loader.program();
const field = core.toField;

test("hashes are those of the vectors", () => {
  for (const { bytes: of, out } of vectors.h2f) assert.equal(field(core.h2f(bytes(of))), out);
  for (const { in: of, poseidon2, poseidon1_of_first } of vectors.poseidon) {
    assert.equal(field(prover.hash(...of.map(bytes))), poseidon2);
    assert.equal(field(prover.hash(bytes(of[0]))), poseidon1_of_first);
  }
  for (const { app_id, action, out } of vectors.external_nullifiers) assert.equal(field(core.externalNullifier(app_id, action)), out);
  assert.deepEqual(core.zeroNodes(prover).map(field), vectors.constants.zero_nodes);
});

test("identities are those of the vectors", async () => {
  for (const { secret, nullifier_seed, nullifier, groups } of vectors.identities) {
    for (const { group_key, enrolment_external_nullifier, enrolment_nullifier, leaves } of groups) {
      for (const { n, trapdoor, commitment } of leaves) {
        const identity = await core.identityOf(bytes(secret), bytes(group_key), n);
        assert.equal(field(identity.nullifierSeed), nullifier_seed);
        assert.equal(field(identity.trapdoor), trapdoor);
        assert.equal(field(core.commitmentOf(prover, identity)), commitment);
        assert.equal(field(prover.hash(bytes(nullifier.external_nullifier), identity.nullifierSeed)), nullifier.out);
        const external = core.enrolmentExternalNullifier(bytes(group_key));
        assert.equal(field(external), enrolment_external_nullifier);
        assert.equal(field(prover.hash(external, identity.nullifierSeed)), enrolment_nullifier);
      }
    }
  }
  for (const { secret, group_key, n, trapdoor } of vectors.identities_large_n) {
    assert.equal(field((await core.identityOf(bytes(secret), bytes(group_key), n)).trapdoor), trapdoor);
  }
});

const leavesOf = ({ leaf_seed, size, removed, replaced }) => {
  const leaf = (position) => {
    if (removed.includes(position)) return new Uint8Array(32);
    return core.h2f(core.concat(bytes(leaf_seed), core.u32be(position), Uint8Array.of(replaced.includes(position) ? 1 : 0)));
  };
  return Array.from({ length: size }, (_, position) => leaf(position));
};

const pagesOf = (leaves) => {
  const pages = [];
  for (let start = 0; start < leaves.length; start += core.PAGE_LEAVES) {
    const page = leaves.slice(start, start + core.PAGE_LEAVES);
    while (page.length < core.PAGE_LEAVES) page.push(new Uint8Array(32));
    pages.push(core.concat(...page));
  }
  return pages;
};

test("pages, roots and paths are those of the vectors", async () => {
  for (const tree of vectors.trees) {
    const pages = pagesOf(leavesOf(tree));
    const read = pages.map(core.readPage);
    const digests = await Promise.all(pages.map(core.sha256));
    assert.deepEqual(digests.map(hex), tree.page_sha256);
    const pageRoots = read.map((page) => core.rootOfPage(prover, page));
    assert.deepEqual(pageRoots.map(field), tree.page_roots);
    const root = core.rootOfPages(prover, pageRoots);
    assert.equal(field(root), tree.root);
    assert.ok(core.isOneTree(prover, { size: tree.size, pageRoots, root }));
    assert.ok(!core.isOneTree(prover, { size: tree.size + core.PAGE_LEAVES, pageRoots, root }));
    if (pageRoots.length > 0) assert.ok(!core.isOneTree(prover, { size: tree.size, pageRoots, root: bytes("11".repeat(32)) }));
    for (const { position, siblings } of tree.paths) {
      const page = read[Math.floor(position / core.PAGE_LEAVES)];
      assert.deepEqual(core.pathOf(prover, page, pageRoots, position).map(field), siblings, `position ${position}`);
    }
  }
});

test("bytes that are no page are not read", () => {
  const page = new Uint8Array(core.PAGE_BYTES);
  assert.equal(core.readPage(page).length, 1024);
  assert.equal(core.readPage(page.slice(1)), null);
  page.fill(0xff, 32, 64);
  assert.equal(core.readPage(page), null);
});

test("statements and signals of link proofs are those of the vectors", async () => {
  for (const vector of vectors.link_proofs) {
    const { act, secret, group_key, n, commitment, code, replacement_secret, token_hash, statement, signal_hash } = vector;
    const token = code === undefined ? bytes(replacement_secret) : core.materialOf(code);
    assert.equal(hex(await core.sha256(token)), token_hash);
    assert.equal(field(await core.leafOf(prover, bytes(secret), bytes(group_key), n)), commitment);
    const made = await core.linkStatement(act, bytes(group_key), bytes(commitment), token);
    assert.equal(hex(made), statement);
    assert.equal(field(core.h2f(made)), signal_hash);
  }
});

test("a link proof has the nullifier and the leaf of the vectors", async () => {
  const { act, secret, group_key, n, commitment, code, nullifier } = vectors.link_proofs.find((vector) => vector.code !== undefined);
  const leaf = { secret: bytes(secret), groupKey: bytes(group_key), n };
  const made = await core.proveLink(await loader.whole(), act, leaf, core.materialOf(code));
  assert.equal(field(made.commitment), commitment);
  assert.equal(field(made.nullifier), nullifier);
  assert.equal(made.proof.length, 256);
});

test("codes are read as people write them, and each wrong letter is found", async () => {
  for (const { code, printed, also_read, refused, hash, find, find_hash, seal } of vectors.codes) {
    for (const text of [code, printed, ...also_read]) assert.equal(core.readCode(text), code, text);
    assert.equal(core.printCode(code), printed);
    for (const { text } of refused) assert.equal(core.readCode(text), null, text);
    assert.equal(hex(await core.hashOfCode(code)), hash);
    const handle = await core.handleOfCode(code);
    assert.equal(hex(handle), find);
    assert.equal(hex(await core.sha256(handle)), find_hash);
    assert.equal(hex(await core.K(core.materialOf(code), "seal", new Uint8Array(0), 32)), seal);
  }
  for (let round = 0; round < 20; round++) {
    const code = core.drawCode();
    assert.equal(core.readCode(code), code);
    for (let place = 0; place < code.length; place++) {
      const other = code[place] === "0" ? "1" : "0";
      assert.equal(core.readCode(code.slice(0, place) + other + code.slice(place + 1)), null);
      if (place > 0 && code[place] !== code[place - 1]) {
        const swapped = code.slice(0, place - 1) + code[place] + code[place - 1] + code.slice(place + 1);
        assert.equal(core.readCode(swapped), null);
      }
    }
  }
});

test("links of an organization are read, and those of another service are not", () => {
  const wallet = "https://wallet.example";
  const { code, printed } = vectors.codes[0];
  const link = (act) => ({ act, group: "members", code });
  for (const [text, expected] of [
    [`${wallet}/join#members.${code}`, link("join")],
    [`${wallet}/replace#members.${code}`, link("replace")],
    [` ${wallet}/join/#members.${printed.toLowerCase()}\n`, link("join")],
    [`#members.${code}`, link("join")],
    [`members.${code}`, link("join")],
  ]) {
    assert.deepEqual(core.readGroupLink(text, wallet), expected, text);
    assert.ok(core.isGroupLink(text), text);
  }
  for (const [text, refusal] of [
    ["", "not_a_link"],
    [wallet, "not_a_link"],
    [`${wallet}/leave#members.${code}`, "not_a_link"],
    [`${wallet}/join#Members.${code}`, "not_a_link"],
    [`${wallet}/join#members`, "not_a_link"],
    [`${wallet}/join#members.${code.slice(1)}`, "not_a_code"],
    [`https://other.example/join#members.${code}`, "other_service"],
    [`${wallet}/deeper/join#members.${code}`, "other_service"],
    [`javascript:/join#members.${code}`, "not_a_link"],
  ]) {
    assert.throws(() => core.readGroupLink(text, wallet), isRefusal(refusal), text);
  }
});

test("a sealed copy of the vectors opens with each of its slots, and with nothing else", async () => {
  const { prf_output, code, content_key, plaintext, iv, sealed, slots } = vectors.sealed;
  const content = core.readContent({ iv, sealed, slots });
  const credential = new Uint8Array(16);
  for (const by of [
    { kind: "passkey", credential, output: bytes(prf_output) },
    { kind: "code", code: core.printCode(code).toLowerCase() },
  ]) {
    assert.equal(hex(await core.openSlots(by, content.slots, [])), content_key);
  }
  assert.equal(await core.openSlots({ kind: "passkey", credential, output: new Uint8Array(32) }, content.slots, []), null);
  assert.equal(await core.openSlots({ kind: "code", code: core.drawCode() }, content.slots, []), null);
  await assert.rejects(core.openSlots({ kind: "code", code: "AAAA" }, content.slots, []), isRefusal("not_a_code"));
  assert.deepEqual(await core.openPlain(bytes(content_key), content), JSON.parse(plaintext));
  assert.equal(await core.openPlain(new Uint8Array(32), content), null);
  const changed = { ...content, sealed: content.sealed.replace(/.$/, (digit) => (digit === "0" ? "1" : "0")) };
  assert.equal(await core.openPlain(bytes(content_key), changed), null);
});

test("what is sealed has another iv each time, keeps unknown keys, and opens again", async () => {
  const key = core.randomBytes(32);
  const plain = { ...JSON.parse(vectors.sealed.plaintext), future: [1, { deep: "é" }] };
  const [first, second] = [await core.sealPlain(key, plain), await core.sealPlain(key, plain)];
  assert.notEqual(first.iv, second.iv);
  assert.deepEqual(await core.openPlain(key, first), plain);
  const code = core.drawCode();
  const slot = await core.makeSlot({ kind: "code", code }, key);
  assert.equal(hex(await core.openSlots({ kind: "code", code }, [slot], [])), hex(key));
  const device = await core.makeDeviceSlot("correct horse battery", key);
  assert.equal(hex(await core.openSlots({ kind: "passphrase", passphrase: "correct horse battery" }, [slot], [device])), hex(key));
  assert.equal(await core.openSlots({ kind: "passphrase", passphrase: "correct horse batterz" }, [slot], [device]), null);
  await assert.rejects(core.makeDeviceSlot("eleven char", key), isRefusal("passphrase_too_short"));
  await assert.rejects(core.openPlain(key, await core.sealPlain(key, { ...plain, secret: "00" })), isRefusal("unreadable_copy"));
});

test("forms of copies that are not in order are not read", () => {
  const { iv, sealed, slots } = vectors.sealed;
  const good = { iv, sealed, slots };
  assert.deepEqual(core.readContent({ ...good, version: 1, more: true }), good);
  for (const bad of [
    null,
    "text",
    {},
    { ...good, iv: iv.slice(2) },
    { ...good, iv: iv.toUpperCase() },
    { ...good, sealed: "00" },
    { ...good, slots: {} },
    { ...good, slots: [{ ...slots[0], kind: "passphrase" }] },
    { ...good, slots: [{ ...slots[0], key: "00" }] },
    { ...good, slots: [null] },
    { ...good, slots: Array.from({ length: 17 }, () => slots[0]) },
  ]) {
    assert.equal(core.readContent(bad), null, JSON.stringify(bad)?.slice(0, 80));
  }
});

const leaf = (secret, n) => ({ secret: secret.repeat(16), n, replacement_secret: `${secret}${n}${n}`.slice(0, 4).repeat(16) });
const entry = (changes) => ({ group: "members", group_key: "00".repeat(32), ...leaf("aa", 0), position: 0, ...changes });
const copy = (...groups) => ({ secret: "aa".repeat(16), write_key: "00".repeat(32), groups });

test("two devices' writings are merged: for each group the one that has gone further", () => {
  const table = [
    ["nothing has changed", entry(), entry(), "theirs"],
    ["the answer to joining came here", entry(), entry({ position: null }), "mine"],
    ["the answer to joining came there", entry({ position: null }), entry(), "theirs"],
    ["replaced here", entry({ ...leaf("aa", 1) }), entry({ next: leaf("aa", 1) }), "mine"],
    ["replaced there", entry({ next: leaf("aa", 1) }), entry({ ...leaf("aa", 1) }), "theirs"],
    ["replaced with a new secret there", entry({ next: leaf("bb", 0) }), entry({ ...leaf("bb", 0) }), "theirs"],
    ["replaced with a new secret here", entry({ ...leaf("bb", 0) }), entry({ next: leaf("bb", 0) }), "mine"],
    ["another secret there", entry({ ...leaf("aa", 5) }), entry({ ...leaf("bb", 0) }), "theirs"],
    ["an old copy was put back", entry({ ...leaf("aa", 3) }), entry({ ...leaf("aa", 2) }), "mine"],
    ["begun here", entry({ next: leaf("aa", 1) }), entry(), "mine"],
    ["begun on both", entry({ next: leaf("aa", 1) }), entry({ next: leaf("aa", 2) }), "theirs"],
    ["left here", entry({ left: true }), entry(), "mine"],
    ["left there", entry(), entry({ left: true }), "theirs"],
  ];
  for (const [name, mine, theirs, expected] of table) {
    const [mark, other] = [{ ...mine, mark: "mine" }, { ...theirs, mark: "theirs" }];
    assert.equal(core.merge(copy(mark), copy(other)).groups[0].mark, expected, name);
  }
  const merged = core.merge(copy(entry(), entry({ group: "a" })), copy(entry({ group: "b" })));
  assert.deepEqual(merged.groups.map(({ group }) => group).sort(), ["a", "b", "members"]);
});

test("requests are asked for by the last fragment of a link, short page or address of a request", () => {
  const request = "https://id.example/authorize/t/request";
  const short = "https://id.example/s/abcdefghijkl2347";
  const carried = (address) => `https://wallet.example/sign-in?request=${encodeURIComponent(address)}`;
  const read = (place, address, isShort) => ({ place, address, isShort });
  for (const [text, expected] of [
    [request, read(null, request, false)],
    [`${request}/#here`, read("here", request, false)],
    [`${carried(request)}#here`, read("here", request, false)],
    [`${carried(request)}#there`, read("there", request, false)],
    [`${carried(request)}#there#here`, read("here", request, false)],
    [carried(request), read(null, request, false)],
    [`${carried(`${request}#here`)}`, read(null, request, false)],
    [` ${short} `, read("there", short, true)],
    [`${short}#here`, read("here", short, true)],
    [carried(short), read("there", short, true)],
    ["https://id.example/authorize?redirect_uri=https%3A%2F%2Fx.example%2Fauthorize%2Ft%2Frequest", null],
    ["https://id.example/s/ABCDEFGHIJKL2347", null],
    ["javascript:alert(1)", null],
    ["", null],
  ]) {
    assert.deepEqual(core.readSignInLink(text), expected, text);
  }
});
