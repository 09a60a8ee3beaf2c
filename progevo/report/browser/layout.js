// Where the nodes of a tree stand: depth downwards, subtrees beside one another as close as their outlines allow.
//
// A node's childless children stand in a block of several rows: a root with thousands of them stays a picture. An
// outline is the least and the largest place at each depth below its node, counted from that node.

const BLOCK_ROW = 0.55; // the distance of two rows of a block, in depths

function layOut(run, collapsed) {
  const { count, children } = run;
  const x = new Float32Array(count), y = new Float32Array(count), offset = new Float32Array(count);
  const weight = new Uint32Array(count).fill(1);
  const outlines = new Map();
  const isOpen = (index) => !collapsed.has(index) && children[index].length > 0;

  function block(leaves) {
    const wide = Math.max(1, Math.ceil(Math.sqrt(leaves.length / 1.6)));
    const levels = Math.ceil((Math.ceil(leaves.length / wide) - 1) * BLOCK_ROW) + 1;
    const place = (at) => leaves.forEach((leaf, number) => {
      offset[leaf] = at + (number % wide) - (wide - 1) / 2;
      y[leaf] = Math.floor(number / wide) * BLOCK_ROW; // below the first row; the depth is added later
    });
    return { left: Array(levels).fill(-wide / 2), right: Array(levels).fill(wide / 2), weight: leaves.length, place };
  }

  function partsOf(index) {
    const leaves = children[index].filter((child) => !children[child].length);
    const parts = children[index].filter((child) => children[child].length).map((child) => {
      const outline = outlines.get(child);
      outlines.delete(child);
      return { ...outline, weight: weight[child], place: (at) => { offset[child] = at; } };
    });
    if (leaves.length) parts.splice(Math.ceil(parts.length / 2), 0, block(leaves));
    return parts;
  }

  // Children have larger indexes than their parents: backwards, every child comes before its parent.
  for (let index = count - 1; index >= 0; index -= 1) {
    if (!isOpen(index)) { outlines.set(index, { left: [-0.5], right: [0.5] }); continue; }
    const parts = partsOf(index), left = [], right = [];
    let moment = 0;
    for (const part of parts) {
      let at = left.length ? -Infinity : 0;
      for (let depth = 0; depth < Math.min(right.length, part.left.length); depth += 1) at = Math.max(at, right[depth] - part.left[depth]);
      for (let depth = 0; depth < part.left.length; depth += 1) {
        if (depth === left.length) left.push(part.left[depth] + at);
        right[depth] = part.right[depth] + at;
      }
      part.at = at;
      moment += at * part.weight;
      weight[index] += part.weight;
    }
    const middle = moment / (weight[index] - 1); // above its heavier children, so that a long line of them is straight
    for (const part of parts) part.place(part.at - middle);
    outlines.set(index, { left: [-0.5, ...left.map((each) => each - middle)], right: [0.5, ...right.map((each) => each - middle)] });
  }

  const shown = [0];
  let low = 0, high = 0, height = 0;
  for (let place = 0; place < shown.length; place += 1) {
    const index = shown[place];
    low = Math.min(low, x[index]);
    high = Math.max(high, x[index]);
    height = Math.max(height, y[index]);
    if (!isOpen(index)) continue;
    for (const child of children[index]) {
      x[child] = x[index] + offset[child];
      y[child] = y[index] + 1 + (children[child].length ? 0 : y[child]);
      shown.push(child);
    }
  }
  for (const index of shown) x[index] += 0.5 - low;
  return { x, y, shown, width: high - low + 1, height, isOpen };
}
