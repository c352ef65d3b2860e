// One service and one browser for the tests of a file, and devices that are gone after each test.

import { after, before, test } from "node:test";

import { startBrowser } from "../relying_parties/node/browser.mjs";
import { newDevice } from "./devices.mjs";
import { PATIENCE, startService } from "./service.mjs";

// The variable LONG=1 also runs what the gate has no time for.
const isLong = process.env.LONG === "1";

// `options` are those of `startService`; with `isLong` the file is for long runs only.
export function newScene(options = {}) {
  const scene = { service: undefined, browser: undefined };
  let devices = [];
  let unusual = false;

  before(async () => {
    if (options.isLong && !isLong) return;
    [scene.service, scene.browser] = await Promise.all([startService(options), startBrowser()]);
  });
  after(async () => {
    await scene.browser?.close();
    await scene.service?.stop();
  });

  // A device with options of `newDevice`, in the scene's browser or in `browser`.
  scene.device = async ({ browser = scene.browser, ...more } = {}) => {
    devices.push(await newDevice(browser, scene.service, more));
    return devices.at(-1);
  };
  // A test. No page of its devices may have had an error, or have called another origin.
  scene.walk = (name, scenario, patience = 4 * PATIENCE) => {
    if (options.isLong && !isLong) return test.skip(name);
    return test(name, { timeout: patience }, async () => {
      [devices, unusual] = [[], false];
      try {
        await scenario();
        if (!unusual) for (const device of devices) device.assertClean();
      } finally {
        for (const device of devices) await device.close();
      }
    });
  };
  // In this test errors in the console belong to the matter.
  scene.allowErrors = () => (unusual = true);
  return scene;
}
