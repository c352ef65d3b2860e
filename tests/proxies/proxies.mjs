// nginx, Caddy and Traefik with the configurations of packaging/proxies. Only addresses, ports and
// paths are replaced. The variables NGINX, CADDY and TRAEFIK may name the programs.

import { spawn } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { call } from "./client.mjs";
import { end, listening, loopbackAddress, PATIENCE } from "./machine.mjs";

const PORT = 8443;
const PLAIN_PORT = 8088;

// Replaces each text, which has to be there.
function replaced(text, pairs) {
  for (const [from, to] of pairs) {
    if (!text.includes(from)) throw new Error(`the configuration has no ${JSON.stringify(from)}`);
    text = text.replaceAll(from, to);
  }
  return text;
}

const certificates = (tls) => [
  ["/etc/selfsame/tls/certificate.pem", tls.certificate],
  ["/etc/selfsame/tls/private-key.pem", tls.privateKey],
];

const kinds = {
  nginx: {
    program: process.env.NGINX ?? "nginx",
    configure({ folder, address, daemon, tls, source, issuerPath }) {
      const proxy = join(folder, "selfsame-proxy.conf");
      const log = ["/var/log/nginx/selfsame.log", join(folder, "access.log")];
      writeFileSync(proxy, replaced(source("nginx-proxy.conf"), [...certificates(tls), log]));
      const include = ["/etc/nginx/selfsame-proxy.conf", proxy];
      const listen = ["listen 443", `listen ${address}:${PORT}`];
      let site = replaced(source("nginx.conf"), [
        include, log, listen, ["listen 80", `listen ${address}:${PLAIN_PORT}`], ["127.0.0.1:808", `${daemon}:808`],
      ]);
      if (issuerPath) site += replaced(source("nginx-issuer-path.conf"), [include, listen]);
      const file = join(folder, "nginx.conf");
      // What a distribution's nginx.conf has around a site.
      const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((name) => `${name}_temp_path ${folder}/${name};`);
      writeFileSync(file, `daemon off; pid ${folder}/pid; worker_processes 1; error_log stderr; events {}
        http { ${temporary.join(" ")} ${site} }`);
      return ["-p", folder, "-e", "stderr", "-c", file];
    },
    // The log of requests, of which no secret may be a part.
    accessLog: (folder) => readFileSync(join(folder, "access.log"), "utf8"),
  },
  caddy: {
    program: process.env.CADDY ?? "caddy",
    configure({ folder, address, daemon, tls, source, issuerPath, inFront }) {
      let sites = replaced(source("Caddyfile"), [...certificates(tls), ["127.0.0.1:808", `${daemon}:808`]]);
      if (inFront) sites = replaced(sites, [["(daemon) {", `(daemon) {\ntrusted_proxies ${inFront}`]]);
      if (issuerPath) sites += replaced(source("Caddyfile-issuer-path"), [["127.0.0.1:808", `${daemon}:808`]]);
      const file = join(folder, "Caddyfile");
      const options = `{
        admin off
        auto_https disable_certs
        https_port ${PORT}
        http_port ${PLAIN_PORT}
        default_bind ${address}
        storage file_system ${folder}/storage
      }\n`;
      writeFileSync(file, options + sites);
      return ["run", "--adapter", "caddyfile", "--config", file];
    },
  },
  traefik: {
    program: process.env.TRAEFIK ?? "traefik",
    configure({ folder, address, daemon, tls, source, issuerPath, inFront }) {
      const dynamic = join(folder, "dynamic");
      mkdirSync(dynamic);
      const file = join(folder, "traefik.yml");
      const trusted = inFront ? `\n    forwardedHeaders: { trustedIPs: ["${inFront}"] }` : "";
      writeFileSync(file, replaced(source("traefik.yml"), [
        ["/etc/traefik/dynamic", dynamic], ['":443"', `"${address}:${PORT}"${trusted}`], ['":80"', `"${address}:${PLAIN_PORT}"`],
      ]));
      const routes = replaced(source("traefik-selfsame.yml"), [...certificates(tls), ["127.0.0.1:808", `${daemon}:808`]]);
      writeFileSync(join(dynamic, "selfsame.yml"), routes);
      if (issuerPath) writeFileSync(join(dynamic, "issuer-path.yml"), source("traefik-issuer-path.yml"));
      return [`--configFile=${file}`];
    },
  },
};

export const PROXIES = Object.keys(kinds);

// Starts a proxy in front of the daemon at the address `daemon`, in an empty folder. With `inFront`
// it trusts another proxy at this address in front of it, by the settings that the page names.
export async function startProxy(name, { folder, daemon, tls, root, issuerPath = false, inFront }) {
  const kind = kinds[name];
  const address = loopbackAddress();
  mkdirSync(folder);
  const source = (file) => readFileSync(join(root, "packaging/proxies", file), "utf8");
  const words = kind.configure({ folder, address, daemon, tls, source, issuerPath, inFront });
  const env = { ...process.env, HOME: folder, XDG_CONFIG_HOME: folder, XDG_DATA_HOME: folder };
  const child = spawn(kind.program, words, { stdio: ["ignore", "pipe", "pipe"], env, cwd: folder });
  let log = "";
  child.on("error", (error) => (log += error));
  for (const output of [child.stdout, child.stderr]) output.on("data", (text) => (log += text));
  await listening(address, PORT, child, () => log);
  const proxy = {
    address,
    port: PORT,
    plainPort: PLAIN_PORT,
    authority: tls.authority,
    log: () => log,
    accessLog: () => kind.accessLog?.(folder) ?? log,
    stop: () => end(child),
  };
  await routing(proxy, issuerPath ? "https://www.example.org/id/health" : "https://id.example.org/health");
  return proxy;
}

// Waits until the routes are in force, which Traefik reads after it listens.
async function routing(proxy, url) {
  const deadline = Date.now() + PATIENCE;
  for (;;) {
    const answer = await call(proxy, url).catch((error) => ({ status: error.message, text: "" }));
    if (answer.status === 200) return;
    if (Date.now() > deadline) {
      await proxy.stop();
      throw new Error(`${url} is answered ${answer.status} ${answer.text}: ${proxy.log()}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
