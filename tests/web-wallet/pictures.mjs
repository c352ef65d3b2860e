// Makes a picture of every page of the wallet in each of its states, on two phones and on a desktop, light and
// dark: `DAEMON=… node pictures.mjs FOLDER [LANGUAGE]`. With `--documents FOLDER` only those of
// docs/web-wallet.md, on a phone.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { startBrowser } from "../relying_parties/node/browser.mjs";
import { newDevice } from "./devices.mjs";
import { startService } from "./service.mjs";
import { tour } from "./tour.mjs";
import { speak } from "./walks.mjs";

const SIZES = ["360x640", "390x844", "1440x900"];
// States with a picture in the document, and its name there.
const IN_DOCUMENTS = { join: "join", "sign-in-here": "sign-in", digits: "digits" };

const words = process.argv.slice(2);
const isForDocuments = words[0] === "--documents";
const [folder, language = "en"] = isForDocuments ? words.slice(1) : words;
if (!folder) throw new Error("name the folder for the pictures");
mkdirSync(folder, { recursive: true });
speak(language);

// Chromium writes WebP in DevTools alone.
async function picture(page, path, format, options) {
  const devtools = await page.context().newCDPSession(page);
  const { data } = await devtools.send("Page.captureScreenshot", { format, ...options });
  writeFileSync(`${path}.${format}`, Buffer.from(data, "base64"));
}

async function see(name, page) {
  const { viewport } = { viewport: page.viewportSize() };
  if (isForDocuments && !IN_DOCUMENTS[name]) return;
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    if (isForDocuments) {
      await page.setViewportSize({ width: 360, height: 640 });
      await picture(page, join(folder, `${IN_DOCUMENTS[name]}-${colorScheme}`), "webp", { quality: 85 });
      continue;
    }
    for (const size of SIZES) {
      const [width, height] = size.split("x").map(Number);
      await page.setViewportSize({ width, height });
      await page.screenshot({ path: join(folder, `${name}-${size}-${colorScheme}.png`), fullPage: false });
    }
  }
  await page.setViewportSize(viewport);
  await page.emulateMedia({ colorScheme: "light" });
}

const service = await startService();
const browser = await startBrowser();
try {
  // No touch screen and no phone's viewport, so that a page takes each size in turn.
  const device = (options) => newDevice(browser, service, { isMobile: false, hasTouch: false, deviceScaleFactor: isForDocuments ? 2 : 1, locale: language, reducedMotion: "reduce", ...options });
  await tour({ service, device }, see, { problems: !isForDocuments });
} finally {
  await browser.close();
  await service.stop();
}
