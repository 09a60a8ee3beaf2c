// Code: a program, or what differs between two; coloured as Python, line by line.

const PYTHON = new RegExp([
  /(?<comment>#.*)/,
  /(?:\b[rbfuRBFU]{1,2})?(?<triple>"""|''')/,
  /(?<string>(?:\b[rbfuRBFU]{1,2})?(?:"(?:\\.|[^"\\])*"?|'(?:\\.|[^'\\])*'?))/,
  /(?<keyword>\b(?:False|None|True|and|as|assert|async|await|break|class|continue|def|del|elif|else|except|finally|for|from|global|if|import|in|is|lambda|nonlocal|not|or|pass|raise|return|try|while|with|yield)\b)/,
  /(?<digits>\b(?:0[xXbBoO][\da-fA-F_]+|\d[\d_]*\.?[\d_]*(?:[eE][+-]?\d+)?)\b)/,
].map((each) => each.source).join("|"), "g");

// The lines of a program, each as [[kind, text], ...]; a string may reach over several of them.
function pieces(lines) {
  let open = null;
  return lines.map((line) => {
    const parts = [];
    let at = 0;
    while (at < line.length) {
      if (open) {
        const end = line.indexOf(open, at), to = end < 0 ? line.length : end + 3;
        parts.push(["string", line.slice(at, to)]);
        if (end >= 0) open = null;
        at = to;
        continue;
      }
      PYTHON.lastIndex = at;
      const found = PYTHON.exec(line);
      if (!found) { parts.push(["", line.slice(at)]); break; }
      parts.push(["", line.slice(at, found.index)]);
      const [kind, text] = Object.entries(found.groups).find(([, matched]) => matched !== undefined);
      if (kind === "triple") open = text;
      parts.push([kind === "triple" ? "string" : kind, found[0]]);
      at = found.index + found[0].length;
    }
    return parts;
  });
}

function coloured(parts) {
  const made = element("code");
  for (const [kind, text] of parts) kind ? made.append(say(element("span", { class: `py-${kind}` }), text)) : say(made, text);
  return made;
}

function makeCode(app) {
  let run = null, what = "parent", how = "unified", shown = "";
  const root = byId("code");
  const pairs = {
    program: (index) => [null, index],
    parent: (index) => [run.columns.parent[index], index],
    seed: (index) => [index === 0 ? null : 0, index],
    best: () => [0, run.best],
  };
  const setWhat = choices(byId("code-what"), [["program", "Program"], ["parent", "From parent"], ["seed", "From seed"], ["best", "Seed to best"]], (value) => { what = value; show(); });
  const setHow = choices(byId("code-how"), [["unified", "Unified"], ["side", "Side by side"]], (value) => { how = value; show(); });
  setWhat(what);
  setHow(how);

  const number = (place) => element("td", { class: "line-number" }, place === null ? "" : String(place + 1));
  const text = (kind, line) => {
    const sign = { gone: "−", new: "+" }[kind] || " ";
    return element("td", { class: `line ${kind}` }, element("span", { class: "sign" }, sign), line === null ? "" : coloured(line));
  };

  function listing(lines) {
    return element("table", { class: "listing" }, element("tbody", null,
      lines.map((line, place) => element("tr", null, number(place), text("same", line)))));
  }

  function foldRow(row, columns, open) {
    const tr = element("tr", { class: "folded" }, element("td", { colspan: columns },
      element("button", { type: "button", click: () => tr.replaceWith(...open(row.rows)) }, `${many(row.rows.length, "line")} the same: show`)));
    return tr;
  }

  function unified(rows, before, after) {
    const one = (row) => row.kind === "folded" ? foldRow(row, 3, (inner) => inner.map(one)) : element("tr", null,
      number(row.kind === "new" ? null : row.a), number(row.kind === "gone" ? null : row.b),
      text(row.kind, row.kind === "gone" ? before[row.a] : after[row.b]));
    return element("table", { class: "listing" }, element("tbody", null, rows.map(one)));
  }

  function sideBySide(rows, before, after) {
    const both = (a, b, kinds) => element("tr", null,
      number(a), text(a === null ? "none" : kinds[0], a === null ? null : before[a]),
      number(b), text(b === null ? "none" : kinds[1], b === null ? null : after[b]));
    const made = [];
    let gone = [], fresh = [];
    const flush = () => {
      for (let place = 0; place < Math.max(gone.length, fresh.length); place += 1) {
        made.push(both(gone[place] ?? null, fresh[place] ?? null, ["gone", "new"]));
      }
      gone = [];
      fresh = [];
    };
    for (const row of rows) {
      if (row.kind === "gone") { gone.push(row.a); continue; }
      if (row.kind === "new") { fresh.push(row.b); continue; }
      flush();
      if (row.kind === "same") made.push(both(row.a, row.b, ["same", "same"]));
      else made.push(foldRow(row, 4, (inner) => inner.map((each) => both(each.a, each.b, ["same", "same"]))));
    }
    flush();
    return element("table", { class: "listing side" }, element("tbody", null, made));
  }

  function notes(program) {
    if (!program) return null;
    if (program.cut === null) return element("p", { class: "quiet" }, "The run folder has lost the file of this program.");
    if (!program.cut) return null;
    return element("p", { class: "quiet" }, `${program.cut.toLocaleString("en")} characters of it are not shown here; programs/${program.id}.py in the run folder is the whole.`);
  }

  function show() {
    if (!run || app.selected === null) return;
    const [from, to] = pairs[what](app.selected);
    const asked = JSON.stringify([what, how, from, to, run.texts !== null]);
    if (asked === shown) return; // news of a run that goes on must not close what is being read
    shown = asked;
    if (!run.texts) { root.replaceChildren(element("p", { class: "quiet" }, "The programs cannot be unpacked: this browser is too old to inflate them.")); return; }
    const after = to === null ? null : run.program(to), before = from === null ? null : run.program(from);
    if (!after) { root.replaceChildren(element("p", { class: "quiet" }, `Node ${to} has no program: ${run.reason(to)}`)); return; }
    byId("code-how").hidden = !before;
    if (!before) {
      const why = what === "program" ? "" : from === null ? " (it is the seed: there is nothing to compare it with)" : ` (node ${from} has no program to compare it with)`;
      root.replaceChildren(element("p", { class: "quiet" }, `Node ${to}: ${many(after.lines.length, "line")}, sha256 ${after.id}${why}`), notes(after) || "", listing(pieces(run.lines(after))));
      return;
    }
    const rows = differences(before.lines, after.lines);
    const gone = rows.filter((row) => row.kind === "gone").length, fresh = rows.filter((row) => row.kind === "new").length;
    const words = gone + fresh ? `Node ${from} → node ${to}: ${many(gone, "line")} gone, ${many(fresh, "line")} new` : `Node ${from} → node ${to}: the same text`;
    const drawn = (how === "side" ? sideBySide : unified)(folded(rows), pieces(run.lines(before)), pieces(run.lines(after)));
    root.replaceChildren(element("p", { class: "quiet" }, words), notes(before) || "", notes(after) || "", drawn);
  }

  return {
    load(next) { run = next; show(); },
    select: show,
    cycle() {
      const order = ["program", "parent", "seed", "best"];
      what = order[(order.indexOf(what) + 1) % order.length];
      setWhat(what);
      show();
    },
    theme() {},
  };
}
