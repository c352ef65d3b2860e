/** What all pages share: the vault, the service, and the way from one page to another. */
import type { Service, Vault } from "./vault.ts";

let theVault: Vault;
let theService: Service;
let route: () => unknown = () => undefined;

export const vault = (): Vault => theVault;
export const service = (): Service => theService;

export function setContext(vault: Vault, service: Service, router: () => unknown): void {
  [theVault, theService, route] = [vault, service, router];
}

/** Goes to a page of the wallet. `replace` leaves no way back to the present one. */
export function go(path: string, replace = false): void {
  if (replace) history.replaceState(null, "", path);
  else history.pushState(null, "", path);
  void route();
}

/** Takes a link's code out of the address, once it is used up. The page stays. */
export function forgetAddress(): void {
  history.replaceState(null, "", "/");
}

/** Who runs the service: the operator's name, else the host. */
export const operator = (): string => theService.operator ?? location.host;

/** Origin of the issuer; sign-in goes back to it alone. */
export const issuerOrigin = (): string => new URL(theService.issuer).origin;

/** What is to be done once memberships were brought here. Kept in memory only. */
let afterwards: (() => unknown) | null = null;

export function laterOn(what: (() => unknown) | null): void {
  afterwards = what;
}

export function takeLater(): (() => unknown) | null {
  const what = afterwards;
  afterwards = null;
  return what;
}

const isInstalled = (): boolean =>
  (navigator as { standalone?: boolean }).standalone === true || matchMedia("(display-mode: standalone)").matches;

/**
 * Whether the page is shown inside another app: such a view has no passkeys of its own, and its storage goes with the
 * app. Apps say so in their user agents in various ways.
 */
export function insideApp(agent: string = navigator.userAgent): boolean {
  // Installed on the home screen of an iPhone, the page has the same user agent as inside an app.
  if (isInstalled()) return false;
  if (/FBAN|FBAV|FB_IAB|Instagram|Line\/|MicroMessenger|Twitter|LinkedInApp|Snapchat|Pinterest|BytedanceWebview|musical_ly|GSA\//.test(agent)) {
    return true;
  }
  if (/Android.*; wv\)/.test(agent)) return true;
  // On an iPhone every browser names itself behind "Mobile/…"; a view inside an app does not.
  return /iPhone|iPad|iPod/.test(agent) && /AppleWebKit/.test(agent) && !/(Safari|CriOS|FxiOS|EdgiOS|OPiOS|DuckDuckGo)\//.test(agent);
}
