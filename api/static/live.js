// Elements with data-live (milliseconds) and an id are loaded again while they are visible and still ask for it.
import { replaceFrom } from "./fragments.js";

export function keepLive() {
  const wanted = [...document.querySelectorAll("[data-live]")];
  if (wanted.length === 0) return;
  const every = Math.min(...wanted.map((element) => Number(element.dataset.live)));
  setTimeout(refresh, every, wanted.map((element) => element.id));
}

async function refresh(ids) {
  const busy = ids.some((id) => document.getElementById(id)?.contains(document.activeElement));
  if (!document.hidden && !busy) {
    try { await replaceFrom(location.href, ids); } catch { /* the next turn tries again */ }
  }
  keepLive();
}
