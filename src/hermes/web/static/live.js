// Keeps the page current: one stream per browser, and never a change under the reader's hands.
"use strict";
(() => {
  const RETRY_MS = [500, 1000, 2000, 5000, 10000];
  const SILENCE_MS = 40000; // the server gives a sign of life every 15 s
  const MAX_AGE_MS = 360000; // longer than the 5 min between two rounds of checks: each of them is shown anyway
  const LEAST_PAUSE_MS = 300, PAUSE_FACTOR = 5; // a page that is slow to make is asked for less often
  const body = document.body, main = document.getElementById("main");
  const prefixes = (body.dataset.live || "").split(" ").filter(Boolean);
  const byId = (id) => document.getElementById(id);
  let waiting = 0, refreshing = false, again = false, lastRefresh = 0, tookMs = 0;
  let lastSign = Date.now(), lastShown = Date.now();
  let position = Number(body.dataset.position) || 0, version = body.dataset.version;

  // Times
  const span = (s) => s < 60 ? `${s} s` : s < 3600 ? `${Math.floor(s / 60)} min`
    : s < 86400 ? `${Math.floor(s / 3600)} h${Math.floor(s / 60) % 60 ? ` ${Math.floor(s / 60) % 60} min` : ""}`
    : `${Math.floor(s / 86400)} d${Math.floor(s / 3600) % 24 ? ` ${Math.floor(s / 3600) % 24} h` : ""}`;
  const setText = (element, text) => { if (element.textContent !== text) element.textContent = text; };
  const showTimes = () => {
    for (const each of document.querySelectorAll("time[data-ago]")) {
      const s = Math.round((Date.now() - Date.parse(each.dateTime)) / 1000);
      setText(each, s < 0 ? `in ${span(-s)}` : `${span(s)} ago`);
    }
    for (const each of document.querySelectorAll("time[data-since]")) {
      setText(each, span(Math.max(0, Math.round((Date.now() - Date.parse(each.dateTime)) / 1000))));
    }
    for (const each of document.querySelectorAll("time[data-left]")) {
      const s = Math.max(0, Math.floor((Date.parse(each.dateTime) - Date.now()) / 1000));
      setText(each, s >= 3600 ? `${span(s)} left` : `${Math.floor(s / 60)}:${String(s % 60).padStart(2, "0")} left`);
    }
    if (Date.now() - lastSign > SILENCE_MS) show("lost");
    // What is shown may be out of date although nothing happened: a check that nobody runs any more.
    const age = Date.now() - Math.max(lastShown, lastRefresh);
    if (prefixes.length && !document.hidden && age > MAX_AGE_MS && !inUse()) schedule();
  };
  setInterval(showTimes, 1000);

  // State of the stream
  const show = (state) => {
    const shown = byId("stream");
    if (shown.dataset.state === state) return;
    shown.dataset.state = state;
    setText(byId("stream-text"), { live: "live", still: "connecting", lost: "not live" }[state]);
    const lost = state === "lost";
    if (lost) setText(byId("lost-since"), new Date(lastSign).toLocaleTimeString());
    byId("lost").hidden = !lost;
    body.classList.toggle("stale", lost);
  };

  // Showing the page anew
  const inUse = () => {
    const active = document.activeElement;
    if (active && main.contains(active) && active.matches("input:not([type=hidden]), textarea, select")) return true;
    if ([...main.querySelectorAll("textarea, input[type=text], input[type=search]")].some((e) => e.value !== e.defaultValue)) return true;
    const selection = getSelection();
    return !!selection && !selection.isCollapsed && main.contains(selection.anchorNode);
  };
  const typed = (node) => node.matches?.("textarea, input[type=text], input[type=search]") && node.value !== node.defaultValue;
  const callbacks = { beforeNodeMorphed: (node, fresh) => !typed(node) && !node.isEqualNode(fresh), beforeAttributeUpdated: (name, node) => !(name === "open" && node.matches("details, dialog")) };
  const morph = (from, to) => {
    if (from.id === "bar") to.querySelector("#stream")?.replaceWith(byId("stream").cloneNode(true));
    Idiomorph.morph(from, to, { callbacks, ignoreActiveValue: true });
  };
  const showPage = (html) => {
    const fresh = new DOMParser().parseFromString(html, "text/html");
    for (const id of ["main", "bar", "side", "bottom"]) {
      const from = byId(id), to = fresh.getElementById(id);
      if (from && to) morph(from, to);
    }
    document.title = fresh.title;
    version = fresh.body.dataset.version;
  };
  const parse = (html) => {
    const template = document.createElement("template"); // also takes a row without its table
    template.innerHTML = html;
    return template.content.firstElementChild;
  };
  const showPatch = (patch) => {
    const added = new Map();
    for (const id of patch.removed || []) byId(id)?.remove();
    for (const [id, html] of Object.entries(patch.replaced || {})) {
      const from = byId(id), to = parse(html);
      if (from) morph(from, to); else added.set(id, to);
    }
    for (const ids of patch.ordered || []) {
      const known = ids.map(byId).filter(Boolean);
      if (!known.length) continue;
      let next = known[0];
      while (next && ids.includes(next.id)) next = next.nextElementSibling;
      for (const id of ids.toReversed()) {
        const element = added.get(id) || byId(id);
        if (element.nextElementSibling !== next || !element.parentNode) known[0].parentNode.insertBefore(element, next);
        next = element;
      }
    }
    if (patch.title) document.title = patch.title;
    version = patch.to;
  };
  const shown = () => {
    lastShown = Date.now();
    showTimes();
    waiting = 0;
    byId("new-chip").hidden = true;
    main.dispatchEvent(new CustomEvent("refreshed"));
  };
  const refresh = async (forced = false) => {
    if (refreshing) { again = true; return; }
    if (!forced && inUse()) { showChip(); return; }
    refreshing = true;
    lastRefresh = Date.now();
    try {
      const answer = await fetch(location.href, { headers: { accept: "text/html", "x-page-version": version }, cache: "no-store" });
      const asPatch = answer.headers.get("content-type")?.startsWith("application/json");
      const fresh = asPatch ? await answer.json() : await answer.text();
      tookMs = Date.now() - lastRefresh;
      if (answer.status === 401) { location.reload(); return; }
      if (answer.ok) {
        if (!forced && inUse()) { showChip(); return; }
        if (asPatch && fresh.from !== version) again = true; // a newer patch came meanwhile
        else (asPatch ? showPatch : showPage)(fresh);
        shown();
      }
    } catch { /* the stream says that the connection is lost */ } finally {
      refreshing = false;
      if (again) { again = false; schedule(); }
    }
  };
  let timer = 0;
  const schedule = () => {
    if (timer) return;
    const pause = Math.max(0, lastRefresh + Math.max(LEAST_PAUSE_MS, PAUSE_FACTOR * tookMs) - Date.now());
    timer = setTimeout(() => { timer = 0; refresh(); }, pause);
  };
  const showChip = () => {
    const chip = byId("new-chip");
    chip.textContent = `${waiting} new`;
    chip.hidden = false;
  };
  byId("new-chip").addEventListener("click", () => refresh(true));
  const heard = (message) => {
    if (message.lost) { show("lost"); return; }
    lastSign = Date.now();
    show("live");
    if (!message.kinds || message.position <= position) return;
    position = message.position;
    const ours = message.kinds.filter((kind) => kind === "*" || prefixes.some((each) => kind.startsWith(each)));
    if (!ours.length) return;
    waiting += ours.length;
    const urgent = document.querySelector(".bar-alarm");
    const announce = byId("announce");
    announce.setAttribute("aria-live", urgent ? "assertive" : "polite");
    setText(announce, ours.some((kind) => kind.startsWith("incident.opened")) ? "A new incident" : "The page has changed");
    if (!message.patch) schedule();
    else if (inUse()) showChip();
    else if (refreshing || (message.patch.from && message.patch.from !== version)) schedule();
    else { showPatch(message.patch); shown(); }
  };

  // One stream per browser: the tab with the lock reads it and tells the others.
  const channel = "BroadcastChannel" in window ? new BroadcastChannel("hermes") : null;
  if (channel) channel.onmessage = (event) => {
    if (!event.data.ask) heard(event.data); // a new tab asks: it may have missed what was told before
    else if (source?.readyState === EventSource.OPEN) channel.postMessage({ kinds: ["*"], position });
  };
  const tell = ({ patch, ...message }) => { // the patch is for the page of this tab
    if (channel) channel.postMessage(message);
    heard({ patch, ...message });
  };
  let source = null, tries = 0;
  const close = () => { if (source) source.close(); source = null; };
  const open = () => {
    close();
    const page = encodeURIComponent(location.pathname + location.search);
    source = new EventSource(`/live?after=${position}&version=${version}&page=${page}`);
    body.dataset.stream = "own";
    source.onopen = () => { tries = 0; tell({}); };
    source.addEventListener("alive", () => tell({}));
    source.addEventListener("change", (event) => tell({ ...JSON.parse(event.data), position: Number(event.lastEventId) }));
    source.onerror = () => {
      tell({ lost: true });
      close();
      setTimeout(open, RETRY_MS[Math.min(tries++, RETRY_MS.length - 1)]);
      if (tries > 2) refresh();
    };
  };
  if (navigator.locks && channel) {
    byId("stream-text").textContent = "connecting";
    navigator.locks.request("hermes-stream", () => { open(); return new Promise(() => {}); });
    channel.postMessage({ ask: true });
  } else {
    const follow = () => (document.hidden ? close() : open());
    document.addEventListener("visibilitychange", follow);
    follow();
  }

  // Keys
  let prefix = 0;
  const rows = () => [...main.querySelectorAll("[data-row]")];
  const step = (by) => {
    const all = rows();
    if (!all.length) return;
    const at = all.findIndex((row) => row.contains(document.activeElement));
    const next = all[Math.min(all.length - 1, Math.max(0, at + by))];
    (next.matches("a, button") ? next : next.querySelector("a, button, summary") || next).focus();
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.matches("input, textarea, select")) { if (event.key === "Escape") event.target.blur(); return; }
    if (prefix && Date.now() - prefix < 1500) {
      prefix = 0;
      const link = [...document.querySelectorAll("#side a[data-key]")].find((each) => each.dataset.key === event.key);
      if (link) { event.preventDefault(); location.href = link.href; }
      return;
    }
    if (event.key === "g") prefix = Date.now();
    else if (event.key === "j") step(1);
    else if (event.key === "k") step(-1);
    else if (event.key === "?") byId("keys").showModal();
    else if (event.key === "/") {
      const search = main.querySelector("input[type=search], [data-filter]");
      if (search) { event.preventDefault(); search.focus(); }
    }
  });
  document.addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll("details.menu[open]")) if (!menu.contains(event.target)) menu.open = false;
  });
})();
