"use strict";

const main = document.querySelector("main");
const base = main.dataset.transaction;
const progress = document.getElementById("progress");
const countdown = document.getElementById("countdown");
const expires = Number(main.dataset.expires) * 1000;

// Without scripts the link is how one goes on; with them the page does it by itself.
document.getElementById("continue").hidden = true;

function end(text) {
  progress.textContent = text;
  clearInterval(ticking);
}

function tick() {
  const left = Math.max(0, Math.round((expires - Date.now()) / 1000));
  countdown.textContent = Math.floor(left / 60) + ":" + String(left % 60).padStart(2, "0") + " minutes";
}

const ticking = setInterval(tick, 1000);
tick();

// A moment before asking again, so that an answer that comes at once is not asked for without end.
const again = () => setTimeout(follow, 1000);

async function follow() {
  let answer;
  try {
    answer = await fetch(base + "/progress", { cache: "no-store" });
  } catch {
    // The connection broke; the transaction did not.
    return again();
  }
  // Anything but an end, an overload say, passes.
  if (!answer.ok && answer.status !== 404) return again();
  const state = answer.ok ? (await answer.json()).state : "over";
  if (state === "answered") {
    end("Thank you. Going back to the application.");
    location.assign(base + "/complete");
  } else if (state === "over") {
    end("This sign-in is over. Go back to the application to begin again.");
  } else {
    again();
  }
}

follow();
