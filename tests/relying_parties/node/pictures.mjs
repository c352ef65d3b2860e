// Makes a picture of every page that end users see at sign-in, on a phone and on a desktop, light
// and dark: `DAEMON=… node pictures.mjs FOLDER [LANGUAGE]`.

import { mkdirSync } from "node:fs";
import { join } from "node:path";

import { startBrowser } from "./browser.mjs";
import { start } from "./daemon.mjs";
import { everyPage, signIn, startLimited, startNamed } from "./pages.mjs";

const DEVICES = {
  phone: { viewport: { width: 375, height: 667 }, hasTouch: true, isMobile: true, deviceScaleFactor: 2 },
  desktop: { viewport: { width: 1280, height: 800 } },
};

const [folder, locale = "en"] = process.argv.slice(2);
if (!folder) throw new Error("name the folder for the pictures");
mkdirSync(folder, { recursive: true });

const daemons = { plain: await start(), named: await startNamed(), limited: await startLimited() };
const browser = await startBrowser();
try {
  const pages = everyPage({ ...daemons, signedIn: await signIn(browser, daemons.plain) });
  for (const [name, open] of Object.entries(pages)) {
    for (const [device, options] of Object.entries(DEVICES)) {
      for (const colorScheme of ["light", "dark"]) {
        const context = await browser.newContext({ ...options, colorScheme, locale, reducedMotion: "reduce" });
        const page = await context.newPage();
        await open(page);
        await page.waitForLoadState("load");
        await page.screenshot({ path: join(folder, `${name}-${device}-${colorScheme}.png`) });
        await context.close();
      }
    }
  }
} finally {
  await browser.close();
  for (const daemon of Object.values(daemons)) await daemon.stop();
}
