// Chromium for the tests of the pages. Its driver is among the packages of the repository's other tests.
import { createRequire } from "node:module";
import path from "node:path";
import { fileURLToPath } from "node:url";

const tests = path.join(path.dirname(fileURLToPath(import.meta.url)), "../../../tests");
const require = createRequire(path.join(tests, "package.json"));
export const { chromium } = require("playwright-core");
export const axePath = require.resolve("axe-core/axe.min.js");

export const launch = (more = []) =>
  chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream", ...more],
  });
