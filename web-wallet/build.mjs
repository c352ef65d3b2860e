// Builds the files that the daemon serves as the web wallet.
//
//   node build.mjs            writes built/
//   node build.mjs --check    compares built/ with what the sources give, and writes nothing
//
// File names are fixed, because the daemon has them compiled in. `sw.js` holds the hash of each other file: by
// these the service worker tells the versions apart, and takes none that is made of two.
import { createHash } from "node:crypto";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import zlib from "node:zlib";
import * as esbuild from "esbuild";

const here = path.dirname(fileURLToPath(import.meta.url));
const source = (name) => path.join(here, "src", name);

/** Options that all programs have in common; the tests of the pages build with them, too. */
export const options = {
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
  absWorkingDir: here,
  external: ["/scan.js", "/simulator.js", "/signatures.js"],
  logLevel: "warning",
};

const PROGRAMS = { "app.js": "app.ts", "worker.js": "worker.ts", "scan.js": "decoder.ts", "simulator.js": "simulator.ts", "signatures.js": "signatures.ts" };
const LANGUAGES = fs.readdirSync(source("words")).map((name) => path.parse(name).name).sort();
/** Where long words may break when text is large: not every browser has the language's rules. */
const PARTS = { de: ["Wieder-her-stellungs-code", "Mitglied-schaft", "Mitglieds-nummer", "Bildschirm-sperre", "Passwort-manager"] };
const COPIES = {
  "index.html": source("index.html"),
  "style.css": source("style.css"),
  "manifest.webmanifest": source("manifest.webmanifest"),
  "icon.svg": source("icon.svg"),
  "icon-192.png": source("icon-192.png"),
  "icon-512.png": source("icon-512.png"),
  "prover.wasm": path.join(here, "prover/prover.wasm"),
  "key.bin": path.join(here, "prover/key.bin"),
};
/** Files that brotli makes much smaller. The key is made of random-looking points. */
const compresses = (name) => /\.(html|css|js|json|webmanifest|svg|wasm)$/.test(name);

/** Bundles one program with the text of its source as the entry point. */
export const bundle = async (entry, more = {}) => {
  const { outputFiles } = await esbuild.build({ ...options, entryPoints: [source(entry)], write: false, ...more });
  return Buffer.from(outputFiles[0].contents);
};

/** The files that do not depend on the others: all but `sw.js`. */
export const files = async () => {
  const made = new Map();
  for (const [name, entry] of Object.entries(PROGRAMS)) made.set(name, await bundle(entry));
  for (const [name, from] of Object.entries(COPIES)) made.set(name, fs.readFileSync(from));
  for (const language of LANGUAGES) {
    // Without the line breaks of the sources.
    const words = JSON.stringify(JSON.parse(fs.readFileSync(source(`words/${language}.json`), "utf8")));
    const withBreaks = (text, parts) => text.replaceAll(parts.replaceAll("-", ""), parts.replaceAll("-", "\u00ad"));
    made.set(`words-${language}.json`, Buffer.from((PARTS[language] ?? []).reduce(withBreaks, words)));
  }
  return made;
};

/** Adds the service worker, which knows the hashes of `made`. */
export const addServiceWorker = async (made) => {
  const hash = (bytes) => createHash("sha256").update(bytes).digest("base64url");
  const hashes = Object.fromEntries([...made].sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, bytes]) => [name, hash(bytes)]));
  const version = hash(JSON.stringify(hashes)).slice(0, 16);
  made.set(
    "sw.js",
    await bundle("sw.ts", { define: { VERSION: JSON.stringify(version), HASHES: JSON.stringify(hashes) }, format: "iife" }),
  );
  return made;
};

const compress = (bytes) =>
  zlib.brotliCompressSync(bytes, {
    params: {
      [zlib.constants.BROTLI_PARAM_QUALITY]: 11,
      [zlib.constants.BROTLI_PARAM_LGWIN]: 24,
      [zlib.constants.BROTLI_PARAM_SIZE_HINT]: bytes.length,
    },
  });

const write = async (out) => {
  const made = await addServiceWorker(await files());
  fs.rmSync(out, { recursive: true, force: true });
  fs.mkdirSync(out, { recursive: true });
  const total = { raw: 0, sent: 0 };
  for (const [name, bytes] of [...made].sort(([a], [b]) => (a < b ? -1 : 1))) {
    fs.writeFileSync(path.join(out, name), bytes);
    const small = compresses(name) ? compress(bytes) : null;
    if (small) fs.writeFileSync(path.join(out, `${name}.br`), small);
    const sent = (small ?? bytes).length;
    total.raw += bytes.length;
    total.sent += sent;
    console.log(name.padEnd(22), String(bytes.length).padStart(9), String(sent).padStart(9));
  }
  console.log("total".padEnd(22), String(total.raw).padStart(9), String(total.sent).padStart(9));
};

/** Names of files of `built` that are not what the sources give. */
const differences = (built, fresh) => {
  const names = (folder) => (fs.existsSync(folder) ? fs.readdirSync(folder) : []);
  return [...new Set([...names(built), ...names(fresh)])].sort().filter((name) => {
    const [old, now] = [built, fresh].map((folder) => path.join(folder, name));
    if (!fs.existsSync(old) || !fs.existsSync(now)) return true;
    const [a, b] = [fs.readFileSync(old), fs.readFileSync(now)];
    if (a.equals(b)) return false;
    // Another version of Node.js may compress otherwise; what comes out of it has to be the same.
    return !name.endsWith(".br") || !zlib.brotliDecompressSync(a).equals(zlib.brotliDecompressSync(b));
  });
};

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const built = path.join(here, "built");
  if (process.argv.includes("--check")) {
    const fresh = fs.mkdtempSync(path.join(os.tmpdir(), "web-wallet-"));
    try {
      await write(fresh);
      const different = differences(built, fresh);
      if (different.length > 0) {
        console.error(`built/ is not what the sources give: ${different.join(", ")}. Run node build.mjs.`);
        process.exitCode = 1;
      }
    } finally {
      fs.rmSync(fresh, { recursive: true, force: true });
    }
  } else {
    await write(built);
  }
}
