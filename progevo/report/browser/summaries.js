// What can be said of all candidates together: failures by cause, replies, copies, and where the time went.

function makeSummaries(app) {
  const root = byId("summaries");
  let run = null;

  const panel = (title, ...content) => element("section", { class: "summary" }, element("h2", null, title), content);
  const table = (head, rows) => element("table", { class: "small summed" },
    element("thead", null, element("tr", null, head.map((each) => element("th", null, each)))),
    element("tbody", null, rows.map((row) => element("tr", null, row.map((each) => element("td", null, each))))));
  const none = (text) => element("p", { class: "quiet" }, text);

  function bar(count, most) {
    const made = element("span", { class: "meter", "aria-hidden": "true" });
    made.style.width = `${Math.max(2, (100 * count) / most)}%`;
    return element("span", { class: "meter-row" }, made, ` ${count}`);
  }

  // Causes with their numbers taken out, so that "no answer within 3.1 s" and "3.2 s" are one.
  function failures() {
    const causes = new Map();
    for (let index = 0; index < run.count; index += 1) {
      if (!run.failed(index)) continue;
      const cause = run.reason(index).replace(/\d+(\.\d+)?/g, "#").slice(0, 160);
      const key = `${run.status(index)}\n${cause}`;
      const held = causes.get(key) || { status: run.status(index), cause, nodes: [] };
      held.nodes.push(index);
      causes.set(key, held);
    }
    const rows = [...causes.values()].sort((one, other) => other.nodes.length - one.nodes.length);
    if (!rows.length) return panel("Failures by cause", none("No candidate failed."));
    const most = rows[0].nodes.length;
    return panel("Failures by cause", table(["status", "cause", "candidates", ""], rows.slice(0, 12).map((row) => [
      element("button", { type: "button", class: "link", click: () => app.filter({ status: row.status, text: "" }) }, row.status),
      row.cause, bar(row.nodes.length, most), element("a", { href: `#node=${row.nodes[0]}` }, `node ${row.nodes[0]}`),
    ])), rows.length > 12 ? none(`and ${rows.length - 12} causes more`) : null);
  }

  function replies() {
    const drawn = Object.values(run.block.draws).flat();
    const damage = run.block.result && run.block.result.reply_damage;
    if (!drawn.length) return panel("Replies", none("No model was asked, so no reply could arrive damaged."));
    if (!damage || !damage.drawn) {
      const verdicts = ["ok", "recovered", "damaged"].map((verdict) => [verdict, String(drawn.filter((draw) => draw.verdict === verdict).length)]);
      return panel("Replies", table(["reply", "drawn"], verdicts));
    }
    const share = (value) => `${number(100 * value, 3)} %`;
    const interval = damage.interval ? `, 95 % interval ${share(damage.interval[0])} to ${share(damage.interval[1])}` : "";
    const counts = (found) => Object.entries(found).map(([name, count]) => `${name} ${count}`).join(", ") || "none";
    const usage = run.block.result.proposer.usage || [];
    return panel("Replies", table(["", ""], [
      ["drawn", `${damage.drawn}, ${damage.recovered} recovered, ${damage.damaged} damaged`],
      ["damaged", damage.rate === null ? "unknown" : `${share(damage.rate)}${interval}`],
      ["by kind", counts(damage.by_kind)], ["by fault", counts(damage.by_fault)],
      ["drawn again", `${damage.redraws.count}, ${damage.redraws.tokens ?? "unknown"} tokens, ${seconds(damage.redraws.seconds)}`],
    ]), usage.length ? table(["model", "drawn", "damaged", "nodes", "prompt", "completion", "US dollars"], usage.map((model) => [
      model.name, String(model.drawn), String(model.damaged), String(model.nodes),
      String(model.tokens.prompt ?? "unknown"), String(model.tokens.completion ?? "unknown"),
      model.cost_usd === null ? "unknown" : number(model.cost_usd, 4)])) : null);
  }

  function copies() {
    const { twin_of: twins, no_op: noOps, same_answer_as: same } = run.columns;
    const idle = noOps.filter((each) => each).length;
    const twice = twins.filter((each) => each !== null).length - idle;
    const alike = same.filter((each) => each !== null).length;
    const originals = new Map();
    twins.forEach((first) => { if (first !== null) originals.set(first, (originals.get(first) || 0) + 1); });
    const most = [...originals].sort((one, other) => other[1] - one[1]).slice(0, 5);
    return panel("Duplicates and no-ops", table(["", "candidates"], [
      ["repeat another node", String(twice)], ["change nothing of their parent", String(idle)],
      ["answer every case as another program does", String(alike)],
    ]), most.length ? element("p", null, "repeated most: ", most.map(([index, count]) => [element("a", { href: `#node=${index}` }, `node ${index}`), ` ${count} times  `])) : null,
    element("button", { type: "button", class: "link", click: () => app.filter({ status: "copy", text: "" }) }, "show the copies"));
  }

  function time() {
    const { wall_s: walls, elapsed_s: elapsed } = run.columns;
    const sum = (values) => values.reduce((total, value) => total + (value || 0), 0);
    const proposer = sum(Object.values(run.block.draws).flat().map((draw) => draw.seconds));
    const sandbox = sum(walls.filter((_, index) => run.columns.twin_of[index] === null));
    const whole = elapsed.length ? elapsed[elapsed.length - 1] : 0;
    const paid = whole * run.block.workers;
    const rest = paid - proposer - sandbox;
    const share = (value) => (paid > 0 ? `${number((100 * value) / paid, 3)} %` : "");
    return panel("Where the time went", table(["", "time", "of workers × time"], [
      ["waiting for models", seconds(proposer), share(proposer)],
      ["candidates in the sandbox", seconds(sandbox), share(sandbox)],
      ["all else: own code, idle workers, starts", rest >= 0 ? seconds(rest) : "unknown", rest >= 0 ? share(rest) : ""],
    ]), element("p", { class: "quiet" }, whole > 0 ? `${number(((run.count - 1) * 60) / whole, 3)} candidates a minute over ${seconds(whole)} with ${many(run.block.workers, "worker")}; the seed's and the best's runs on test are not counted.` : ""));
  }

  return {
    load(next) { run = next; root.replaceChildren(failures(), replies(), copies(), time()); },
    select() {},
    theme() {},
  };
}
