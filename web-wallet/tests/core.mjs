// The sources of the wallet without its pages, bundled for Node.js, and its files.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

import * as esbuild from "esbuild";

const here = fileURLToPath(new URL("..", import.meta.url));
const CHAPTERS = [
  "answering",
  "bytes",
  "client",
  "codes",
  "connector",
  "enrolment",
  "hashes",
  "identity",
  "issuer",
  "keeper",
  "members",
  "prover",
  "requests",
  "sealed",
  "service",
  "signatures",
  "simulator",
  "storage",
  "tree",
  "vault",
  "wallet",
];

const bundleCore = async () => {
  const contents = CHAPTERS.map((name) => `export * from "./src/${name}.ts";`).join("\n");
  const { outputFiles } = await esbuild.build({
    stdin: { contents, resolveDir: here, loader: "ts" },
    bundle: true,
    format: "esm",
    platform: "node",
    target: "node20",
    write: false,
    logLevel: "warning",
  });
  const folder = mkdtempSync(join(tmpdir(), "web-wallet-core-"));
  const file = join(folder, "core.mjs");
  writeFileSync(file, outputFiles[0].contents);
  try {
    return await import(pathToFileURL(file).href);
  } finally {
    rmSync(folder, { recursive: true });
  }
};

/** Everything that the chapters export. */
export const core = await bundleCore();

export const repository = (path) => new URL(`../../${path}`, import.meta.url);
export const readJson = (path) => JSON.parse(readFileSync(repository(path), "utf8"));

const files = new Map();
/** `prover.wasm` and `key.bin`, as the wallet fetches them. */
export const readFile = async (name) => {
  if (!files.has(name)) files.set(name, new Uint8Array(readFileSync(repository(`web-wallet/prover/${name}`))));
  return files.get(name);
};

/** One prover for all wallets of a test: reading the key takes a second. */
export const loader = new core.ProverLoader(readFile);

export const hex = core.toHex;
export const bytes = (text) => new Uint8Array(Buffer.from(text.replace(/^0x/, ""), "hex"));

/** Asserts a `VaultError` with this code. */
export const isRefusal = (code) => (error) => {
  if (error instanceof core.VaultError && error.code === code) return true;
  throw error;
};
