// A proxy that gives hosts below example.org and example.net https addresses, as a deployment has
// them. It runs in a thread of its own, because a test waits for the wallet, which calls through it.

import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer, request as forward } from "node:http";
import { createServer as createSecureServer } from "node:https";
import { join } from "node:path";
import { Worker, isMainThread, parentPort, workerData } from "node:worker_threads";

// `hosts` says for each host which address of this machine, or which folder of files, is behind it.
// Returns the proxy's address, for clients that ask a proxy for a tunnel, and the function that ends it.
export async function startFront(hosts, { key, cert }) {
  const worker = new Worker(new URL(import.meta.url), { workerData: { hosts, key, cert } });
  const [url] = await once(worker, "message");
  return { url, stop: () => worker.terminate() };
}

const TYPES = { html: "text/html", js: "text/javascript", json: "application/json" };

// Answers with one of the files of a single-page application.
function answerWithFile(folder, request, response) {
  const name = /^\/(\w+\.(?:js|json))?(?:\?|$)/.exec(request.url)?.[1] ?? "index.html";
  const headers = { "content-type": TYPES[name.split(".")[1]], "content-security-policy": "frame-ancestors 'self'" };
  response.writeHead(200, headers).end(readFileSync(join(folder, name)));
}

async function serve({ hosts, key, cert }) {
  const secure = createSecureServer({ key, cert }, (request, response) => {
    const behind = hosts[request.headers.host];
    if (!behind.startsWith("http")) return answerWithFile(behind, request, response);
    const { hostname, port } = new URL(behind);
    const { method, url: path, headers } = request;
    const passed = forward({ hostname, port, method, path, headers }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    });
    // A browser that leaves a page ends its requests.
    passed.on("error", () => response.destroy());
    response.on("close", () => passed.destroy());
    request.pipe(passed);
  });
  const tunnel = createServer();
  tunnel.on("connect", (request, socket, head) => {
    socket.on("error", () => socket.destroy());
    if (!hosts[request.url.replace(":443", "")]) return socket.end("HTTP/1.1 403 Forbidden\r\n\r\n");
    socket.write("HTTP/1.1 200 OK\r\n\r\n");
    socket.unshift(head);
    secure.emit("connection", socket);
  });
  tunnel.listen(0, "127.0.0.1");
  await once(tunnel, "listening");
  parentPort.postMessage(`http://127.0.0.1:${tunnel.address().port}`);
}

if (!isMainThread) await serve(workerData);
