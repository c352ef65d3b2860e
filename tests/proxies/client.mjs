// Requests to a host behind a proxy, as a browser on another machine sends them.

import { readFileSync } from "node:fs";
import http from "node:http";
import http2 from "node:http2";
import https from "node:https";

import { CLIENT_ADDRESS } from "./machine.mjs";

// Sends a request by HTTP/1.1 and returns `{ status, headers, rawHeaders, text, json }`.
export async function call(proxy, url, options = {}) {
  const response = await open(proxy, url, options);
  let text = "";
  for await (const part of response.setEncoding("utf8")) text += part;
  const json = () => JSON.parse(text);
  return { status: response.statusCode, headers: response.headers, rawHeaders: response.rawHeaders, text, json };
}

// Sends a request by HTTP/1.1 and returns the response when its head has come.
export function open(proxy, url, { method = "GET", headers = {}, body, from = CLIENT_ADDRESS, signal } = {}) {
  const { protocol, host, hostname, pathname, search } = new URL(url);
  const isPlain = protocol === "http:";
  const options = {
    host: proxy.address,
    port: isPlain ? proxy.plainPort : proxy.port,
    servername: hostname,
    ca: readFileSync(proxy.authority),
    localAddress: from,
    path: pathname + search,
    method,
    headers: { host, ...headers },
    agent: false,
    signal,
  };
  return new Promise((resolve, reject) => {
    const request = (isPlain ? http : https).request(options, resolve).on("error", reject);
    request.end(body);
  });
}

// Sends GET by HTTP/2 and returns `{ status, headers, text }`. Fails when the proxy does not offer it.
export async function callHttp2(proxy, url) {
  const { origin, hostname, pathname, search } = new URL(url);
  const session = http2.connect(origin, {
    host: proxy.address,
    port: proxy.port,
    servername: hostname,
    ca: readFileSync(proxy.authority),
    localAddress: CLIENT_ADDRESS,
  });
  try {
    return await new Promise((resolve, reject) => {
      session.on("error", reject);
      const stream = session.request({ ":path": pathname + search, accept: "application/json" });
      let text = "";
      let head = {};
      stream.on("response", (headers) => (head = headers)).on("error", reject);
      stream.setEncoding("utf8").on("data", (part) => (text += part));
      stream.on("end", () => resolve({ status: head[":status"], headers: head, text }));
    });
  } finally {
    session.close();
  }
}

// The events of a stream of server-sent events, one object for each.
export async function* events(response) {
  let text = "";
  for await (const part of response.setEncoding("utf8")) {
    text += part;
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      const event = text.slice(0, end);
      text = text.slice(end + 2);
      if (event.startsWith("data: ")) yield JSON.parse(event.slice("data: ".length));
    }
  }
}
