// Canvases: their size and colours, and one mark for each status, so that no meaning hangs on colour alone.

// A canvas that fills its parent and paints when asked, at most once a frame.
function canvasIn(parent, label, paint) {
  const canvas = element("canvas", { role: "img", "aria-label": label, tabindex: "0" });
  parent.replaceChildren(canvas);
  const brush = canvas.getContext("2d");
  let waiting = false;
  const made = {
    canvas, width: 0, height: 0,
    repaint() {
      if (waiting) return;
      waiting = true;
      requestAnimationFrame(() => {
        waiting = false;
        if (!made.width) return;
        const scale = window.devicePixelRatio || 1;
        brush.setTransform(scale, 0, 0, scale, 0, 0);
        brush.clearRect(0, 0, made.width, made.height);
        paint(brush, made);
      });
    },
  };
  new ResizeObserver(() => {
    const box = parent.getBoundingClientRect();
    const scale = window.devicePixelRatio || 1;
    made.width = Math.floor(box.width);
    made.height = Math.floor(box.height);
    canvas.width = Math.round(made.width * scale);
    canvas.height = Math.round(made.height * scale);
    made.repaint();
  }).observe(parent);
  return made;
}

let palette = {};

// The style sheet's colours, for canvases; read again when the theme changes.
function readPalette() {
  const style = getComputedStyle(document.documentElement);
  const names = ["ink", "quiet", "faint", "line", "paper", "panel", "accent", "bad", "good", "best"];
  palette = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  palette.font = "12px system-ui, sans-serif";
  palette.ramp = [0, 1, 2, 3, 4].map((place) => style.getPropertyValue(`--rank-${place}`).trim());
  palette.rank = Array.from({ length: 65 }, (_, place) => blend(palette.ramp, place / 64));
}

function rankColour(rank) {
  return palette.rank[Math.round(64 * rank)];
}

// Black or white, whichever stands out more from rgb(...).
function inkOn(colour) {
  const [red, green, blue] = colour.match(/\d+/g).map((part) => (part / 255) ** 2.2);
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.18 ? "#000" : "#fff";
}

function blend(ramp, share) {
  const at = share * (ramp.length - 1);
  const low = Math.min(ramp.length - 2, Math.floor(at));
  const parts = [ramp[low], ramp[low + 1]].map((colour) => [1, 3, 5].map((place) => parseInt(colour.slice(place, place + 2), 16)));
  const mixed = parts[0].map((value, place) => Math.round(value + (parts[1][place] - value) * (at - low)));
  return `rgb(${mixed.join(",")})`;
}

// The outline of each status. All but "disc" are drawn as strokes.
const MARKS = {
  ok: "disc", no_program: "ring", gate_refused: "square", crashed: "cross", timeout: "bar", cpu_limit: "bars",
  memory_limit: "diamond", output_limit: "plus", bad_output: "triangle", sandbox_lost: "star",
};

function mark(brush, status, x, y, size, colour) {
  const strokes = (pairs) => {
    for (const [a, b, c, d] of pairs) { brush.moveTo(x + a * size, y + b * size); brush.lineTo(x + c * size, y + d * size); }
  };
  brush.beginPath();
  brush.strokeStyle = brush.fillStyle = colour;
  brush.lineWidth = Math.max(1, size / 2.6);
  switch (MARKS[status]) {
    case "disc": brush.arc(x, y, size, 0, 7); brush.fill(); return;
    case "ring": brush.arc(x, y, size * 0.9, 0, 7); break;
    case "square": brush.rect(x - size * 0.8, y - size * 0.8, size * 1.6, size * 1.6); break;
    case "bar": strokes([[0, -1, 0, 1]]); break;
    case "bars": strokes([[-0.5, -1, -0.5, 1], [0.5, -1, 0.5, 1]]); break;
    case "diamond": strokes([[0, -1, 1, 0], [1, 0, 0, 1], [0, 1, -1, 0], [-1, 0, 0, -1]]); break;
    case "plus": strokes([[-1, 0, 1, 0], [0, -1, 0, 1]]); break;
    case "triangle": strokes([[-1, 0.8, 1, 0.8], [1, 0.8, 0, -1], [0, -1, -1, 0.8]]); break;
    case "star": strokes([[-1, 0, 1, 0], [-0.5, -0.9, 0.5, 0.9], [0.5, -0.9, -0.5, 0.9]]); break;
    default: strokes([[-0.8, -0.8, 0.8, 0.8], [-0.8, 0.8, 0.8, -0.8]]);
  }
  brush.stroke();
}

function star(brush, x, y, size, colour) {
  brush.beginPath();
  for (let tip = 0; tip < 10; tip += 1) {
    const reach = tip % 2 ? size * 0.45 : size;
    const angle = (tip * Math.PI) / 5 - Math.PI / 2;
    brush.lineTo(x + reach * Math.cos(angle), y + reach * Math.sin(angle));
  }
  brush.closePath();
  brush.fillStyle = colour;
  brush.fill();
  brush.strokeStyle = palette.ink;
  brush.lineWidth = 1;
  brush.stroke();
}

function ring(brush, x, y, size) {
  brush.beginPath();
  brush.arc(x, y, size, 0, 7);
  brush.strokeStyle = palette.ink;
  brush.lineWidth = 2;
  brush.stroke();
}

// Round numbers for an axis, about `count` of them.
function ticks(low, high, count) {
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((unit) => unit * power).find((unit) => unit >= rough) || rough;
  const found = [];
  for (let place = Math.ceil(low / step); place * step <= high + step * 1e-9; place += 1) found.push(place * step);
  return found;
}
