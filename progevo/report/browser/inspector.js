// The selected candidate: what became of it and why, what it cost, who wrote it, what it said.

function makeInspector(app) {
  let run = null;
  const root = byId("inspector");
  const link = (index) => (index === null || index === undefined ? null
    : element("a", { href: `#node=${index}`, title: summary(run, index) }, `node ${index}`));

  byId("steps").replaceChildren(...[
    ["‹", "the one before (key ←)", () => app.step(-1)], ["›", "the next (key →)", () => app.step(1)],
    ["Parent", "its parent (key p)", () => app.toParent()], ["Best", "the best (key b)", () => app.toBest()],
  ].map(([label, title, click]) => element("button", { type: "button", title, click }, label)));

  function fact(label, ...content) {
    const kept = content.flat().filter((each) => each !== null && each !== undefined && each !== "");
    return kept.length ? element("div", null, element("dt", null, label), element("dd", null, kept)) : null;
  }

  function place(index) {
    const columns = run.columns, born = run.children[index].length;
    const words = `depth ${run.depth[index]}, ${born} ${born === 1 ? "child" : "children"}`;
    if (columns.visits) {
      return fact("In the tree", `${many(columns.visits[index], "visit")}, PUCT ${number(columns.puct[index], 4)}, ${words}`);
    }
    if (!run.block.islands) return fact("In the tree", words);
    const homes = [];
    run.block.islands.grids.forEach((island, number) => {
      for (const [node, cell, owner, copy] of island.members) {
        if (node !== index) continue;
        const where = cell ? `cell ${run.block.islands.dimensions.map((name, at) => `${name} ${cell[at]}`).join(", ")}` : "no cell";
        homes.push(`island ${number}: ${where}${owner ? "" : " (not its owner)"}${copy ? " (a copy, by migration)" : ""}`);
      }
    });
    return [fact("Made on", `island ${run.home(index)}; ${words}`), fact("Lives on", homes.length ? homes.join("; ") : "none any more")];
  }

  function usage(index) {
    const columns = run.columns;
    if (columns.wall_s[index] === null) return fact("Used", columns.twin_of[index] === null ? "nothing: it never ran" : "nothing: its outcome was known");
    return fact("Used", `${seconds(columns.wall_s[index])} wall, ${seconds(columns.cpu_s[index])} CPU, ${bytes(columns.max_rss_bytes[index])} at most`);
  }

  function metrics(index) {
    const known = run.block.metrics.filter(([, values]) => values[index] !== null);
    return fact("Metrics", known.map(([name, values]) => element("div", null, `${name} ${number(values[index])}`)));
  }

  function moved(index) {
    const found = run.columns.moved[index];
    if (!found) return null;
    const [count, of, spacing, which] = found;
    const named = which.length ? `: ${which.join(", ")}${count > which.length ? ", …" : ""}` : "";
    const looked = spacing > 1 ? ` (every ${spacing}th was looked at)` : "";
    return fact("Search cases", `${count} of ${of} have another value than its parent's${looked}${named}`);
  }

  function draws(index) {
    const drawn = run.block.draws[index];
    if (!drawn) return null;
    const rows = drawn.map((draw, place) => element("tr", null, [
      String(place + 1), run.word(draw.model), draw.verdict,
      [run.word(draw.kind), draw.fault, ...draw.steps.map(run.word)].filter(Boolean).join(", "),
      draw.prompt === null && draw.completion === null ? "unknown" : `${draw.prompt ?? "?"} + ${draw.completion ?? "?"}`,
      draw.cost_usd === null ? "unknown" : number(draw.cost_usd, 3), seconds(draw.seconds), run.word(draw.file),
    ].map((each) => element("td", null, each))));
    const head = ["", "model", "reply", "what was wrong", "tokens", "US dollars", "time", "file"];
    return section("Replies drawn for it", element("div", { class: "across" }, element("table", { class: "small" },
      element("thead", null, element("tr", null, head.map((each) => element("th", null, each)))), element("tbody", null, rows))));
  }

  function section(title, ...content) {
    return element("div", { class: "part" }, element("h3", null, title), content);
  }

  function tested(index) {
    const confirmed = run.block.confirmed[index], runs = run.block.tested[index] || [];
    const again = confirmed && fact("Run again", confirmed.value === null ? `${confirmed.status}: ${run.word(confirmed.reason)}` : number(confirmed.value));
    return [again, ...runs.map((each, place) => {
      const value = each.value === null ? `${each.status}: ${run.word(each.reason)}` : number(each.value);
      const cases = each.cases.map((value, at) => {
        const right = each.right ? each.right[at] === "1" : null;
        return element("li", { class: right === false ? "wrong" : null }, `${number(value, 4)}${right === null ? "" : right ? " right" : " wrong"}`);
      });
      const more = each.count > each.cases.length ? ` (the first ${each.cases.length})` : "";
      return [
        fact(`On test${runs.length > 1 ? `, run ${place + 1}` : ""}`, value),
        cases.length ? fact("By case", element("details", null, element("summary", null, `${each.count} held-out cases${more}`), element("ol", { class: "cases", start: "0" }, cases))) : null,
      ];
    })];
  }

  function show() {
    const index = app.selected;
    if (!run || index === null) return;
    const columns = run.columns, failed = run.failed(index), gain = run.gain(index);
    const value = failed ? run.status(index) : number(run.value(index));
    const words = [index === run.best ? "the best" : "", index === 0 ? "the seed" : "", columns.no_op[index] ? "no-op" : ""].filter(Boolean).join(", ");
    const log = run.texts ? run.texts.logs[index] : null;
    const made = element("div", null,
      element("p", { class: failed ? "headline bad" : "headline" }, element("strong", null, value), ` node ${index}${words ? `, ${words}` : ""}`),
      element("dl", null, [
        fact("Cause", failed ? run.reason(index) : ""),
        fact("Written by", run.origin(index)),
        fact("Remark", run.remark(index)),
        fact("Parent", link(columns.parent[index]), gain === null ? "" : ` ${signed(gain)} (above 0 is better)`),
        place(index),
        fact("Copy of", link(columns.twin_of[index]), columns.twin_of[index] === null ? "" : " (comments and layout aside; its outcome was taken over)"),
        fact("Answers as", link(columns.same_answer_as[index])),
        metrics(index), moved(index), tested(index), usage(index),
        fact("Asked as", `step ${columns.step[index]}, told after ${seconds(columns.elapsed_s[index])}`),
        fact("Program", run.program(index) ? run.program(index).id : ""),
      ].flat(3)),
      draws(index) || "",
      log ? section("End of its log", element("pre", { class: "log", tabindex: "0" }, log)) : "");
    if (made.textContent !== root.textContent) root.replaceChildren(made); // else it is being read, and stays as it is
  }

  return { load(next) { run = next; show(); }, select: show, theme() {} };
}
