/** Reads QR codes where the browser cannot. A file of its own, which is loaded when a person scans. */
import decodeQR from "qr/decode.js";

/** The text of a code in a picture, or null when there is none. */
export function decode(picture: ImageData): string | null {
  try {
    return decodeQR(picture);
  } catch {
    return null;
  }
}
