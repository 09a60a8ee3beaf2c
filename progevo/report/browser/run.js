// A run as the panels read it: the block's columns, and what follows from them.

function openRun(block) {
  const columns = block.nodes;
  const count = columns.parent.length;
  const sign = block.metric.direction === "minimize" ? -1 : 1;
  const failed = (index) => columns.value[index] === null;
  const children = Array.from({ length: count }, () => []);
  const depth = new Uint32Array(count);
  for (let index = 1; index < count; index += 1) {
    children[columns.parent[index]].push(index);
    depth[index] = depth[columns.parent[index]] + 1; // a parent is always told before its child
  }

  // 0 (worst) to 1 (best) among those that scored; equal values share a rank.
  const rank = new Float32Array(count);
  const scored = [...Array(count).keys()].filter((index) => !failed(index));
  scored.sort((one, other) => sign * (columns.value[one] - columns.value[other]));
  scored.forEach((index, place) => {
    const before = place > 0 ? scored[place - 1] : -1;
    const equal = before >= 0 && columns.value[before] === columns.value[index];
    rank[index] = equal ? rank[before] : scored.length > 1 ? place / (scored.length - 1) : 1;
  });

  const cost = new Float64Array(count);
  const tokens = new Float64Array(count);
  let spent = 0, counted = 0, costKnown = false, tokensKnown = false;
  for (let index = 0; index < count; index += 1) {
    for (const draw of block.draws[index] || []) {
      if (draw.cost_usd !== null) { spent += draw.cost_usd; costKnown = costKnown || draw.cost_usd > 0; }
      if (draw.prompt !== null || draw.completion !== null) {
        counted += (draw.prompt || 0) + (draw.completion || 0);
        tokensKnown = true;
      }
    }
    cost[index] = spent;
    tokens[index] = counted;
  }

  const word = (place) => (place === null || place === undefined ? "" : block.words[place]);
  const run = {
    block, count, columns, children, depth, rank, sign, failed, cost, tokens, costKnown, tokensKnown,
    best: block.best,
    texts: null, // unpacked later: programs and logs
    status: (index) => block.statuses[columns.status[index]],
    value: (index) => columns.value[index],
    origin: (index) => word(columns.origin[index]),
    remark: (index) => word(columns.remark[index]),
    reason: (index) => word(columns.reason[index]),
    word,
    home: (index) => (block.islands ? block.islands.homes[index] : null),
    path(index) {
      const found = [];
      for (let at = index; at !== null; at = columns.parent[at]) found.push(at);
      return found.reverse();
    },
    // How much better than its parent, above 0 better; null where either failed.
    gain(index) {
      const parent = columns.parent[index];
      if (parent === null || failed(index) || failed(parent)) return null;
      return sign * (columns.value[index] - columns.value[parent]);
    },
    program(index) {
      const place = columns.program[index];
      return place === null || !run.texts ? null : run.texts.programs[place];
    },
    lines: (program) => program.lines.map((place) => run.texts.lines[place]),
  };
  return run;
}

// Programs and logs come deflated, in base 64: a thousand programs share most of their lines.
async function unpack(packed) {
  const content = Uint8Array.from(atob(packed), (character) => character.charCodeAt(0));
  const stream = new Blob([content]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}
