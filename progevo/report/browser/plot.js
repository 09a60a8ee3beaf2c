// Progress: every candidate a mark by its status, the running best a step line, its jumps named.

const PLOT_EDGE = { left: 62, right: 16, top: 30, bottom: 54 };

function makePlot(app) {
  let run = null, axis = "node", hover = null, places = [];
  const axes = {
    node: ["Candidate", () => (index) => index, (value) => String(Math.round(value))],
    time: ["Time", () => (index) => run.columns.elapsed_s[index] || 0, seconds],
    cost: ["Cost, US dollars", () => (index) => run.cost[index], (value) => number(value, 3)],
    tokens: ["Tokens", () => (index) => run.tokens[index], (value) => number(value, 3)],
  };
  const made = canvasIn(byId("plot"), "progress of the search; the table of candidates holds the same", paint);
  const tip = element("div", { class: "tip", hidden: true });
  byId("plot").append(tip);

  // The values worth showing: from the best to where nine in ten of those that scored lie, and the seed. A few wild
  // ones would flatten all else; they are drawn at the edge.
  function range() {
    const values = [...run.columns.value].filter((value) => value !== null).map((value) => run.sign * value);
    values.sort((one, other) => one - other);
    if (!values.length) return [0, 1];
    const low = Math.min(values[Math.floor(values.length * 0.1)], run.failed(0) ? Infinity : run.sign * run.value(0));
    const high = values[values.length - 1];
    const span = high - low || Math.abs(high) || 1;
    return [low - span * 0.08, high + span * 0.1];
  }

  function paint(brush) {
    if (!run || !run.count) return;
    const [low, high] = range();
    const edge = PLOT_EDGE, right = made.width - edge.right, floor = made.height - edge.bottom;
    const along = axes[axis][1]();
    const last = Math.max(along(run.count - 1), axis === "node" ? 1 : 1e-9);
    const x = (index) => edge.left + ((right - edge.left) * along(index)) / last;
    const y = (score) => edge.top + (floor - edge.top) * ((high - score) / (high - low));
    brush.font = palette.font;
    grid(brush, low, high, last, y, floor, right);

    places = new Float32Array(2 * run.count);
    const size = run.count > 1500 ? 2 : run.count > 300 ? 3 : 4;
    for (let index = 0; index < run.count; index += 1) {
      const failed = run.failed(index), score = failed ? null : run.sign * run.value(index);
      const at = [x(index), failed ? made.height - 30 : Math.min(floor, y(score))];
      places.set(at, 2 * index);
      if (!failed && score < low) edgeMark(brush, at[0], floor);
      else mark(brush, run.status(index), at[0], at[1], size, failed ? palette.bad : rankColour(run.rank[index]));
    }
    steps(brush, x, y, right);
    for (const index of [hover, app.selected]) {
      if (index !== null && index < run.count) ring(brush, places[2 * index], places[2 * index + 1], size + 4);
    }
  }

  function grid(brush, low, high, last, y, floor, right) {
    brush.strokeStyle = palette.line;
    brush.fillStyle = palette.quiet;
    brush.lineWidth = 1;
    brush.textAlign = "right";
    brush.textBaseline = "middle";
    for (const tick of ticks(low, high, 5)) {
      brush.beginPath();
      brush.moveTo(PLOT_EDGE.left, y(tick));
      brush.lineTo(right, y(tick));
      brush.stroke();
      brush.fillText(number(run.sign * tick, 4), PLOT_EDGE.left - 8, y(tick));
    }
    brush.fillText("failed", PLOT_EDGE.left - 8, made.height - 30);
    brush.textAlign = "center";
    for (const tick of ticks(0, last, Math.max(3, Math.min(8, made.width / 110)))) {
      const at = PLOT_EDGE.left + ((right - PLOT_EDGE.left) * tick) / last;
      brush.fillText(axes[axis][2](tick), at, made.height - 9);
    }
    brush.textAlign = "left";
    const { name, unit, direction } = run.block.metric;
    const words = direction === "minimize" ? "smaller is better, drawn higher" : "larger is better";
    brush.fillText(visible(`${name}${unit ? ` in ${unit}` : ""} on search: ${words}`), PLOT_EDGE.left, 10);
  }

  function edgeMark(brush, x, floor) {
    brush.beginPath();
    brush.moveTo(x - 4, floor - 6);
    brush.lineTo(x + 4, floor - 6);
    brush.lineTo(x, floor);
    brush.fillStyle = palette.quiet;
    brush.fill();
  }

  // The running best as the run crowned it: a step where a node took over, named where there is room.
  function steps(brush, x, y, right) {
    const bests = run.block.bests.filter(([, index]) => index < run.count && !run.failed(index));
    brush.beginPath();
    brush.strokeStyle = palette.best;
    brush.lineWidth = 2;
    bests.forEach(([told, index], place) => {
      const height = y(run.sign * run.value(index)), from = x(Math.max(index, told - 1));
      if (place) brush.lineTo(from, y(run.sign * run.value(bests[place - 1][1])));
      brush[place ? "lineTo" : "moveTo"](from, height);
      if (place === bests.length - 1) brush.lineTo(right, height);
    });
    brush.stroke();
    if (run.best !== null && !run.failed(run.best)) {
      star(brush, places[2 * run.best], places[2 * run.best + 1], 8, palette.best);
    }
    annotate(brush, bests, right);
  }

  function annotate(brush, bests, right) {
    const jumps = bests.slice(1).map(([, index], place) => {
      const before = bests[place][1];
      return { index, gain: run.sign * (run.value(index) - run.value(before)) };
    });
    const taken = [];
    brush.textBaseline = "alphabetic";
    for (const { index, gain } of jumps.sort((one, other) => other.gain - one.gain).slice(0, 8)) {
      const words = visible(`${run.origin(index).slice(0, 28)} ${signed(gain)}`);
      const wide = brush.measureText(words).width + 6;
      const dot = [places[2 * index], places[2 * index + 1]];
      // Above the running best nothing lies: to the left of a jump, or where that is off the plot, below it.
      const before = dot[0] - wide - 6, after = Math.min(dot[0] + 10, right - wide);
      const box = [[before, -20], [before, -36], [after, 10], [after, 26], [after, -26], [after, 42]]
        .map(([left, shift]) => [left, dot[1] + shift, wide, 15])
        .find((each) => each[0] > PLOT_EDGE.left && each[1] > PLOT_EDGE.top - 14
          && each[1] < made.height - PLOT_EDGE.bottom - 14 && !taken.some((other) => overlap(each, other)));
      if (!box) continue;
      taken.push(box);
      brush.strokeStyle = palette.panel; // a halo, so that marks behind the words stay seen
      brush.lineWidth = 3;
      brush.strokeText(words, box[0], box[1] + 11);
      brush.fillStyle = palette.ink;
      brush.fillText(words, box[0], box[1] + 11);
    }
  }

  const overlap = (one, other) => one[0] < other[0] + other[2] && other[0] < one[0] + one[2]
    && one[1] < other[1] + other[3] && other[1] < one[1] + one[3];

  function nearest(event) {
    const box = made.canvas.getBoundingClientRect();
    const at = [event.clientX - box.left, event.clientY - box.top];
    let found = null, least = 18 ** 2;
    for (let index = 0; index < places.length / 2; index += 1) {
      const distance = (places[2 * index] - at[0]) ** 2 + (places[2 * index + 1] - at[1]) ** 2;
      if (distance < least) { least = distance; found = index; }
    }
    return found;
  }

  made.canvas.addEventListener("pointermove", (event) => {
    const found = nearest(event);
    if (found === hover) return;
    hover = found;
    tip.hidden = found === null;
    if (found !== null) {
      tip.replaceChildren();
      say(tip, summary(run, found));
      tip.style.left = `${Math.min(places[2 * found] + 12, made.width - 230)}px`;
      tip.style.top = `${Math.min(places[2 * found + 1] + 14, made.height - 44)}px`;
    }
    made.repaint();
  });
  made.canvas.addEventListener("pointerleave", () => { hover = null; tip.hidden = true; made.repaint(); });
  made.canvas.addEventListener("click", (event) => { const found = nearest(event); if (found !== null) app.select(found); });

  function legend() {
    const counts = run.block.statuses.map((status, place) => [status, run.columns.status.filter((each) => each === place).length]);
    byId("legend").replaceChildren(...counts.filter(([, count]) => count).map(([status, count]) => {
      const icon = element("canvas", { width: "28", height: "28", "aria-hidden": "true" });
      const brush = icon.getContext("2d");
      mark(brush, status, 14, 14, 8, status === "ok" ? rankColour(0.7) : palette.bad);
      return element("button", { type: "button", title: "show these in the table", click: () => app.filter({ status }) }, icon, `${status} ${count}`);
    }));
  }

  return {
    load(next) {
      run = next;
      const shown = ["node", "time", ...(run.costKnown ? ["cost"] : []), ...(run.tokensKnown ? ["tokens"] : [])];
      if (!shown.includes(axis)) axis = "node";
      const names = { node: "by candidate", time: "by time", cost: "by cost", tokens: "by tokens" };
      choices(byId("plot-axis"), shown.map((each) => [each, names[each]]), (value) => { axis = value; made.repaint(); })(axis);
      legend();
      made.repaint();
    },
    select: () => made.repaint(),
    theme() { legend(); made.repaint(); },
  };
}

// One candidate in a line.
function summary(run, index) {
  const what = run.failed(index) ? `${run.status(index)}: ${run.reason(index).slice(0, 120)}` : number(run.value(index));
  return `node ${index} · ${run.origin(index) || "unnamed"} · ${what}`;
}
