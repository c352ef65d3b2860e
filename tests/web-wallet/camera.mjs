// A camera that sees a QR code: the picture of another screen or of a letter, in the file that Chromium takes
// for its camera.

import { readFile } from "node:fs/promises";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { prepareZXingModule, writeBarcode } from "zxing-wasm/writer";

import { startBrowser } from "../relying_parties/node/browser.mjs";

// The writer would otherwise fetch its WASM from a server.
const wasmBinary = await readFile(new URL(import.meta.resolve("zxing-wasm/writer/zxing_writer.wasm")));
prepareZXingModule({ overrides: { wasmBinary }, fireImmediately: true });

const [WIDTH, HEIGHT] = [1280, 720];

// A frame that has the code in its middle, on a grey table, as gray values.
async function frame(text) {
  const { symbol } = await writeBarcode(text, { format: "QRCode", ecLevel: "M" });
  const scale = Math.floor((HEIGHT * 0.75) / (symbol.width + 8));
  const side = (symbol.width + 8) * scale;
  const [left, top] = [Math.floor((WIDTH - side) / 2), Math.floor((HEIGHT - side) / 2)];
  const pixels = Buffer.alloc(WIDTH * HEIGHT, 120);
  for (let y = 0; y < side; y += 1) {
    for (let x = 0; x < side; x += 1) {
      const [column, row] = [Math.floor(x / scale) - 4, Math.floor(y / scale) - 4];
      const isInside = column >= 0 && row >= 0 && column < symbol.width && row < symbol.height;
      const isDark = isInside && symbol.data[row * symbol.width + column] === 0;
      pixels[(top + y) * WIDTH + left + x] = isDark ? 25 : 235;
    }
  }
  return pixels;
}

// A browser with a camera. `see` changes what the camera sees when it is started next; null is a table without a code.
export async function startBrowserWithCamera() {
  const folder = mkdtempSync(join(tmpdir(), "selfsame-camera-"));
  const file = join(folder, "camera.y4m");
  const see = async (text) => {
    const luma = text === null ? Buffer.alloc(WIDTH * HEIGHT, 120) : await frame(text);
    const one = Buffer.concat([Buffer.from("FRAME\n"), luma, Buffer.alloc((WIDTH * HEIGHT) / 2, 128)]);
    writeFileSync(file, Buffer.concat([Buffer.from(`YUV4MPEG2 W${WIDTH} H${HEIGHT} F10:1 Ip A1:1 C420mpeg2\n`), ...Array(5).fill(one)]));
  };
  await see(null);
  const browser = await startBrowser(["--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream", `--use-file-for-fake-video-capture=${file}`]);
  return {
    browser,
    see,
    async close() {
      await browser.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
