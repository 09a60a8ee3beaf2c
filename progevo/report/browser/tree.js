// The tree of parents and children: colour by rank, failures crossed, the path to the best and to the selected bold.
// A deep, narrow tree lies on its side: whichever way shows it larger.

const TREE_STEP = [64, 104]; // the most pixels between columns and between depths, unzoomed
const TREE_MARGIN = 28;

function makeTree(app) {
  let run = null, placed = null, hover = null, drag = null;
  const collapsed = new Set();
  const view = { x: 0, y: 0, zoom: 1, step: TREE_STEP, turned: false, touched: false };
  const made = canvasIn(byId("tree"), "tree of candidates; the table holds the same", paint);
  const tip = element("div", { class: "tip", hidden: true });
  byId("tree").append(tip);
  const screen = (index) => {
    const across = placed.x[index] * view.step[0] * view.zoom, down = placed.y[index] * view.step[1] * view.zoom;
    return view.turned ? [view.x + down, view.y + across] : [view.x + across, view.y + down];
  };

  function fit() {
    const room = [made.width - 2 * TREE_MARGIN, made.height - 2 * TREE_MARGIN];
    const depth = Math.max(0.1, placed.height);
    const steps = (across, down) => [Math.min(TREE_STEP[0], across / placed.width), Math.min(TREE_STEP[1], down / depth)];
    const roomy = ([across, down]) => Math.min(across / TREE_STEP[0], down / TREE_STEP[1]);
    const upright = steps(room[0], room[1]), turned = steps(room[1], room[0]);
    view.turned = roomy(turned) > roomy(upright);
    view.step = view.turned ? turned : upright;
    const size = [placed.width * view.step[0], depth * view.step[1]];
    if (view.turned) size.reverse();
    view.x = (made.width - size[0]) / 2;
    view.y = (made.height - size[1]) / 2;
    view.zoom = 1;
    view.touched = false;
  }

  function paint(brush) {
    if (!run || !run.count) return;
    if (!view.touched) fit();
    const near = Math.min(view.step[0], view.step[1] / 2) * view.zoom;
    const size = Math.max(1.4, Math.min(7, 0.32 * near));
    const inside = ([x, y]) => x > -20 && y > -20 && x < made.width + 20 && y < made.height + 20;
    edges(brush, placed.shown.slice(1), palette.line, 1);
    const bold = (index) => run.path(index).slice(1).filter((each) => placed.seen.has(each));
    if (run.best !== null) edges(brush, bold(run.best), palette.best, 3);
    if (app.selected !== null) edges(brush, bold(app.selected), palette.ink, 1.6);
    brush.font = palette.font;
    brush.textAlign = "center";
    brush.textBaseline = "middle";
    for (const index of placed.shown) {
      const at = screen(index);
      if (!inside(at)) continue;
      const colour = run.failed(index) ? palette.bad : rankColour(run.rank[index]);
      mark(brush, run.status(index), at[0], at[1], run.failed(index) ? size * 0.7 : size, colour);
      if (collapsed.has(index) && run.children[index].length) folded(brush, index, at, size);
    }
    for (const index of [hover, app.selected]) {
      if (index !== null && placed.seen.has(index)) ring(brush, ...screen(index), size + 3);
    }
    if (run.best !== null && placed.seen.has(run.best)) star(brush, ...screen(run.best), Math.max(7, size + 3), palette.best);
    if (near > 15) labels(brush, inside, size);
  }

  function edges(brush, indexes, colour, wide) {
    brush.beginPath();
    brush.strokeStyle = colour;
    brush.lineWidth = wide;
    for (const index of indexes) {
      const parent = run.columns.parent[index];
      if (parent === null || !placed.seen.has(parent)) continue;
      const [x, y] = screen(index), [above, top] = screen(parent);
      if (Math.max(y, top) < 0 || Math.min(y, top) > made.height) continue;
      brush.moveTo(above, top);
      if (view.turned) brush.bezierCurveTo((x + above) / 2, top, (x + above) / 2, y, x, y);
      else brush.bezierCurveTo(above, (y + top) / 2, x, (y + top) / 2, x, y);
    }
    brush.stroke();
  }

  function folded(brush, index, at, size) {
    const words = `+${below(index).toLocaleString("en")}`;
    brush.fillStyle = palette.ink;
    brush.fillText(words, at[0], at[1] + size + 9);
  }

  function labels(brush, inside, size) {
    brush.fillStyle = palette.quiet;
    for (const index of placed.shown) {
      const at = screen(index);
      if (inside(at) && !collapsed.has(index)) brush.fillText(`${index}`, at[0], at[1] - size - 7);
    }
  }

  function below(index) {
    let found = 0;
    const waiting = [...run.children[index]];
    while (waiting.length) { found += 1; waiting.push(...run.children[waiting.pop()]); }
    return found;
  }

  function place() {
    placed = layOut(run, collapsed);
    placed.seen = new Set(placed.shown);
  }

  function nearest(event) {
    const box = made.canvas.getBoundingClientRect();
    const at = [event.clientX - box.left, event.clientY - box.top];
    let found = null, least = 14 ** 2;
    for (const index of placed ? placed.shown : []) {
      const [x, y] = screen(index);
      const distance = (x - at[0]) ** 2 + (y - at[1]) ** 2;
      if (distance < least) { least = distance; found = index; }
    }
    return found;
  }

  function zoomBy(factor, x = made.width / 2, y = made.height / 2) {
    const zoom = Math.max(0.2, Math.min(400, view.zoom * factor));
    view.x = x - ((x - view.x) * zoom) / view.zoom;
    view.y = y - ((y - view.y) * zoom) / view.zoom;
    view.zoom = zoom;
    view.touched = true;
    made.repaint();
  }

  function fold(index) {
    if (index === null || !run.children[index].length) return;
    if (!collapsed.delete(index)) collapsed.add(index);
    place();
    made.repaint();
  }

  function foldOthers() {
    const kept = new Set([...run.path(run.best ?? 0), ...(app.selected === null ? [] : run.path(app.selected))]);
    collapsed.clear();
    for (let index = 0; index < run.count; index += 1) if (!kept.has(index) && run.children[index].length) collapsed.add(index);
    view.touched = false;
    place();
    made.repaint();
  }

  function unfold() {
    collapsed.clear();
    view.touched = false;
    place();
    made.repaint();
  }

  const canvas = made.canvas;
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !view.touched && document.activeElement !== canvas) return; // the page scrolls until the tree is used
    event.preventDefault();
    const box = canvas.getBoundingClientRect();
    zoomBy(Math.exp(-event.deltaY / 400), event.clientX - box.left, event.clientY - box.top);
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    drag = { x: event.clientX, y: event.clientY, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (drag) {
      const moved = [event.clientX - drag.x, event.clientY - drag.y];
      if (!drag.moved && Math.hypot(...moved) < 4) return;
      Object.assign(view, { x: view.x + moved[0], y: view.y + moved[1], touched: true });
      drag = { x: event.clientX, y: event.clientY, moved: true };
      made.repaint();
      return;
    }
    const found = nearest(event);
    if (found === hover) return;
    hover = found;
    tip.hidden = found === null;
    if (found !== null) {
      tip.replaceChildren();
      say(tip, summary(run, found));
      const [x, y] = screen(found);
      tip.style.left = `${Math.max(0, Math.min(x + 12, made.width - 230))}px`;
      tip.style.top = `${Math.min(y + 14, made.height - 44)}px`;
    }
    made.repaint();
  });
  canvas.addEventListener("pointerup", (event) => {
    const still = drag && !drag.moved;
    drag = null;
    const found = still ? nearest(event) : null;
    if (found !== null) app.select(found);
  });
  canvas.addEventListener("pointercancel", () => { drag = null; });
  canvas.addEventListener("pointerleave", () => { hover = null; tip.hidden = true; made.repaint(); });
  canvas.addEventListener("dblclick", (event) => fold(nearest(event)));
  canvas.addEventListener("keydown", (event) => {
    const acts = { "+": () => zoomBy(1.25), "=": () => zoomBy(1.25), "-": () => zoomBy(0.8), "0": () => { view.touched = false; made.repaint(); } };
    if (acts[event.key]) { event.preventDefault(); acts[event.key](); }
  });

  const tool = (label, title, click) => element("button", { type: "button", title, click }, label);
  byId("tree-tools").replaceChildren(
    tool("−", "zoom out (key -)", () => zoomBy(0.8)),
    tool("+", "zoom in (key +)", () => zoomBy(1.25)),
    tool("Fit", "show the whole tree (key 0)", () => { view.touched = false; made.repaint(); }),
    tool("Fold", "fold or unfold the selected node (double click; key c)", () => fold(app.selected)),
    tool("Path only", "fold all but the paths to the best and to the selected", foldOthers),
    tool("Unfold", "unfold everything", unfold),
  );

  return {
    load(next) { run = next; place(); made.repaint(); },
    select(index) {
      if (!placed.seen.has(index)) { // it lies below a folded node
        run.path(index).slice(0, -1).forEach((each) => collapsed.delete(each));
        place();
      }
      made.repaint();
    },
    fold: () => fold(app.selected),
    theme: () => made.repaint(),
  };
}
