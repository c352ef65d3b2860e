/** The pages with the vault that plays, in place of `src/app.ts`. `?update` shows the note about a new version. */
import { offerUpdate, start } from "../../src/start.ts";
import { LANGUAGES } from "../../src/words.ts";
import { fakeVault, type Scenario } from "./fake-vault.ts";

const here = globalThis as typeof globalThis & { scenario?: Scenario; played?: { calls: string[] }; ready?: boolean };
if (location.search.includes("lang=rtl")) LANGUAGES["rtl"] = "Right to left";
const vault = fakeVault(here.scenario ?? {});
here.played = vault;
await start(vault);
if (new URLSearchParams(location.search).has("update")) offerUpdate(() => location.reload());
here.ready = true;
