// Makes a picture of every page that end users see at sign-in, in each of its states, on two phones
// and on a desktop, light and dark: `DAEMON=… node pictures.mjs FOLDER [LANGUAGE]`.

import { mkdirSync } from "node:fs";
import { join } from "node:path";

import { startBrowser } from "./browser.mjs";
import { everyPage, everySignIn, startAttaching, startLimited, startNamed, startPlain } from "./pages.mjs";

const phone = { hasTouch: true, isMobile: true, deviceScaleFactor: 2 };
const DEVICES = {
  "360x640": { ...phone, viewport: { width: 360, height: 640 } },
  "390x844": { ...phone, viewport: { width: 390, height: 844 } },
  "1440x900": { viewport: { width: 1440, height: 900 } },
};

const [folder, locale = "en"] = process.argv.slice(2);
if (!folder) throw new Error("name the folder for the pictures");
mkdirSync(folder, { recursive: true });

const daemons = { plain: await startPlain(), named: await startNamed(), limited: await startLimited() };
const browser = await startBrowser();
try {
  daemons.attaching = await startAttaching(browser, true);
  const pages = everyPage({ ...daemons, signIns: await everySignIn(browser, daemons) });
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
