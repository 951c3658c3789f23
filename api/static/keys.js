// Keys of the review: j/k move, Enter opens, c claims, a approves, r rejects, ? shows them all. Never while typing.
export function reviewKeys() {
  const help = document.querySelector(".keys");
  if (!help) return;
  help.hidden = false;
  const places = [...document.querySelectorAll("[data-queue] tbody tr, .patch")];
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || event.target.closest("dialog")) return;
    const act = { j: () => move(places, 1), k: () => move(places, -1), "?": () => document.getElementById("keys-help").showModal() }[event.key];
    if (act) { act(); event.preventDefault(); } else if (press(event.key)) event.preventDefault();
  });
}

function isTyping(element) {
  return ["INPUT", "TEXTAREA", "SELECT"].includes(element.tagName) || element.isContentEditable;
}

function move(places, step) {
  const now = places.findIndex((place) => place.classList.contains("here"));
  const next = places[Math.max(0, Math.min(places.length - 1, now + step))];
  if (!next) return;
  places[now]?.classList.remove("here");
  next.classList.add("here");
  next.scrollIntoView({ block: "nearest" });
  next.querySelector("a, summary")?.focus({ preventScroll: true });
}

// A decision still needs its reason: the key goes there first, and sends only what is filled in.
function press(key) {
  const button = [...document.querySelectorAll("[data-key]")].find((element) => element.dataset.key === key);
  if (!button) return false;
  const reason = button.form.querySelector("textarea[required]");
  if (reason && !button.formNoValidate && !reason.value.trim()) reason.focus();
  else button.click();
  return true;
}
