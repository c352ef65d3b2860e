// Webhooks are those of Standard Webhooks: the published library checks every one of them, also while
// the daemon is killed and started again.

import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { Webhook, WebhookVerificationError } from "standardwebhooks";

import { start } from "../../relying_parties/node/daemon.mjs";

const secret = (byte) => `whsec_${Buffer.alloc(32, byte).toString("base64")}`;
const SECRETS = [secret(1), secret(2)];

let folder;
let receiver;

before(async () => {
  folder = mkdtempSync(join(tmpdir(), "selfsame-webhooks-"));
  writeFileSync(join(folder, "secret"), `${SECRETS.join("\n")}\n`, { mode: 0o600 });
  receiver = await startReceiver();
});

after(() => {
  receiver?.stop();
  rmSync(folder, { recursive: true });
});

// Checks and keeps what comes. The numbers of `unanswered` count the webhooks that get no answer.
async function startReceiver() {
  const events = [];
  const unanswered = new Set();
  let arrived = () => {};
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    events.push({ body, headers: request.headers });
    arrived();
    if (unanswered.has(events.length)) return;
    try {
      for (const secret of SECRETS) new Webhook(secret).verify(body, request.headers);
      response.writeHead(204).end();
    } catch (error) {
      response.writeHead(401).end(error.message);
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${server.address().port}/hooks`,
    events,
    unanswered,
    ids: () => new Set(events.map(({ headers }) => headers["webhook-id"])),
    async until(condition) {
      while (!condition()) await new Promise((resolve) => (arrived = resolve));
    },
    stop() {
      server.closeAllConnections();
      server.close();
    },
  };
}

const config = () => `
[[webhooks]]
id = "all"
url = "${receiver.url}"
secret_file = "${join(folder, "secret")}"
events = ["request.finalized", "root.added"]
`;

test("the published library verifies each webhook, also of a daemon that is killed while it sends", { timeout: 300_000 }, async () => {
  const data = join(folder, "daemon");
  let daemon = await start({ config: config(), folder: data });
  // Each account has two events: its request, and the new root.
  daemon.wallet("create-account");
  await receiver.until(() => receiver.events.length === 2);
  const types = receiver.events.map(({ body }) => JSON.parse(body).type);
  assert.deepEqual(types.sort(), ["request.finalized", "root.added"]);

  for (let life = 1; life <= 3; life++) {
    receiver.unanswered.add(receiver.events.length + 1).add(receiver.events.length + 2);
    const before = receiver.ids().size;
    daemon.newAccount(`phone-${life}.json`);
    await receiver.until(() => receiver.ids().size === before + 2);
    await daemon.kill();
    const sent = receiver.events.length;
    daemon = await start({ config: config(), folder: data });
    await receiver.until(() => receiver.events.length >= sent + 2);
  }
  assert.equal(receiver.ids().size, 8, "four accounts have two events each; what was sent again has the same ids");
  const distinct = new Set(receiver.events.map(({ body, headers }) => `${headers["webhook-id"]} ${body}`));
  assert.equal(distinct.size, 8, "what is sent again is the same");
  await daemon.stop();
});

test("a webhook that was changed does not verify", () => {
  const [{ body, headers }] = receiver.events;
  const webhook = new Webhook(SECRETS[0]);
  assert.throws(() => webhook.verify(`${body} `, headers), WebhookVerificationError);
  assert.throws(() => webhook.verify(body, { ...headers, "webhook-id": "evt_00" }), WebhookVerificationError);
  const other = new Webhook(secret(3));
  assert.throws(() => other.verify(body, headers), WebhookVerificationError);
});
