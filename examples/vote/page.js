// The page of a vote: the member chooses, the client kit asks the member's wallet for a proof with this
// choice, and the page hands both to the server.

import { qrCode } from "./qr.js";

const element = (id) => document.getElementById(id);
const TRIES = 5;
const PAUSE_MS = 1500;
const POLL_MS = 1000;

// Focus moves to what is said, because what had it before is hidden.
function say(message, isBad = false) {
  element("status").classList.toggle("bad", isBad);
  element("status").textContent = message;
  if (message) element("status").focus();
}

function row(choice, count) {
  const line = document.createElement("tr");
  const name = line.appendChild(document.createElement("th"));
  name.scope = "row";
  name.textContent = choice.text;
  line.appendChild(document.createElement("td")).textContent = count;
  return line;
}

function showResult({ choices, counts }) {
  element("form").hidden = true;
  element("result").hidden = false;
  element("rows").replaceChildren(...choices.map((choice) => row(choice, counts[choice.id])));
  element("total").textContent = choices.reduce((sum, choice) => sum + counts[choice.id], 0);
}

function showForm({ choices, closes }) {
  for (const { id, text } of choices) {
    const label = document.createElement("label");
    label.className = "choice";
    const input = label.appendChild(document.createElement("input"));
    Object.assign(input, { type: "radio", name: "choice", value: id, required: true });
    label.append(text);
    element("choices").append(label);
  }
  const end = new Date(closes).toLocaleString(undefined, { dateStyle: "full", timeStyle: "short" });
  element("until").textContent = `The vote is open until ${end}. The result is shown then.`;
  element("form").hidden = false;
}

// Hands a ballot in. When no answer comes, it sends the same one again: it counts once, however often
// the server gets it. Returns what to tell the member.
async function handIn(ballot) {
  for (let attempt = 1; ; attempt += 1) {
    let answer;
    let body;
    try {
      answer = await fetch("/ballots", {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(ballot),
      });
      body = await answer.json();
    } catch {
      // The connection broke, or a proxy answered in place of the server.
    }
    if (answer?.ok && body) return body.message;
    // An earlier attempt of this very ballot may be the vote that is in the box.
    if (body?.code === "already_voted" && attempt > 1) return "Your vote is in the box.";
    const isOfNow = !body || answer.status >= 500;
    if (!isOfNow) throw new Error(body.message);
    if (attempt === TRIES) throw new Error("The server does not answer. Your vote may not be counted: vote again in a minute, with the same choice.");
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
}

function draw(text) {
  const rows = qrCode(text);
  const path = rows.flatMap((row, y) => row.map((isDark, x) => (isDark ? `M${x} ${y}h1v1h-1z` : "")));
  element("code").setAttribute("viewBox", `0 0 ${rows.length} ${rows.length}`);
  element("code").firstElementChild.setAttribute("d", path.join(""));
}

function showAsking({ wallet_link, choices }, choice) {
  // The kit's links lead to the public wallet. What the wallet needs is behind the question mark.
  const uri = IDKitSession.getURI();
  const link = wallet_link ? `${wallet_link}${new URL(uri).search}` : uri;
  element("chosen").textContent = choices.find(({ id }) => id === choice).text;
  element("open").href = link;
  element("link").value = link;
  draw(link);
  element("form").hidden = true;
  element("asking").hidden = false;
  element("asking-title").focus();
}

function showChoices() {
  IDKitSession.destroy();
  element("asking").hidden = true;
  element("form").hidden = false;
}

// Waits for the wallet's answer. Returns the proof; nothing when the member went back.
async function answerOfWallet() {
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    if (!IDKitSession.isActive) return undefined;
    let status;
    try {
      status = await IDKitSession.pollStatus();
    } catch {
      // No network at this moment, or the member went back.
      continue;
    }
    if (status.state === "confirmed") return status.result;
    if (status.state === "failed") throw new Error(`Your wallet gave no proof (${status.errorCode}). You have not voted.`);
  }
}

async function voteFor(ballot, choice) {
  const { app_id, action, asked_as, bridge_url, question } = ballot;
  say("");
  element("button").disabled = true;
  try {
    const request = { app_id, action, bridge_url, action_description: question, verification_level: asked_as };
    // The proof is for this choice and no other one.
    await IDKitSession.create({ ...request, signal: choice }).catch(() => {
      throw new Error("This page cannot ask your wallet now. You have not voted: try again in a minute.");
    });
    showAsking(ballot, choice);
    const proof = await answerOfWallet();
    if (!proof) return;
    const { merkle_root, nullifier_hash, proof: points } = proof;
    const message = await handIn({ choice, proof: { merkle_root, nullifier_hash, proof: points } });
    showChoices();
    element("form").hidden = true;
    say(message);
  } catch (error) {
    showChoices();
    say(error.message, true);
  } finally {
    element("button").disabled = false;
  }
}

const ballot = await (await fetch("/ballot")).json();
element("question").textContent = ballot.question;
document.title = ballot.question;
if (ballot.is_closed) showResult(ballot);
else showForm(ballot);
element("form").addEventListener("submit", (event) => {
  event.preventDefault();
  voteFor(ballot, new FormData(element("form")).get("choice"));
});
element("cancel").addEventListener("click", () => {
  showChoices();
  element("button").disabled = false;
  element("button").focus();
});
element("copy").addEventListener("click", async () => {
  element("link").select();
  await navigator.clipboard.writeText(element("link").value);
});
