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

function show({ state, opened, same_device }) {
  if (state === "answered" && same_device) {
    // The response is given out only at the address that the authenticator opens.
    end("Thank you. Your authenticator opens the way back to the application.");
  } else if (state === "answered") {
    end("Thank you. Going back to the application.");
    // In this page's place: going back leads to the application, and not into a request that was answered.
    location.replace(base + "/complete");
  } else if (state === "over") {
    end("This sign-in is over. Go back to the application to begin again.");
  } else if (opened) {
    progress.textContent = "An authenticator has opened this request. Waiting for your answer there.";
  }
  return state !== "waiting";
}

// Where events do not come through: asking. A moment before each time, so that an answer that comes at once is not asked for
// without end.
const again = (seconds = 1) => setTimeout(ask, seconds * 1000);

async function ask() {
  let answer;
  try {
    answer = await fetch(base + "/progress", { cache: "no-store" });
  } catch {
    // The connection broke; the transaction did not.
    return again();
  }
  // Anything but an end, an overload say, passes.
  if (!answer.ok && answer.status !== 404) return again(Number(answer.headers.get("retry-after")) || 1);
  const event = answer.ok ? await answer.json() : { state: "over" };
  if (!show(event)) again();
}

function follow() {
  if (!window.EventSource) return ask();
  const events = new EventSource(base + "/events");
  events.onmessage = (event) => {
    if (show(JSON.parse(event.data))) events.close();
  };
  events.onerror = () => {
    // The browser tries again by itself as long as it may; when it gives up, we ask.
    if (events.readyState === EventSource.CLOSED) ask();
  };
}

follow();
