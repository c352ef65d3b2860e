// The server: signs requests for proofs, and has the daemon verify the proofs.

import { readFile } from "node:fs/promises";
import { createServer } from "node:http";

import { hashSignal } from "@worldcoin/idkit/hashing";
import { signRequest } from "@worldcoin/idkit-server";

const { APP_ID, RP_ID, SIGNING_KEY, ENVIRONMENT = "staging", PORT = "3000" } = process.env;
const { VERIFY_URL = "http://127.0.0.1:8081", BRIDGE_URL = "http://127.0.0.1:8085" } = process.env;
const ACTION = "vote";

// The requests that were signed and have no vote yet, by their nonce.
const signed = new Map();
const votes = new Map();

function forgetExpired() {
  const now = Date.now() / 1000;
  for (const [nonce, { expires_at }] of signed) if (expires_at < now) signed.delete(nonce);
}

// What the page needs to ask for a proof.
function request() {
  forgetExpired();
  const { sig, nonce, createdAt, expiresAt } = signRequest({ signingKeyHex: SIGNING_KEY, action: ACTION });
  const signature = { signature: sig, created_at: createdAt, expires_at: expiresAt };
  signed.set(nonce, signature);
  const rp_context = { rp_id: RP_ID, nonce, ...signature };
  return [200, { app_id: APP_ID, action: ACTION, rp_context, environment: ENVIRONMENT, bridge_url: BRIDGE_URL }];
}

async function vote({ choice, result }) {
  const rp_signature = signed.get(result?.nonce);
  if (!rp_signature) return [400, { message: "This server has signed no such request." }];
  // The person proved this vote and no other one.
  const isForChoice = result.responses?.every((item) => BigInt(item.signal_hash ?? 0) === BigInt(hashSignal(choice)));
  if (!isForChoice) return [400, { message: "The proof is for another vote." }];
  const answer = await fetch(`${VERIFY_URL}/api/v4/verify/${RP_ID}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    // The server alone decides what has to be proved.
    body: JSON.stringify({
      ...result,
      action: ACTION,
      environment: ENVIRONMENT,
      min_protocol_version: "4.0",
      rp_signature,
    }),
  });
  const verdict = await answer.json();
  if (!answer.ok) return [400, { message: `The proof was refused: ${verdict.code}` }];
  signed.delete(result.nonce);
  // The nullifier is the person, for this action alone.
  const person = BigInt(verdict.nullifier);
  if (votes.has(person)) return [409, { message: "You have voted before." }];
  votes.set(person, choice);
  return [200, { message: "Your vote counts.", votes: votes.size }];
}

const PAGE = '<!doctype html><html lang="en"><title>Application</title><div id="page"></div><script type="module" src="/page.js"></script></html>';
const file = async (name) => readFile(new URL(`public/${name}`, import.meta.url));

const routes = {
  "GET /": async () => [200, PAGE, "text/html; charset=utf-8"],
  "GET /page.js": async () => [200, await file("page.js"), "text/javascript"],
  "GET /idkit_wasm_bg.wasm": async () => [200, await file("idkit_wasm_bg.wasm"), "application/wasm"],
  "POST /request": request,
  "POST /vote": vote,
};

async function bodyOf(request) {
  let text = "";
  for await (const part of request) {
    text += part;
    if (text.length > 65536) throw new Error("the body is too long");
  }
  return text === "" ? undefined : JSON.parse(text);
}

createServer(async (request, response) => {
  try {
    const route = routes[`${request.method} ${request.url}`] ?? (() => [404, { message: "There is no such page." }]);
    const [status, body, type = "application/json"] = await route(await bodyOf(request));
    response.writeHead(status, { "content-type": type });
    response.end(type === "application/json" ? JSON.stringify(body) : body);
  } catch (error) {
    console.error(error);
    response.writeHead(500, { "content-type": "application/json" });
    response.end('{"message":"Something went wrong. Try again."}');
  }
}).listen(Number(PORT), "127.0.0.1", () => console.log(`listening at http://localhost:${PORT}`));
