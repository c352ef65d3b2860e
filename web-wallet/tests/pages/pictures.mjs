// Draws each state of the pages, as people meet it on a small phone, a phone and a computer, light and dark.
//
//   node pictures.mjs OUT [PART OF A NAME] [LANGUAGE]
import fs from "node:fs";
import path from "node:path";
import { launch } from "./browser.mjs";
import { serve } from "./serve.mjs";
import { STATES, open } from "./states.mjs";

const [, , out, part = "", language] = process.argv;
const SCREENS = { small: [360, 640], phone: [390, 844], wide: [1440, 900] };
fs.mkdirSync(out, { recursive: true });
const site = await serve();
const browser = await launch();
for (const state of STATES.filter(({ name }) => name.includes(part))) {
  for (const colorScheme of ["light", "dark"]) {
    try {
      const { page, close } = await open(browser, site.origin, state, { colorScheme, reducedMotion: "reduce", ...(language ? { language } : {}) });
      for (const [screen, [width, height]] of Object.entries(SCREENS)) {
        await page.setViewportSize({ width, height });
        await page.screenshot({ path: path.join(out, `${state.name}-${screen}-${colorScheme}.png`), fullPage: screen !== "wide" });
      }
      await close();
    } catch (error) {
      console.error(state.name, String(error).split("\n")[0]);
    }
  }
}
await browser.close();
site.close();
