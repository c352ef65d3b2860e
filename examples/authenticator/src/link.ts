// A link to a sign-in: where it leads, and how the wallet was reached with it.

/**
 * How the wallet was reached. `here`: by a link on the device of the browser that began the sign-in. `there`: by a code or
 * an address that came from another screen. `unsaid`: the link does not say it.
 */
export type Reached = "here" | "there" | "unsaid";

export interface Link {
  reached: Reached;
  /** The address of a proof request, or of the short page that names one. */
  address: string;
  isShort: boolean;
}

const REQUEST = /\/authorize\/[^/]+\/request\/*$/;
const SHORT = /\/s\/[a-z2-7]{16}\/*$/;

/** The addresses that a wallet's own link carries, such as selfsame://open?request=https%3A%2F%2F… */
function* carried(link: string): Generator<string> {
  for (const [address] of link.matchAll(/https?%3A%2F%2F[A-Za-z0-9._~%-]+/gi)) {
    try {
      yield decodeURIComponent(address);
    } catch {
      // Not an encoding.
    }
  }
}

function webUrl(text: string): URL | undefined {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  return url && ["http:", "https:"].includes(url.protocol) ? url : undefined;
}

/**
 * Reads a link that was opened, scanned or pasted. What stands behind the last `#` says how the wallet was reached: the
 * service writes it behind a link that may have a fragment of its own. Other fragments say nothing.
 */
export function readLink(link: string): Link {
  const said = link.endsWith("#here") ? "here" : link.endsWith("#there") ? "there" : undefined;
  // An authorization URL may carry an application's address that looks like a request's.
  const isAuthorization = /\/authorize\/*$/.test(webUrl(link)?.pathname ?? "");
  for (const text of isAuthorization ? [] : [link, ...carried(link)]) {
    const url = webUrl(text);
    if (!url || (!REQUEST.test(url.pathname) && !SHORT.test(url.pathname))) continue;
    const isShort = !REQUEST.test(url.pathname);
    url.hash = "";
    url.pathname = url.pathname.replace(/\/+$/, "");
    // A program that has the address of a short page read it from a screen.
    return { reached: said ?? (isShort ? "there" : "unsaid"), address: url.href, isShort };
  }
  throw new Error(`${link} is no link to a sign-in`);
}
