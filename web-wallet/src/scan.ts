/** Reads QR codes from the camera: by the browser itself where it can, else by `scan.js`. */

/** Interval of two looks, in milliseconds: a person holds a code for longer, and a phone stays cool. */
const PAUSE = 120;
/** Longer side of what is decoded, in pixels. */
const LARGEST = 1000;

type Reader = (video: HTMLVideoElement) => Promise<string | null>;

interface Detector {
  detect(source: HTMLVideoElement): Promise<{ rawValue: string }[]>;
}
interface DetectorClass {
  new (options: { formats: string[] }): Detector;
  getSupportedFormats(): Promise<string[]>;
}

/** The browser's own reader. Some have the class and no formats, so it is asked for them. */
async function ownReader(): Promise<Reader | null> {
  const { BarcodeDetector } = globalThis as unknown as { BarcodeDetector?: DetectorClass };
  try {
    if (!BarcodeDetector || !(await BarcodeDetector.getSupportedFormats()).includes("qr_code")) return null;
    const detector = new BarcodeDetector({ formats: ["qr_code"] });
    return async (video) => (await detector.detect(video))[0]?.rawValue ?? null;
  } catch {
    return null;
  }
}

async function loadedReader(): Promise<Reader> {
  const address = "/scan.js";
  const { decode } = (await import(address)) as typeof import("./decoder.ts");
  const canvas = document.createElement("canvas");
  const context = canvas.getContext("2d", { willReadFrequently: true });
  return async (video) => {
    const scale = Math.min(1, LARGEST / Math.max(video.videoWidth, video.videoHeight));
    [canvas.width, canvas.height] = [Math.round(video.videoWidth * scale), Math.round(video.videoHeight * scale)];
    if (!context || canvas.width === 0) return null;
    context.drawImage(video, 0, 0, canvas.width, canvas.height);
    return decode(context.getImageData(0, 0, canvas.width, canvas.height));
  };
}

/** Why there is no picture. */
export class CameraError extends Error {
  constructor(readonly code: "refused" | "none") {
    super(code);
  }
}

/**
 * Shows the camera in `video` and calls `found` with the text of each code that is seen, once, until `signal` aborts or
 * `found` answers true. `ready` is called when there is a picture.
 */
export async function scan(
  video: HTMLVideoElement,
  found: (text: string) => boolean | Promise<boolean>,
  ready: () => void,
  signal: AbortSignal,
): Promise<void> {
  if (!navigator.mediaDevices?.getUserMedia) throw new CameraError("none");
  let stream: MediaStream;
  try {
    stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment", width: { ideal: 1280 } } });
  } catch (error) {
    const refused = error instanceof DOMException && (error.name === "NotAllowedError" || error.name === "SecurityError");
    throw new CameraError(refused ? "refused" : "none");
  }
  const stop = (): void => {
    for (const track of stream.getTracks()) track.stop();
    video.srcObject = null;
  };
  try {
    if (signal.aborted) return;
    signal.addEventListener("abort", stop);
    video.srcObject = stream;
    await video.play();
    const read = (await ownReader()) ?? (await loadedReader());
    if (signal.aborted) return;
    ready();
    let last = "";
    while (!signal.aborted) {
      // A frame that cannot be read is like one without a code.
      const text = document.hidden ? null : await read(video).catch(() => null);
      if (text && text !== last && !signal.aborted) {
        last = text;
        if (await found(text)) return;
      }
      await new Promise((go) => setTimeout(go, PAUSE));
    }
  } catch (error) {
    // Taking the picture away makes `play` fail.
    if (!signal.aborted) throw error;
  } finally {
    stop();
  }
}
