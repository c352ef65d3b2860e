// A page of an application with the React widget of the client kit, as its documentation shows it.

import { IDKitRequestWidget, orbLegacy, proofOfHuman } from "@worldcoin/idkit";
import { useState } from "react";
import { createRoot } from "react-dom/client";

const presets = { orbLegacy, proofOfHuman };

function Page({ preset, config }) {
  const [open, setOpen] = useState(false);
  const [outcome, setOutcome] = useState("");

  async function handleVerify(result) {
    const answer = await fetch("/verify", { method: "POST", body: JSON.stringify(result) });
    const verdict = await answer.json();
    if (!answer.ok) throw new Error(verdict.code);
    setOutcome(`verified ${verdict.protocol_version}`);
  }

  return (
    <main>
      <button onClick={() => setOpen(true)}>Verify</button>
      <p id="outcome">{outcome}</p>
      <IDKitRequestWidget
        {...config}
        preset={presets[preset]({ signal: "user-1" })}
        open={open}
        onOpenChange={setOpen}
        handleVerify={handleVerify}
        onSuccess={() => {}}
        onError={(code) => setOutcome(`error ${code}`)}
      />
    </main>
  );
}

const preset = new URLSearchParams(location.search).get("preset");
const config = await (await fetch(`/config?preset=${preset}`)).json();
createRoot(document.body.appendChild(document.createElement("div"))).render(<Page preset={preset} config={config} />);
