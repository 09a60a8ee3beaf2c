// Starts: opens the block, makes the panels, and keeps them at one selected candidate, which the address names.

const app = {
  run: null,
  selected: null,
  panels: [],
  each(name, ...given) { for (const panel of app.panels) if (panel[name]) panel[name](...given); },

  async load(block) {
    hide(block.hidden);
    const run = openRun(block);
    const chosen = app.selected;
    app.run = run;
    headerRows(block);
    if (!run.count) return;
    run.texts = await unpack(block.texts).catch(() => null);
    if (app.run !== run) return; // newer news came meanwhile
    app.selected = chosen !== null && chosen < run.count ? chosen : addressed(run) ?? run.best ?? 0;
    app.each("load", run);
  },

  // `walk`: by keys, step by step; only other choices are kept for the browser's way back.
  select(index, { walk = false } = {}) {
    if (!app.run || index === null || index < 0 || index >= app.run.count) return;
    app.selected = index;
    const address = `#node=${index}`;
    if (location.hash !== address) {
      if (walk) history.replaceState(null, "", address);
      else location.hash = address;
    }
    app.each("select", index);
  },
  step(by) { app.select(Math.max(0, Math.min(app.run.count - 1, app.selected + by)), { walk: true }); },
  toParent() { app.select(app.run.columns.parent[app.selected]); },
  toBest() { app.select(app.run.best); },
  filter(wanted) { app.each("filter", wanted); },
};

function addressed(run) {
  const found = /^#node=(\d{1,9})$/.exec(location.hash);
  return found && Number(found[1]) < run.count ? Number(found[1]) : null;
}

// The same rows that the page was built with, anew where a run goes on.
function headerRows(block) {
  const row = ({ label, text, note }, name) => element("div", { class: name },
    element("dt", null, label), element("dd", null, text, element("small", null, note)));
  byId("cards").replaceChildren(...block.header.filter((each) => each.card).map((each) => row(each, "card")));
  byId("facts").replaceChildren(...block.header.filter((each) => !each.card).map((each) => row(each, null)));
}

function theme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  recolour();
}

function recolour() {
  readPalette();
  app.each("theme");
}

const KEYS = {
  ArrowLeft: ["← →", "candidate before, candidate after", () => app.step(-1)],
  ArrowRight: [null, null, () => app.step(1)],
  p: ["p", "its parent", () => app.toParent()],
  b: ["b", "the best", () => app.toBest()],
  s: ["s", "the seed", () => app.select(0)],
  d: ["d", "program, from parent, from seed, seed to best", () => app.panels.forEach((panel) => panel.cycle && panel.cycle())],
  c: ["c", "fold or unfold the node in the tree", () => app.each("fold")],
  "/": ["/", "search the table", () => app.each("focus")],
  t: ["t", "dark or light", theme],
  "?": ["?", "these keys", keys],
};

function keys() {
  const list = byId("keys");
  list.hidden = !list.hidden;
  byId("help").setAttribute("aria-expanded", String(!list.hidden));
}

function listen() {
  byId("keys").replaceChildren(...Object.values(KEYS).filter(([key]) => key)
    .map(([key, words]) => element("div", null, element("dt", null, key), element("dd", null, words))));
  byId("theme").addEventListener("click", theme);
  byId("help").addEventListener("click", keys);
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest && event.target.closest("input, select, textarea");
    if (typing && event.key === "Escape") typing.blur();
    if (typing || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (!KEYS[event.key] || !app.run || !app.run.count) return;
    event.preventDefault();
    KEYS[event.key][2]();
  });
  addEventListener("hashchange", () => {
    const index = app.run && addressed(app.run);
    if (index !== null && index !== undefined && index !== app.selected) app.select(index);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
}

function start() {
  document.documentElement.classList.add("js");
  readPalette();
  app.panels = [makePlot(app), makeTree(app), makeIslands(app), makeInspector(app), makeCode(app), makeTable(app), makeSummaries(app)];
  listen();
  app.load(JSON.parse(byId("block").textContent));
  if (document.documentElement.dataset.mode === "live") follow(app);
}

start();
