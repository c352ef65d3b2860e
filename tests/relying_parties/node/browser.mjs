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
export const PATIENCE = 90_000;

// How long a browser's context may take to close, in milliseconds. Now and then Chromium does not
// answer that it has disposed of one; it goes with the browser.
const CLOSING = 10_000;

function within(milliseconds, promise) {
  let timer;
  const limit = new Promise((resolve) => (timer = setTimeout(resolve, milliseconds)));
  return Promise.race([promise, limit]).finally(() => clearTimeout(timer));
}

// Gives each of the browser's contexts these times.
export function withPatience(browser) {
  const newContext = browser.newContext.bind(browser);
  browser.newContext = async (options) => {
    const context = await newContext(options);
    context.setDefaultTimeout(PATIENCE);
    const close = context.close.bind(context);
    context.close = () => within(CLOSING, close());
    return context;
  };
  return browser;
}

// `further` are more arguments of the program.
export async function startBrowser(further = []) {
  const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
  return withPatience(await chromium.launch({ executablePath, args: [...ARGUMENTS, ...further], timeout: PATIENCE }));
}
