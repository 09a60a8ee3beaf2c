// Where the nodes of a tree stand: depth downwards, every subtree in columns of its own, childless siblings in blocks.
//
// A node's childless children stand in a block of several rows: a root with thousands of them stays a picture.

function layOut(run, collapsed) {
  const x = new Float32Array(run.count), y = new Float32Array(run.count);
  const shown = [], stack = [{ index: 0, left: 0 }];
  const width = new Float32Array(run.count);
  const isOpen = (index) => !collapsed.has(index) && run.children[index].length > 0;
  const split = (index) => {
    const leaves = run.children[index].filter((child) => !run.children[child].length);
    const branches = run.children[index].filter((child) => run.children[child].length);
    return { leaves, branches, block: leaves.length ? Math.max(1, Math.ceil(Math.sqrt(leaves.length / 1.6))) : 0 };
  };
  // Children have larger indexes than their parents: backwards, every child comes before its parent.
  for (let index = run.count - 1; index >= 0; index -= 1) {
    if (!isOpen(index)) { width[index] = 1; continue; }
    const { branches, block } = split(index);
    width[index] = Math.max(1, block + branches.reduce((sum, child) => sum + width[child], 0));
  }
  let height = 0;
  while (stack.length) {
    const { index, left } = stack.pop();
    shown.push(index);
    height = Math.max(height, y[index]);
    if (!isOpen(index)) { x[index] = left + 0.5; continue; }
    const { leaves, branches, block } = split(index);
    let at = left;
    branches.forEach((child, place) => {
      y[child] = y[index] + 1;
      stack.push({ index: child, left: at });
      at += width[child];
      if (place === Math.floor((branches.length - 1) / 2)) at = leafBlock(leaves, block, at, y[index] + 1);
    });
    if (!branches.length) leafBlock(leaves, block, left, y[index] + 1);
    x[index] = left + width[index] / 2;
  }
  function leafBlock(leaves, block, left, top) {
    leaves.forEach((leaf, place) => {
      x[leaf] = left + (place % block) + 0.5;
      y[leaf] = top + Math.floor(place / block) * 0.55;
      height = Math.max(height, y[leaf]);
      shown.push(leaf);
    });
    return left + block;
  }
  return { x, y, shown, width: width[0], height, isOpen };
}
