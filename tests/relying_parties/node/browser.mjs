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

// How long a page may take for anything, in milliseconds: longer than a busy machine needs.
const PATIENCE = 90_000;

export async function startBrowser() {
  const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
  const browser = await chromium.launch({ executablePath, args: ARGUMENTS, timeout: PATIENCE });
  const newContext = browser.newContext.bind(browser);
  browser.newContext = async (options) => {
    const context = await newContext(options);
    context.setDefaultTimeout(PATIENCE);
    return context;
  };
  return browser;
}
