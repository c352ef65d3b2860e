// The wallet's origin as browsers reach it, in front of the daemon. It counts what passes, loses answers,
// holds requests back, and serves other files in place of the daemon's: what a network does, and what an
// operator can do.

import { createHash } from "node:crypto";
import { once } from "node:events";
import { createReadStream, existsSync, statSync } from "node:fs";
import { createServer, request as forward } from "node:http";
import { join } from "node:path";

const TYPES = { html: "text/html; charset=utf-8", js: "text/javascript", css: "text/css", wasm: "application/wasm", json: "application/json", svg: "image/svg+xml", png: "image/png", webmanifest: "application/manifest+json", bin: "application/octet-stream" };

// `target` is the daemon's wallet interface. With `files` (a folder), `settings` (wallet.json) and `policy`
// (the content security policy) the pages come from that folder, as another host would serve them, and the
// rest from the daemon; wallet.json too, without `settings`.
export async function startFront(port, { target, files, settings, policy }) {
  const passed = [];
  const replaced = new Map();
  let lost = [];
  let held = [];
  let isDown = () => false;

  function answer(request, response, status, headers, body) {
    passed.push({ method: request.method, path: request.url, status, bytes: body.length, worker: request.headers["sec-fetch-dest"] === "serviceworker" });
    response.writeHead(status, status === 304 ? headers : { ...headers, "content-length": body.length }).end(body);
  }

  // The file of the folder that answers this path, or null.
  function fileOf(path) {
    if (!files) return null;
    const name = path === "/" || /^\/(join|replace|sign-in|prove|restore|about)$/.test(path) ? "index.html" : path.slice(1);
    const file = join(files, name);
    return /^[\w.-]+$/.test(name) && existsSync(file) && statSync(file).isFile() ? file : null;
  }

  function serveBytes(request, response, headers, body) {
    const etag = `"${createHash("sha256").update(body).digest("hex").slice(0, 32)}"`;
    const isKnown = request.headers["if-none-match"] === etag;
    answer(request, response, isKnown ? 304 : 200, { ...headers, etag }, isKnown ? Buffer.alloc(0) : body);
  }

  async function serveFile(request, response, file) {
    const isCompressed = /\bbr\b/.test(request.headers["accept-encoding"] ?? "") && existsSync(`${file}.br`);
    const chunks = [];
    for await (const chunk of createReadStream(isCompressed ? `${file}.br` : file)) chunks.push(chunk);
    const headers = {
      "content-type": TYPES[file.split(".").at(-1)] ?? "application/octet-stream",
      "content-security-policy": policy,
      "referrer-policy": "no-referrer",
      "x-content-type-options": "nosniff",
      "cross-origin-opener-policy": "same-origin",
      "permissions-policy": "camera=(self)",
      "cache-control": "no-cache",
    };
    if (isCompressed) headers["content-encoding"] = "br";
    serveBytes(request, response, headers, Buffer.concat(chunks));
  }

  const server = createServer(async (request, response) => {
    const { pathname } = new URL(request.url, "http://localhost");
    if (isDown(pathname)) return request.socket.destroy();
    const holding = held.find(({ matches }) => matches(request.method, pathname));
    if (holding) {
      held = held.filter((other) => other !== holding);
      holding.arrived();
      await holding.released;
    }
    if (replaced.has(pathname)) {
      const { status = 200, headers = {}, body = "" } = await replaced.get(pathname)(request);
      return answer(request, response, status, headers, Buffer.from(body));
    }
    const losing = lost.find((matches) => matches(request.method, pathname));
    if (losing) lost = lost.filter((other) => other !== losing);
    if (!losing && files && settings && pathname === "/wallet.json") {
      return serveBytes(request, response, { "content-type": "application/json", "cache-control": "no-cache" }, Buffer.from(JSON.stringify(settings)));
    }
    const file = fileOf(pathname);
    if (file && !losing) return serveFile(request, response, file);
    const { hostname, port } = new URL(target);
    const options = { hostname, port, method: request.method, path: request.url, headers: request.headers };
    const onward = forward(options, (from) => {
      if (losing) {
        from.resume();
        return from.on("end", () => request.socket.destroy());
      }
      const entry = { method: request.method, path: request.url, status: from.statusCode, bytes: 0 };
      passed.push(entry);
      from.on("data", (chunk) => (entry.bytes += chunk.length));
      response.writeHead(from.statusCode, from.headers);
      from.pipe(response);
    });
    onward.on("error", () => response.destroy());
    request.pipe(onward);
  });
  server.listen(port, "127.0.0.1");
  await once(server, "listening");

  const asMatcher = (method, path) => (m, p) => m === method && (path instanceof RegExp ? path.test(p) : p === path);
  return {
    origin: `http://localhost:${port}`,
    // The requests since the last call.
    drain: () => passed.splice(0),
    // The answer to the next such request is lost, after the daemon has done what it asks.
    lose: (method, path) => lost.push(asMatcher(method, path)),
    // The next such request waits. Resolves `arrived` when it is there; `release` lets it go on.
    hold(method, path) {
      const holding = { matches: asMatcher(method, path) };
      const arrived = new Promise((resolve) => (holding.arrived = resolve));
      let release;
      holding.released = new Promise((resolve) => (release = resolve));
      held.push(holding);
      return { arrived, release };
    },
    // Answers a path itself from now on; `body` is a function of the request that gives status, headers and body.
    replace: (path, body) => replaced.set(path, body),
    restore: (path) => replaced.delete(path),
    // From now on requests for the paths of which `isDown` is true get no answer.
    setDown: (which) => (isDown = which),
    stop() {
      server.closeAllConnections();
      server.close();
    },
  };
}
