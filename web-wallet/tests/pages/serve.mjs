// Serves the pages with the vault that plays, or built files, under the policy that the daemon sends.
import { createHash } from "node:crypto";
import fs from "node:fs";
import http from "node:http";
import path from "node:path";
import { fileURLToPath } from "node:url";
import * as esbuild from "esbuild";
import { bundle, options } from "../../build.mjs";

const here = path.dirname(fileURLToPath(import.meta.url));
const source = (name) => path.join(here, "../../src", name);
const TYPES = { html: "text/html; charset=utf-8", js: "text/javascript", css: "text/css", json: "application/json", svg: "image/svg+xml", png: "image/png", webmanifest: "application/manifest+json" };
const PAGES = new Set(["/", "/join", "/replace", "/sign-in", "/prove", "/restore", "/about", "/nowhere"]);
const POLICY =
  "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; style-src 'self'; img-src 'self' blob: data:; manifest-src 'self'; " +
  "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types selfsame-wallet";

const HEADERS = { "content-security-policy": POLICY, "referrer-policy": "no-referrer", "x-content-type-options": "nosniff", "permissions-policy": "camera=(self)" };

/** English with each Latin letter as an Arabic one, written from right to left: a language of tests. */
export const rightToLeft = () => {
  const words = JSON.parse(fs.readFileSync(source("words/en.json"), "utf8"));
  const letters = "ابتثجحخدذرزسشصضطظعغفقكلمنه";
  const turn = (text) => text.replace(/\{\w+\}|[a-z]/gi, (part) => (part.length > 1 ? part : letters[part.toLowerCase().charCodeAt(0) - 97]));
  const all = Object.fromEntries(Object.entries(words).map(([key, text]) => [key, typeof text === "string" ? turn(text) : Object.fromEntries(Object.entries(text).map(([form, one]) => [form, turn(one)]))]));
  return { ...all, direction: "rtl" };
};

/** Serves built files from memory. `set` changes one; `requests` has the paths that were asked for. */
export const serveFiles = async (files) => {
  const made = new Map(Object.entries(files));
  const requests = [];
  const server = http.createServer((request, response) => {
    const { pathname } = new URL(request.url, "http://localhost");
    requests.push(pathname);
    const name = PAGES.has(pathname) ? "index.html" : pathname.slice(1);
    const body = made.get(name);
    if (!body) return response.writeHead(404, { "cache-control": "no-store" }).end("{}");
    const tag = `"${createHash("sha256").update(body).digest("hex")}"`;
    const headers = { ...HEADERS, "content-type": TYPES[name.split(".").pop()] ?? "application/octet-stream", "cache-control": "no-cache", etag: tag };
    if (request.headers["if-none-match"] === tag) return response.writeHead(304, headers).end();
    response.writeHead(200, headers).end(body);
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const close = () => {
    server.close();
    server.closeAllConnections();
  };
  return { origin: `http://localhost:${server.address().port}`, requests, set: (name, bytes) => made.set(name, bytes), close };
};

export const serve = async () => {
  const { outputFiles } = await esbuild.build({ ...options, entryPoints: [path.join(here, "app.ts")], write: false });
  const made = new Map([
    ["/app.js", Buffer.from(outputFiles[0].contents)],
    ["/scan.js", await bundle("decoder.ts")],
    ["/words-rtl.json", Buffer.from(JSON.stringify(rightToLeft()))],
  ]);
  const server = http.createServer((request, response) => {
    const { pathname } = new URL(request.url, "http://localhost");
    let name = PAGES.has(pathname) ? "/index.html" : pathname;
    let body = made.get(name);
    if (!body) {
      const file = source(name.slice(1).replace(/^words-/, "words/"));
      if (!fs.existsSync(file)) return response.writeHead(404).end();
      body = fs.readFileSync(file);
    }
    response.writeHead(200, { ...HEADERS, "content-type": TYPES[name.split(".").pop()] ?? "application/octet-stream", "cache-control": "no-store" });
    response.end(body);
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  return { origin: `http://localhost:${server.address().port}`, close: () => server.close() };
};
