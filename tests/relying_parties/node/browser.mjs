// Chromium, as every test of a page starts it. The variable CHROMIUM may name another program.

import { chromium } from "playwright-core";

// The browser makes no requests of its own, and runs for root too.
const ARGUMENTS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

export function startBrowser() {
  return chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ARGUMENTS });
}
