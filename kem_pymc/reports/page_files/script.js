"use strict";
(() => {
  const tip = document.getElementById("tip");
  const targets = document.querySelectorAll("[data-tip]");
  let shown = null;

  function place(left, top) {
    const room = document.documentElement.clientWidth;
    const box = tip.getBoundingClientRect();
    const x = Math.max(8, Math.min(left, room - box.width - 8));
    const above = top - box.height - 14;
    tip.style.left = `${x + window.scrollX}px`;
    tip.style.top = `${(above < 8 ? top + 18 : above) + window.scrollY}px`;
  }
  function show(target, left, top) {
    if (shown !== target) {
      tip.textContent = target.dataset.tip;
      tip.hidden = false;
      shown = target;
    }
    place(left, top);
  }
  function hide() {
    tip.hidden = true;
    shown = null;
  }
  for (const target of targets) {
    target.addEventListener("pointermove", (e) => show(target, e.clientX + 12, e.clientY));
    target.addEventListener("pointerleave", hide);
    target.addEventListener("focus", () => {
      if (!target.matches(":focus-visible")) return;
      const box = target.getBoundingClientRect();
      show(target, box.left, box.top < 90 ? box.bottom : box.top);
    });
    target.addEventListener("blur", hide);
    target.addEventListener("keydown", (e) => {
      if (e.key === " ") {
        e.preventDefault();
        location.hash = target.getAttribute("href");
        open();
      }
    });
  }
  document.addEventListener("keydown", (e) => {
    if (e.key === "Escape") hide();
  });

  // Open the target of a link, and close compositions opened before.
  function open() {
    const id = decodeURIComponent(location.hash.slice(1));
    const found = id && document.getElementById(id);
    for (const on of document.querySelectorAll(".graph a.on, .marked")) on.classList.remove("on", "marked");
    if (!found) return;
    hide();
    const kernel = found.closest("details.kernel");
    if (kernel) {
      for (const other of document.querySelectorAll("details.kernel[open]")) if (other !== kernel) other.open = false;
    }
    for (let at = found; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    if (found.classList.contains("step")) found.classList.add("marked");
    for (const a of document.querySelectorAll(`.graph a[href="#${CSS.escape(id)}"]`)) a.classList.add("on");
    found.scrollIntoView();
    const focus = found.tagName === "DETAILS" ? found.querySelector("summary") : found;
    if (focus.tabIndex >= 0 || focus.hasAttribute("tabindex")) focus.focus({ preventScroll: true });
  }
  window.addEventListener("hashchange", open);
  document.addEventListener("click", (e) => {
    const link = e.target.closest?.('a[href^="#"]');
    if (link && link.getAttribute("href") === location.hash) {
      e.preventDefault();
      open();
    }
  });
  for (const kernel of document.querySelectorAll("details.kernel")) kernel.open = false;
  let closed = [];
  window.addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")];
    for (const one of closed) one.open = true;
  });
  window.addEventListener("afterprint", () => {
    for (const one of closed) one.open = false;
  });
  open();
})();
