// The pages of docs/applications show the files that the other tests run.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { PACKAGES, PAGES } from "./applications.mjs";

const read = (...path) => readFileSync(join(PAGES, ...path), "utf8");
const entries = readdirSync(PAGES, { withFileTypes: true });
const pages = entries.filter((entry) => entry.name.endsWith(".md")).map((entry) => entry.name);
const folders = entries.filter((entry) => entry.isDirectory()).map((entry) => entry.name);

// The blocks of a page that stand below a line with the link of a file alone: `[name](folder/name):`
function blocks(page) {
  const pattern = /^\[`?[^\]]+`?\]\(([^)]+)\):\n\n```\w*\n([\s\S]*?)^```$/gm;
  return new Map([...read(page).matchAll(pattern)].map(([, path, text]) => [path, text]));
}

test("there is a folder for each page, except for the first", () => {
  assert.deepEqual(pages.filter((page) => page !== "README.md").map((page) => page.replace(".md", "")).sort(), folders.sort());
});

for (const folder of folders) {
  test(`${folder}.md shows the files of its folder`, () => {
    const shown = blocks(`${folder}.md`);
    for (const [path, text] of shown) assert.equal(text, read(path), path);
    assert.deepEqual([...shown.keys()].sort(), readdirSync(join(PAGES, folder)).map((file) => `${folder}/${file}`).sort());
  });
}

test("the applications have the packages that the tests run", () => {
  for (const folder of folders.filter((folder) => readdirSync(join(PAGES, folder)).includes("package.json"))) {
    const { dependencies, devDependencies } = JSON.parse(read(folder, "package.json"));
    for (const [name, version] of Object.entries({ ...dependencies, ...devDependencies })) {
      const tested = JSON.parse(readFileSync(join(PACKAGES, name, "package.json")));
      assert.equal(tested.version, version, `${name} of ${folder}`);
    }
  }
  const tested = readFileSync(new URL("../../requirements.txt", import.meta.url), "utf8").split("\n");
  for (const line of read("authlib", "requirements.txt").trim().split("\n")) {
    assert.ok(tested.includes(`${line.toLowerCase()} \\`), `${line} of authlib`);
  }
});
