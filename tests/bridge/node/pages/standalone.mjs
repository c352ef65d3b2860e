// A page of an application without a framework, with the standalone client kit.

import "@worldcoin/idkit-standalone";

const outcome = document.body.appendChild(document.createElement("p"));
outcome.id = "outcome";
const button = document.body.appendChild(document.createElement("button"));
button.textContent = "Verify";

const { app_id, bridge_url } = await (await fetch("/config?preset=standalone")).json();
window.IDKit.init({
  app_id,
  bridge_url,
  action: "standalone",
  signal: "user-1",
  verification_level: "orb",
  handleVerify: async (result) => {
    const answer = await fetch("/verify-cloud-proof", { method: "POST", body: JSON.stringify(result) });
    const verdict = await answer.json();
    if (!verdict.success) throw new Error(verdict.code);
    outcome.textContent = "verified";
  },
  onSuccess: () => {},
  onError: (error) => (outcome.textContent = `error ${error.code}`),
});
button.addEventListener("click", () => window.IDKit.open());
