// The table of candidates: filtered, sorted, searched; of thousands of rows only those in sight are made.

const ROW = 30; // pixels, as in the style sheet

function makeTable(app) {
  let run = null, order = [], sort = { by: "node", down: false };
  const wanted = { status: "", text: "" };
  const columns = {
    node: ["node", (index) => index, (index) => String(index)],
    parent: ["parent", (index) => run.columns.parent[index], (index) => run.columns.parent[index] ?? ""],
    status: ["status", (index) => run.status(index), (index) => run.status(index)],
    value: ["value", (index) => run.value(index), (index) => (run.failed(index) ? "" : number(run.value(index)))],
    gain: ["gain", (index) => run.gain(index), (index) => (run.gain(index) === null ? "" : signed(run.gain(index)))],
    island: ["island", (index) => run.home(index), (index) => run.home(index) ?? ""],
    visits: ["visits", (index) => run.columns.visits[index], (index) => run.columns.visits[index]],
    wall: ["wall s", (index) => run.columns.wall_s[index], (index) => (run.columns.wall_s[index] === null ? "" : number(run.columns.wall_s[index], 3))],
    origin: ["who, and why it failed", (index) => run.origin(index), (index) => run.origin(index) + (run.failed(index) ? `: ${run.reason(index)}` : "")],
  };
  const status = element("select", { name: "status", "aria-label": "status", change: () => { wanted.status = status.value; arrange(); } });
  const search = element("input", { type: "search", name: "search", placeholder: "search names, causes and code (key /)", "aria-label": "search", input: () => { wanted.text = search.value; arrange(); } });
  const count = element("span", { class: "quiet", role: "status" });
  const head = element("tr"), body = element("tbody");
  const table = element("table", { class: "rows" }, element("thead", null, head), body);
  const scroller = element("div", { class: "scroller", tabindex: "0", scroll: () => draw() }, table);
  byId("rows").replaceChildren(element("div", { class: "bar" }, status, search, count), scroller);

  const shown = () => Object.keys(columns).filter((name) => (name !== "island" || run.block.islands) && (name !== "visits" || run.columns.visits));

  // The nodes with a text in their name, cause or program; programs are looked through by their distinct lines.
  function matching(text) {
    const small = text.toLowerCase();
    const has = (each) => each.toLowerCase().includes(small);
    const words = run.block.words.map(has);
    const lines = run.texts ? run.texts.lines.map(has) : [];
    const programs = run.texts ? run.texts.programs.map((program) => has(program.id) || program.lines.some((line) => lines[line])) : [];
    const { origin, reason, remark, program } = run.columns;
    return (index) => words[origin[index]] || words[reason[index]] || words[remark[index]] || programs[program[index]] || String(index) === text;
  }

  function arrange() {
    if (!run) return;
    const fits = wanted.text ? matching(wanted.text) : () => true;
    const failed = wanted.status === "failed", any = wanted.status === "";
    order = [];
    for (let index = 0; index < run.count; index += 1) {
      const status = run.status(index);
      const kind = any || status === wanted.status || (failed && run.failed(index)) || (wanted.status === "copy" && run.columns.twin_of[index] !== null);
      if (kind && fits(index)) order.push(index);
    }
    const key = columns[sort.by][1], way = sort.down ? -1 : 1;
    const keys = new Map(order.map((index) => [index, key(index)]));
    order.sort((one, other) => {
      const [a, b] = [keys.get(one), keys.get(other)];
      if (a === b) return one - other;
      if (a === null || a === undefined) return 1; // what is not known stands last, whichever way
      if (b === null || b === undefined) return -1;
      return (a < b ? -1 : 1) * way;
    });
    count.textContent = `${order.length.toLocaleString("en")} of ${run.count.toLocaleString("en")}`;
    head.replaceChildren(...shown().map((name) => element("th", { class: name, "aria-sort": sort.by === name ? (sort.down ? "descending" : "ascending") : "none" },
      element("button", { type: "button", click: () => { sort = { by: name, down: sort.by === name && !sort.down }; arrange(); } },
        name === "value" ? run.block.metric.name : columns[name][0], sort.by === name ? (sort.down ? " ↓" : " ↑") : ""))));
    draw();
  }

  function draw() {
    if (!run) return;
    const first = Math.max(0, Math.floor(scroller.scrollTop / ROW) - 8);
    const last = Math.min(order.length, first + Math.ceil((scroller.clientHeight || 400) / ROW) + 16);
    const names = shown();
    const gap = (count) => {
      const filler = element("tr", { class: "gap", "aria-hidden": "true" }, element("td", { colspan: String(names.length) }));
      filler.firstChild.style.height = `${count * ROW}px`;
      return filler;
    };
    const rows = order.slice(first, last).map((index, place) => element("tr", {
      class: [index === app.selected ? "selected" : "", run.failed(index) ? "bad" : "", index === run.best ? "best" : ""].join(" "),
      "aria-selected": String(index === app.selected), "aria-rowindex": String(first + place + 2),
      click: () => app.select(index),
    }, names.map((name) => element("td", { class: name }, String(columns[name][2](index))))));
    table.setAttribute("aria-rowcount", String(order.length + 1));
    body.replaceChildren(...(first ? [gap(first)] : []), ...rows, ...(last < order.length ? [gap(order.length - last)] : []));
  }

  scroller.addEventListener("keydown", (event) => {
    const way = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!way || !order.length) return;
    event.preventDefault();
    const place = order.indexOf(app.selected);
    const next = order[Math.max(0, Math.min(order.length - 1, place < 0 ? 0 : place + way))];
    app.select(next, { walk: true });
    const at = order.indexOf(next) * ROW;
    if (at < scroller.scrollTop) scroller.scrollTop = at;
    if (at > scroller.scrollTop + scroller.clientHeight - 2 * ROW) scroller.scrollTop = at - scroller.clientHeight + 2 * ROW;
  });

  return {
    load(next) {
      run = next;
      const before = wanted.status;
      const used = run.block.statuses.filter((_, place) => run.columns.status.includes(place));
      status.replaceChildren(...[["", "every status"], ["failed", "all that failed"], ["copy", "copies"], ...used.map((each) => [each, each])]
        .map(([value, label]) => element("option", { value, selected: value === before }, label)));
      arrange();
    },
    select: draw,
    filter({ status: kind, text }) {
      if (kind !== undefined) status.value = wanted.status = kind;
      if (text !== undefined) search.value = wanted.text = text;
      arrange();
      byId("table").scrollIntoView({ block: "start" });
    },
    focus() { search.focus(); },
    theme() {},
  };
}
