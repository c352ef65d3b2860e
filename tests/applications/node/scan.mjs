// The text of a QR code on the screen.

import { readFile } from "node:fs/promises";

import { prepareZXingModule, readBarcodes } from "zxing-wasm/reader";

// The reader would otherwise fetch its WASM from a server.
const wasmBinary = await readFile(new URL(import.meta.resolve("zxing-wasm/reader/zxing_reader.wasm")));
prepareZXingModule({ overrides: { wasmBinary }, fireImmediately: true });

// Returns the text of the page's code, once there is one.
export async function scan(page) {
  for (;;) {
    const codes = await readBarcodes(new Blob([await page.screenshot()]), { formats: ["QRCode"] });
    const found = codes.find((code) => /^https?:/.test(code.text));
    if (found) return found.text;
  }
}
