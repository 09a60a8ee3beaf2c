// Differences of two lists of lines, given as numbers of lines.

const DIFF_DEPTH = 800; // more lines than this changed: shown as replaced, not searched for a shortest script

// [{kind: "same" | "gone" | "new", a, b}], a and b the places in either list. Myers, Algorithmica 1 (1986), 251-266.
function differences(before, after) {
  let head = 0, tail = 0;
  const least = Math.min(before.length, after.length);
  while (head < least && before[head] === after[head]) head += 1;
  while (tail < least - head && before[before.length - 1 - tail] === after[after.length - 1 - tail]) tail += 1;
  const rows = [];
  for (let place = 0; place < head; place += 1) rows.push({ kind: "same", a: place, b: place });
  const middle = shortest(before.slice(head, before.length - tail), after.slice(head, after.length - tail));
  for (const { kind, a, b } of middle) rows.push({ kind, a: a + head, b: b + head });
  for (let place = tail; place > 0; place -= 1) rows.push({ kind: "same", a: before.length - place, b: after.length - place });
  return rows;
}

function shortest(before, after) {
  const n = before.length, m = after.length, most = Math.min(n + m, DIFF_DEPTH);
  const traces = [];
  let reach = new Map([[1, 0]]);
  for (let depth = 0; depth <= most; depth += 1) {
    traces.push(new Map(reach));
    for (let k = -depth; k <= depth; k += 2) {
      const down = k === -depth || (k !== depth && reach.get(k - 1) < reach.get(k + 1));
      let x = down ? reach.get(k + 1) : reach.get(k - 1) + 1;
      while (x < n && x - k < m && before[x] === after[x - k]) x += 1;
      reach.set(k, x);
      if (x >= n && x - k >= m) return walkBack(traces, before, after);
    }
  }
  return [
    ...before.map((_, a) => ({ kind: "gone", a, b: 0 })),
    ...after.map((_, b) => ({ kind: "new", a: n, b })),
  ];
}

function walkBack(traces, before, after) {
  const rows = [];
  let x = before.length, y = after.length;
  for (let depth = traces.length - 1; depth >= 0; depth -= 1) {
    const reach = traces[depth], k = x - y;
    const down = k === -depth || (k !== depth && reach.get(k - 1) < reach.get(k + 1));
    const fromX = depth ? reach.get(down ? k + 1 : k - 1) : 0;
    const fromY = depth ? fromX - (down ? k + 1 : k - 1) : 0;
    while (x > fromX && y > fromY) { x -= 1; y -= 1; rows.push({ kind: "same", a: x, b: y }); }
    if (!depth) break;
    if (down) { y -= 1; rows.push({ kind: "new", a: x, b: y }); } else { x -= 1; rows.push({ kind: "gone", a: x, b: y }); }
  }
  return rows.reverse();
}

// Long runs of equal lines folded, but for `context` beside what changed: rows, or {kind: "folded", rows}.
function folded(rows, context = 3) {
  const near = new Uint8Array(rows.length);
  rows.forEach((row, place) => {
    if (row.kind === "same") return;
    for (let at = Math.max(0, place - context); at <= Math.min(rows.length - 1, place + context); at += 1) near[at] = 1;
  });
  const found = [];
  for (let place = 0; place < rows.length; place += 1) {
    if (near[place]) { found.push(rows[place]); continue; }
    const begin = place;
    while (place + 1 < rows.length && !near[place + 1]) place += 1;
    found.push({ kind: "folded", rows: rows.slice(begin, place + 1) });
  }
  return found;
}
