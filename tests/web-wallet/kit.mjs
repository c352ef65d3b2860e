// A page of an application with the published client kit (@worldcoin/idkit-standalone), unmodified: it asks for
// a proof over the message bridge, and the daemon verifies what comes.

import { fileURLToPath } from "node:url";

import { build } from "esbuild";

import { ACTION, VOTE_APP } from "./service.mjs";

const SOURCE = (request) => `
import "@worldcoin/idkit-standalone";
const outcome = document.body.appendChild(document.createElement("p"));
outcome.id = "outcome";
const button = document.body.appendChild(document.createElement("button"));
button.textContent = "Vote";
window.IDKit.init({
  ...${JSON.stringify(request)},
  handleVerify: async (result) => {
    const answer = await fetch("/verify", { method: "POST", body: JSON.stringify(result) });
    const verdict = await answer.json();
    if (!verdict.success) throw new Error(verdict.code);
    outcome.textContent = "verified";
  },
  onSuccess: () => {},
  onError: (error) => (outcome.textContent = "error " + error.code),
});
button.addEventListener("click", () => window.IDKit.open());
`;

// Adds the page to the service's application. Returns its address. `request` changes what is asked.
export async function addKitPage(service, path, request = {}) {
  const asked = { app_id: VOTE_APP, bridge_url: service.urls.bridge, action: ACTION, signal: "yes", verification_level: "device", ...request };
  const folder = fileURLToPath(new URL("..", import.meta.url));
  const options = { bundle: true, format: "esm", write: false, logLevel: "silent" };
  const { outputFiles } = await build({ stdin: { contents: SOURCE(asked), resolveDir: folder, loader: "js" }, ...options });
  service.application.pages[path] = `<script type="module">${outputFiles[0].text.replaceAll("</script", "<\\/script")}</script>`;
  service.application.verifying = asked;
  return service.application.url + path;
}
