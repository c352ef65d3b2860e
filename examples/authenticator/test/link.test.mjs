// Links to a sign-in, and an issuer with canned answers.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { exportJWK, generateKeyPair, SignJWT } from "jose";
import { readLink } from "../build/link.js";
import { answer, openLink } from "../build/sign-in.js";

const ID = "abcdefghijkl2347";
const ASKED = "https://id.example/authorize/t/request";
const ENCODED = encodeURIComponent(ASKED);

test("a link says where it leads and how the wallet was reached", () => {
  const page = `https://id.example/s/${ID}`;
  const forms = [
    [ASKED, ASKED, "unsaid"],
    [`${ASKED}/`, ASKED, "unsaid"],
    ["HTTPS://ID.Example/authorize/t/request", ASKED, "unsaid"],
    [`${ASKED}?to=%23here`, `${ASKED}?to=%23here`, "unsaid"],
    ["http://[::1]:8080/id/authorize/t/request", "http://[::1]:8080/id/authorize/t/request", "unsaid"],
    [page, page, "there"],
    [`${page}/`, page, "there"],
    [`HTTPS://ID.EXAMPLE/s/${ID}`, page, "there"],
    [`selfsame://open?request=${ENCODED}`, ASKED, "unsaid"],
    [`selfsame://open?request=${ENCODED}%23here`, ASKED, "unsaid"],
    [`selfsame:${ENCODED.toLowerCase()}`, ASKED, "unsaid"],
    [`selfsame://open?home=${encodeURIComponent("https://x.example/")}&request=${ENCODED}&lang=de`, ASKED, "unsaid"],
    [`https://wallet.example/open#${ENCODED}`, ASKED, "unsaid"],
    [`selfsame://open?page=${encodeURIComponent(page)}`, page, "there"],
  ];
  for (const [link, address, alone] of forms) {
    const fragments = { "": alone, "#here": "here", "#there": "there", "#Here": alone, "#here/": alone, "#": alone, "#x": alone };
    for (const [fragment, reached] of Object.entries(fragments)) {
      const text = `${link}${fragment}`;
      assert.deepEqual(readLink(text), { reached, address, isShort: address === page }, text);
    }
  }
  const authorization = `https://id.example/authorize?redirect_uri=${ENCODED}`;
  const none = ["", "no address", "https://id.example/s/ABCDEFGHIJKL2347", `${page}a`, authorization, "selfsame://open?request=https%3A%2F%2F%ff"];
  for (const link of none) assert.throws(() => readLink(link), /is no link to a sign-in/, link);
});

// An issuer whose answers the tests set.
let issuer, server, accepted, shortAnswer, posted;

before(async () => {
  const { publicKey, privateKey } = await generateKeyPair("ES256");
  const keys = [{ ...(await exportJWK(publicKey)), alg: "ES256", kid: "k" }];
  const routes = {
    "/jwks": () => ({ keys }),
    "/authorize/t/request": async () => {
      const claims = { app_id: "app_a", action: "sign-in", signal: "0x5e", nonce: "0x2a", protocol_versions: ["4.0"], answer_url: `${issuer}/proof` };
      const signed = new SignJWT(claims).setIssuer(issuer).setProtectedHeader({ alg: "ES256", kid: "k", typ: "selfsame-request+jwt" });
      return { request: await signed.sign(privateKey) };
    },
    "/proof": (body) => ((posted = JSON.parse(body)), accepted),
    [`/s/${ID}`]: () => shortAnswer,
  };
  server = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    const answer = await routes[request.url]?.(body);
    if (answer?.location) response.writeHead(303, answer).end();
    else response.writeHead(answer ? 200 : 404, { "content-type": "application/json" }).end(JSON.stringify(answer ?? { code: "not_found" }));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  issuer = `http://127.0.0.1:${server.address().port}`;
  shortAnswer = { request_url: `${issuer}/authorize/t/request` };
});
after(() => server?.close());

const person = { leafIndex: 1n, root: 1n };
const simulation = {
  seed: "a seed",
  issuers: [{ id: 1, identifiers: ["proof_of_human"], public_key: { x: "0x1", y: "0x2" } }],
  relying_parties: [{ app_id: "app_a", rp_id: "rp_6765160973bf7042", oprf_public_key: { x: "0x1", y: "0x2" } }],
};

test("the link decides how the wallet answers", async () => {
  const returnUrl = `${issuer}/complete?return=r`;
  accepted = { success: true, digits: "042", return_url: returnUrl };
  const asked = `${issuer}/authorize/t/request`;
  const table = [
    [asked, ["cross_device", undefined], {}],
    [`${asked}#here`, ["same_device", undefined], { returnUrl }],
    [`${asked}#there`, ["cross_device", true], { digits: "042" }],
    [`selfsame://open?request=${encodeURIComponent(asked)}#there`, ["cross_device", true], { digits: "042" }],
    [`${issuer}/s/${ID}`, ["cross_device", true], { digits: "042" }],
  ];
  for (const [link, sent, onward] of table) {
    const { request, reached } = await openLink(link, issuer);
    assert.deepEqual(await answer(request, person, simulation, reached), onward, link);
    assert.deepEqual([posted.mode, posted.digits], sent, link);
  }
  const { request } = await openLink(asked, issuer);
  accepted = { success: true };
  assert.deepEqual(await answer(request, person, simulation, "there"), {}, "a service without digits");
  for (const digits of ["", "42", "0042", "04a"]) {
    accepted = { success: true, digits };
    await assert.rejects(answer(request, person, simulation, "there"), /are not three digits/, digits);
  }
});

test("a short page leads to its own origin only", async () => {
  const link = `${issuer}/s/${ID}`;
  await assert.rejects(openLink(link, "https://id.example"), /is not at https:\/\/id.example/);
  shortAnswer = { request_url: "http://127.0.0.1:9/authorize/t/request" };
  await assert.rejects(openLink(link, issuer), /is not at http/);
  shortAnswer = { location: `${issuer}/authorize/t/request` };
  await assert.rejects(openLink(link, issuer), /303 redirect/);
});
