// The server of a vote: shows the page, has the daemon verify each ballot's proof, and counts.
//
//     node server.mjs ballot.json
//
// README.md says how to set it up, docs/groups.md how to hold a vote with it.

import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { fileURLToPath } from "node:url";

import { keccak_256 } from "@noble/hashes/sha3";

import { Box } from "./box.mjs";

const { PORT = "3000", BOX = "box.json", APP_SECRET } = process.env;
const BODY_LIMIT = 16 * 1024;
const VERIFICATION_MS = 20_000;

const ballot = readBallot(process.argv[2] ?? "ballot.json");
const box = new Box(BOX, ballot);

function readBallot(file) {
  const ballot = JSON.parse(readFileSync(file, "utf8"));
  const ids = (ballot.choices ?? []).map(({ id }) => id);
  // The kit hashes texts of the form 0x… as bytes, so no id has it.
  const areIds = ids.length > 1 && new Set(ids).size === ids.length && ids.every((id) => /^(?!0x)[a-z0-9-]{1,64}$/.test(id));
  if (!areIds) throw new Error(`${file}: choices are at least two, each with an id of its own of a-z, 0-9 and -`);
  if (!(Date.parse(ballot.closes) > 0)) throw new Error(`${file}: closes is not a time such as 2026-12-08T20:00:00Z`);
  const texts = ["question", "app_id", "action", "environment", "credential", "asked_as", "verify_url", "bridge_url"];
  const missing = texts.filter((name) => typeof ballot[name] !== "string" || ballot[name] === "");
  if (missing.length > 0) throw new Error(`${file}: ${missing.join(", ")} is missing`);
  return ballot;
}

// What the wallet signs: the choice, hashed as the kit hashes it.
function signalHash(choice) {
  return `0x00${Buffer.from(keccak_256(Buffer.from(choice))).toString("hex").slice(0, 62)}`;
}

function isOver() {
  if (Date.now() >= Date.parse(ballot.closes)) box.close();
  return box.isClosed;
}

const refusal = (status, code, message) => [status, { code, message }];
const TRY_AGAIN = refusal(503, "try_again", "Your vote could not be checked now. It is not counted yet: try again.");
const CLOSED = refusal(409, "closed", "The vote is over.");

// Why a proof does not hold, by the daemon's code, for the member.
const REASONS = {
  invalid_proof: "The proof is not for this choice.",
  invalid_merkle_root: "Your wallet's credential is not on the list of this vote.",
  root_too_old: "Your wallet's credential is not on the list of this vote.",
  identifier_not_accepted: "The proof is of another credential than this vote takes.",
};

// Asks the daemon whether the proof holds. Returns the nullifier, or an answer for the page.
async function verify(choice, { merkle_root, nullifier_hash, proof }) {
  const headers = { "content-type": "application/json" };
  // With the secret, limits count this application, and not the address that all ballots come from.
  if (APP_SECRET) headers.authorization = `Basic ${Buffer.from(`${ballot.app_id}:${APP_SECRET}`).toString("base64")}`;
  let answer;
  let verdict;
  try {
    answer = await fetch(`${ballot.verify_url}/api/v4/verify/${ballot.app_id}`, {
      method: "POST",
      headers,
      // This server alone decides what has to be proved, the choice above all: it does not take the
      // hash from the page. Otherwise a party that relays a proof could hand in another choice with it.
      body: JSON.stringify({
        protocol_version: "3.0",
        nonce: "0x0",
        action: ballot.action,
        environment: ballot.environment,
        responses: [
          { identifier: ballot.credential, merkle_root, nullifier: nullifier_hash, proof, signal_hash: signalHash(choice) },
        ],
      }),
      signal: AbortSignal.timeout(VERIFICATION_MS),
    });
    verdict = await answer.json();
  } catch (error) {
    console.error(`the daemon did not answer: ${error.message}`);
    return { refused: TRY_AGAIN };
  }
  if (answer.status === 200 && verdict.success) return { nullifier: verdict.nullifier };
  // The daemon says this after it has checked the proof, so the proof holds for this choice, and the
  // nullifier is the member's. It has counted an earlier verification of it. Usually that vote is in
  // the box. When it is not, the answer of that verification was lost, or this server ended before it
  // wrote the vote down, or another party sent the proof to the daemon. None of that may cost a
  // member the vote, so whether it counts is up to the box alone.
  if (verdict.code === "max_verifications_reached") return { nullifier: `0x${BigInt(nullifier_hash).toString(16).padStart(64, "0")}` };
  if (answer.status === 429 || answer.status >= 500) return { refused: TRY_AGAIN };
  const code = verdict.results?.[0]?.code ?? verdict.code;
  if (verdict.code === "all_verifications_failed" && REASONS[code]) return { refused: refusal(403, code, REASONS[code]) };
  console.error(`the daemon refuses ballots: ${verdict.code} ${code}: ${verdict.results?.[0]?.detail ?? verdict.detail}`);
  return { refused: refusal(403, code, `The proof was refused (${code}).`) };
}

async function vote({ choice, proof }) {
  if (isOver()) return CLOSED;
  const isChoice = ballot.choices.some(({ id }) => id === choice);
  const isProof =
    /^0x[0-9a-fA-F]{1,64}$/.test(proof?.nullifier_hash) &&
    typeof proof.merkle_root === "string" && typeof proof.proof === "string";
  if (!isChoice || !isProof) return refusal(400, "bad_request", "This is not a ballot of this vote.");
  const { nullifier, refused } = await verify(choice, proof);
  if (refused) return refused;
  // The end may have come meanwhile.
  if (isOver()) return CLOSED;
  // Also for the same ballot once more: the box does not know which choice was this member's. A page
  // that sends a ballot again because it got no answer knows that this is its own.
  if (box.has(nullifier)) return refusal(409, "already_voted", "A vote of yours is in the box. The first one counts.");
  box.count(nullifier, choice);
  return [200, { code: "counted", message: "Your vote is in the box." }];
}

// What the page needs, and the result when the vote is over.
function show() {
  const isClosed = isOver();
  const { verify_url, environment, credential, ...shown } = ballot;
  return [200, { ...shown, is_closed: isClosed, counts: box.counts }];
}

const text = (path) => readFileSync(fileURLToPath(path), "utf8");
const file = (name, type) => [200, text(new URL(name, import.meta.url)), type];
// The kit as it was published: one script, which has all that it needs.
const kit = text(import.meta.resolve("@worldcoin/idkit-standalone"));

const routes = {
  "GET /": () => file("page.html", "text/html; charset=utf-8"),
  "GET /page.js": () => file("page.js", "text/javascript"),
  "GET /qr.js": () => file("qr.js", "text/javascript"),
  "GET /kit.js": () => [200, kit, "text/javascript"],
  "GET /ballot": show,
  "POST /ballots": vote,
};

// Scripts come from here alone. The kit would also fetch fonts from elsewhere, for windows that this page does not use.
const HEADERS = {
  "cache-control": "no-store",
  "content-security-policy": [
    "default-src 'none'", "script-src 'self'", "style-src 'unsafe-inline'",
    `connect-src 'self' ${new URL(ballot.bridge_url).origin}`, "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'",
  ].join("; "),
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
};

async function bodyOf(request) {
  if (request.method !== "POST") return {};
  const parts = [];
  let length = 0;
  for await (const part of request) {
    length += part.length;
    if (length > BODY_LIMIT) return {};
    parts.push(part);
  }
  try {
    return JSON.parse(Buffer.concat(parts).toString("utf8")) ?? {};
  } catch {
    return {};
  }
}

// It has no log of requests: lines with times and addresses beside the ballots would say who voted when.
const server = createServer({ requestTimeout: 30_000 }, async (request, response) => {
  let status = 503;
  let body = TRY_AGAIN[1];
  let type;
  try {
    const route = routes[`${request.method} ${request.url}`] ?? (() => refusal(404, "not_found", "There is no such page."));
    [status, body, type] = await route(await bodyOf(request));
  } catch (error) {
    // The disk is full, for example. The vote is not counted, and the page can send it again.
    console.error(error);
  }
  if (status === 503) response.setHeader("retry-after", "2");
  response.writeHead(status, { ...HEADERS, "content-type": type ?? "application/json" });
  response.end(type ? body : JSON.stringify(body));
});
server.listen(Number(PORT), "127.0.0.1", () => console.log(`listening at http://localhost:${server.address().port}`));
