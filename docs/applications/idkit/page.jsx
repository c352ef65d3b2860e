// The page: asks for a proof of personhood with IDKit, and sends the result to the server.

import { IDKitRequestWidget, proofOfHuman } from "@worldcoin/idkit";
import { useState } from "react";
import { createRoot } from "react-dom/client";

async function post(path, body) {
  const answer = await fetch(path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  const { message, ...rest } = await answer.json();
  if (!answer.ok) throw new Error(message);
  return { message, ...rest };
}

function Page() {
  const [choice, setChoice] = useState("yes");
  const [request, setRequest] = useState(null);
  const [open, setOpen] = useState(false);
  const [outcome, setOutcome] = useState("");

  // A signature is good for one vote, so each attempt begins with a new one.
  async function begin() {
    setOutcome("");
    setRequest(await post("/request", {}));
    setOpen(true);
  }

  async function handleVerify(result) {
    try {
      setOutcome((await post("/vote", { choice, result })).message);
    } catch (error) {
      setOutcome(error.message);
      throw error;
    }
  }

  return (
    <main>
      <h1>Application</h1>
      <label>
        Your vote <input value={choice} onChange={(event) => setChoice(event.target.value)} />
      </label>{" "}
      <button onClick={() => begin().catch((error) => setOutcome(error.message))}>Vote</button>
      <p role="status">{outcome}</p>
      {request && (
        <IDKitRequestWidget
          {...request}
          allow_legacy_proofs={false}
          preset={proofOfHuman({ signal: choice })}
          open={open}
          onOpenChange={setOpen}
          handleVerify={handleVerify}
          onSuccess={() => setOpen(false)}
          onError={(code) => setOutcome((before) => before || `There is no proof: ${code}`)}
        />
      )}
    </main>
  );
}

createRoot(document.getElementById("page")).render(<Page />);
