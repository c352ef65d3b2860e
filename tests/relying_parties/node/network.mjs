// The network between a browser and a daemon, with what happens to it on the way: it goes silent,
// or loses an answer. It runs in a thread of its own, because a test waits for the wallet, which
// calls through it.

import { once } from "node:events";
import { connect, createServer } from "node:net";
import { Worker, isMainThread, parentPort } from "node:worker_threads";

// Returns `origin`, the address for browsers. `to` names the address that is behind it.
export async function startNetwork() {
  const worker = new Worker(new URL(import.meta.url));
  const [port] = await once(worker, "message");
  // Each command is in force when its promise is fulfilled.
  const tell = async (command) => {
    worker.postMessage(command);
    const [answer] = await once(worker, "message");
    return answer;
  };
  return {
    origin: `http://localhost:${port}`,
    to: (address) => tell({ port: new URL(address).port, host: new URL(address).hostname }),
    // Nothing passes any more on the connections that are open, and nobody is told. New ones work.
    silence: () => tell({ silence: true }),
    // The answer to the next request whose first line contains `text` is thrown away, and its
    // connection is reset.
    loseAnswer: (text) => tell({ lose: text }),
    // How many requests had a first line that contains `text`.
    count: (text) => tell({ count: text }),
    stop: () => worker.terminate(),
  };
}

async function serve() {
  const links = new Set();
  const seen = [];
  let behind;
  let lost;
  const server = createServer((browser) => {
    const daemon = connect(behind);
    const link = { isSilent: false, isLosing: false };
    links.add(link);
    browser.on("data", (bytes) => {
      if (link.isSilent) return;
      const line = bytes.toString("latin1").split("\r\n", 1)[0];
      if (line.includes(" HTTP/1.1")) seen.push(line);
      if (lost && line.includes(lost)) {
        lost = undefined;
        link.isLosing = true;
      }
      daemon.write(bytes);
    });
    daemon.on("data", (bytes) => {
      if (link.isLosing) browser.resetAndDestroy();
      else if (!link.isSilent) browser.write(bytes);
    });
    browser.on("close", () => {
      links.delete(link);
      daemon.destroy();
    });
    daemon.on("close", () => link.isSilent || browser.destroy());
    for (const socket of [browser, daemon]) socket.on("error", () => {});
  });
  parentPort.on("message", ({ port, host, silence, lose, count }) => {
    if (port) behind = { port, host };
    if (lose) lost = lose;
    if (silence) for (const link of links) link.isSilent = true;
    parentPort.postMessage(count ? seen.filter((line) => line.includes(count)).length : true);
  });
  // Browsers know it as localhost, which is one site with an application at another port of it.
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  parentPort.postMessage(server.address().port);
}

if (!isMainThread) await serve();
