// A service as an organization runs it: a daemon with a group, an application that takes the group's members
// at sign-in, an action of pages made with a client kit, and the wallet's origin with a front before it.

import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

import { verifyCloudProof } from "idkit-core-2.1/backend";

import { register, reservedPort } from "../relying_parties/node/daemon.mjs";
import { startFront } from "./front.mjs";

const run = promisify(execFile);
const program = process.env.DAEMON;

// Longer than any single act here takes, also on a machine that is busy with other work, in milliseconds.
export const PATIENCE = 40_000;

export const GROUP = "members";
export const GROUP_NAME = "Members of the cooperative";
export const OPERATOR = "Example Cooperative";
export const APPLICATION = "Forum of the cooperative";
export const ACTION = "orchard-2026";
export const QUESTION = "Shall the cooperative buy the orchard?";

// The application of pages made with a client kit.
export const VOTE_APP = "app_staging_5e1f5a3e0000000000000000000000c0";
// An application that takes answers from the browser's own device alone.
export const DENYING_APP = "app_staging_5e1f5a3e0000000000000000000000c1";
// An application of `isDev` that takes current proofs, which the simulator's person has.
export const CURRENT_APP = "app_staging_5e1f5a3e0000000000000000000000c3";
// An application that takes another group.
export const OTHER_APP = "app_staging_5e1f5a3e0000000000000000000000c2";

const INTERFACES = ["SIGN_IN", "VERIFY", "GATEWAY", "INDEXER", "OPERATOR", "BRIDGE", "WALLET"];

// The content security policy of the wallet's pages, for files that another host serves.
const policyOf = ({ issuer, bridge, verify }) =>
  `default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; style-src 'self'; img-src 'self' blob: data:; manifest-src 'self'; connect-src 'self' ${issuer} ${bridge} ${verify}; form-action 'none'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types selfsame-wallet`;

// The application of the simulator's person. The key is the one of the daemon's own example.
const inDevelopment = (url, wallet) => `
[[apps]]
id = "${CURRENT_APP}"
name = "Workshop"
public = true
proof = "current"
redirect_uris = ["${url}/callback"]
wallet_link = "${wallet}/sign-in?request={request}"

[[relying_parties]]
app_id = "${CURRENT_APP}"
[relying_parties.oprf_public_key]
x = "5299619240641551281634865583518297030282874472190772894086521144482721001553"
y = "16950150798460657717958625567821834550301663161624707787222815936182638968203"
`;

// With `hasLegacyName` pages made with a client kit can ask for the group. With `isDev` there is the simulator.
// `config` is added to the configuration. The variable WEB_WALLET_FILES names a folder whose files are served
// in place of the program's.
export async function startService({ hasLegacyName = true, isDev = false, config = "" } = {}) {
  const folder = mkdtempSync(join(tmpdir(), "selfsame-web-wallet-"));
  const data = join(folder, "data");
  const ports = Object.fromEntries(await Promise.all([...INTERFACES, "FRONT"].map(async (name) => [name, await reservedPort()])));
  const at = (name) => `http://127.0.0.1:${ports[name]}`;
  // Passkeys need a name in place of an address. The issuer is another site.
  const wallet = `http://localhost:${ports.FRONT}`;
  const urls = { wallet, issuer: at("SIGN_IN"), bridge: at("BRIDGE"), verify: at("VERIFY"), operator: at("OPERATOR") };
  const application = await startApplication(urls);
  const app = register([`${application.url}/callback`], [`${application.url}/`], { name: APPLICATION });
  Object.assign(application, { id: app.id, secret: app.secret });
  const forMembers = `proof = "legacy"\naccepted_identifiers = ["${GROUP}"]\n`;
  const text = `
data_dir = ${JSON.stringify(data)}

[sign_in]
transaction_lifetime = "1h"

[sign_in.page]
service_name = "${OPERATOR}"

[[groups]]
id = "${GROUP}"
name = "${GROUP_NAME}"
environment = "staging"
${hasLegacyName ? 'legacy_identifier = "device"\n' : ""}
[[groups]]
id = "staff"
name = "Staff of the shop"
environment = "staging"

${app.config.replace(/^name = .*$/m, (line) => `${line}\n${forMembers}home_url = "${application.url}/"`)}

[[apps]]
id = "${DENYING_APP}"
name = "Bank of the cooperative"
public = true
${forMembers}redirect_uris = ["${application.url}/callback"]
cross_device = "deny"
cross_device_deny_despite_relays = true

[[apps]]
id = "${OTHER_APP}"
name = "Rota of the shop"
public = true
${forMembers.replace(`"${GROUP}"`, '"staff"')}redirect_uris = ["${application.url}/callback"]

[[apps]]
id = "${VOTE_APP}"
name = "Votes of the cooperative"

[[actions]]
app_id = "${VOTE_APP}"
action = "${ACTION}"
description = "${QUESTION}"
environment = "staging"
accepted_identifiers = ["${GROUP}"]
${isDev ? inDevelopment(application.url, wallet) : ""}${config}`;
  const file = join(folder, "selfsame.toml");
  writeFileSync(file, text);
  const environment = {
    ...process.env,
    ...Object.fromEntries(INTERFACES.map((name) => [`SELFSAME_LISTEN__${name}`, `127.0.0.1:${ports[name]}`])),
    SELFSAME_URLS__WALLET_URL: wallet,
    SELFSAME_URLS__BRIDGE_URL: urls.bridge,
    SELFSAME_URLS__ID_URL: urls.issuer,
    SELFSAME_URLS__PORTAL_URL: urls.verify,
  };
  const files = process.env.WEB_WALLET_FILES;
  // The simulator's part of wallet.json is the daemon's alone.
  const settings = isDev ? null : { issuer: urls.issuer, bridge: urls.bridge, verify: urls.verify, operator: OPERATOR, simulator: null };
  const front = await startFront(ports.FRONT, { target: at("WALLET"), files, settings, policy: policyOf(urls) });

  let daemon;
  const log = () => readFileSync(join(folder, "log"), "utf8");
  const command = async (...words) => (await run(program, words, { env: environment, timeout: PATIENCE })).stdout.trim();
  const service = {
    urls,
    front,
    application,
    folder,
    log,
    async start() {
      const output = openSync(join(folder, "log"), "a");
      daemon = spawn(program, ["serve", ...(isDev ? ["--dev"] : []), "--config", file, "--data", data], { env: environment, stdio: ["ignore", "ignore", output] });
      closeSync(output);
      daemon.ended = once(daemon, "exit");
      const isReady = async () => (await fetch(`${urls.operator}/ready`).catch(() => null))?.ok ?? false;
      const limit = Date.now() + PATIENCE;
      while (!(await isReady())) {
        if (daemon.exitCode !== null || Date.now() > limit) throw new Error(`the daemon did not start: ${log()}`);
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    },
    async kill() {
      daemon.kill("SIGKILL");
      await daemon.ended;
    },
    async stop() {
      if (daemon) await service.kill();
      front.stop();
      application.stop();
      rmSync(folder, { recursive: true, force: true });
    },
    // A link for this member number: a joining one, or an enroller's link for a member.
    invite: async (member, group = GROUP) => /http\S+/.exec(await command("group", "invite", group, "--member", member, "--data", data))[0],
    remove: (member, group = GROUP) => command("group", "remove", group, "--member", member, "--data", data),
    // How the member number stands, as the operator sees it.
    async standing(member, group = GROUP) {
      const lines = (await command("group", "members", group, "--data", data)).split("\n").map((line) => line.trim().split(/\s+/));
      return lines.find((words) => words.at(-1) === member)?.[0];
    },
    async group(id = GROUP) {
      return (await fetch(`${at("WALLET")}/groups/${id}`)).json();
    },
    takeRoll: (name, group = GROUP) => command("group", "roll", group, name, "--data", data),
    // A member whose wallet is the command.
    async joinByCommand(member, group = GROUP) {
      const file = join(folder, `${member}.json`);
      await command("wallet", "new", "--wallet", file);
      await command("wallet", "group", "join", await service.invite(member, group), "--wallet", file);
      return (...words) => command("wallet", ...words, "--wallet", file);
    },
    // The address at which a sign-in of the application begins.
    authorization(client = app.id, more = {}) {
      return application.authorization(client, more);
    },
  };
  await service.start().catch(async (error) => {
    await service.stop().catch(() => {});
    throw error;
  });
  return service;
}

// The application: `/` has a link to sign in, `/callback` redeems the code and says whom it has got.
async function startApplication({ issuer, verify: verifyUrl }) {
  const pages = {};
  const signedIn = [];
  const port = await reservedPort();
  const url = `http://localhost:${port}`;
  const verifier = "a".repeat(43);
  // SHA-256 of the verifier, as PKCE wants it.
  const challenge = "ZtNPunH49FD35FWYhT5Tv8I7vRKQJ8uxMaL0_9eHjNA";
  const application = {
    url,
    // Further pages: HTML by path.
    pages,
    // Whom it has signed in: the claims of each ID token.
    signedIn,
    authorization(client, more = {}) {
      const address = new URL("/authorize", issuer);
      const request = { client_id: client, redirect_uri: `${url}/callback`, response_type: "code", scope: "openid", prompt: "login", state: client, nonce: String(Math.random()), code_challenge: challenge, code_challenge_method: "S256" };
      address.search = new URLSearchParams({ ...request, ...more });
      return address.href;
    },
    stop() {
      server.closeAllConnections();
      server.close();
    },
  };
  // What the server of a page with a client kit asks of the daemon.
  async function verify(request) {
    let text = "";
    for await (const part of request) text += part;
    const { app_id, action, signal } = application.verifying;
    return JSON.stringify(await verifyCloudProof(JSON.parse(text), app_id, action, signal, `${verifyUrl}/api/v2/verify/${app_id}`));
  }
  async function redeem(query) {
    const code = query.get("code");
    if (!code) return `<h1>Not signed in</h1><p id="error">${(query.get("error") ?? "").replace(/\W/g, "_")}</p>`;
    const form = { grant_type: "authorization_code", code, redirect_uri: `${url}/callback`, code_verifier: verifier };
    // The state of a sign-in of another application is its id; those have no secret.
    const client = query.get("state");
    const isOther = client.startsWith("app_") && client !== application.id;
    const answer = await fetch(`${issuer}/token`, {
      method: "POST",
      headers: isOther ? {} : { authorization: `Basic ${btoa(`${application.id}:${application.secret}`)}` },
      body: new URLSearchParams(isOther ? { ...form, client_id: client } : form),
    });
    const { id_token, error } = await answer.json();
    if (!id_token) return `<h1>Not signed in</h1><p id="error">${error}</p>`;
    const claims = JSON.parse(Buffer.from(id_token.split(".")[1], "base64url"));
    signedIn.push(claims);
    return `<h1>Signed in</h1><p id="sub">${claims.sub}</p>`;
  }
  const server = createServer(async (request, response) => {
    const { pathname, searchParams } = new URL(request.url, url);
    if (pathname === "/verify") return response.writeHead(200, { "content-type": "application/json" }).end(await verify(request));
    const begin = application.authorization(application.id).replaceAll("&", "&amp;");
    const body = pathname === "/callback" ? await redeem(searchParams) : (pages[pathname] ?? `<h1>Forum</h1><a href="${begin}">Sign in</a>`);
    response.writeHead(200, { "content-type": "text/html; charset=utf-8" }).end(`<!doctype html><html lang="en"><title>Forum</title><meta name="viewport" content="width=device-width"><body>${body}`);
  });
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  return application;
}
