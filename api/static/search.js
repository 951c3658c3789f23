// The list follows what is typed; the address too, so that it can be shared and reloaded.
import { replaceFrom } from "./fragments.js";

const PAUSE_MS = 180;

export function searchAsYouType() {
  const form = document.querySelector("form[data-search]");
  if (!form) return;
  let timer, running;
  const show = () => {
    running?.abort();
    running = new AbortController();
    const address = addressOf(form);
    replaceFrom(address, [form.dataset.search], running.signal)
      .then((done) => done && history.replaceState(null, "", address))
      .catch(() => {});
  };
  form.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(show, PAUSE_MS); });
}

function addressOf(form) {
  const fields = [...new FormData(form)].filter(([, value]) => value !== "");
  const query = new URLSearchParams(fields).toString();
  return form.getAttribute("action") + (query ? `?${query}` : "");
}
