"use strict";

const button = document.getElementById("copy");
const address = document.getElementById("address");
const status_ = document.getElementById("copy-status");

// In browsers that run no scripts the person copies the text by hand.
button.hidden = false;

button.addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText(address.textContent);
    status_.textContent = button.dataset.copied;
  } catch {
    // The browser has no clipboard for this page, or the person did not allow it.
    getSelection().selectAllChildren(address);
    status_.textContent = button.dataset.failed;
  }
});
