// Islands: a grid of cells each, owners coloured by rank; who came by migration carries a mark and the island's number.

function makeIslands(app) {
  let run = null, shownAs = "tree";
  const root = byId("islands"), squares = new Map();

  function show(which) {
    shownAs = which;
    root.hidden = which !== "islands";
    byId("tree").hidden = which === "islands";
    byId("tree-tools").hidden = which === "islands";
    byId("shape-title").textContent = which === "islands" ? "Islands" : "Tree";
  }

  function cellButton(island, member, label) {
    const [index, , , copy] = member;
    const home = run.home(index);
    const words = `${summary(run, index)} · ${label}${copy ? ` · came from island ${home}` : ""}`;
    const button = element("button", {
      type: "button", class: copy ? "cell copy" : "cell", title: words, "aria-label": words,
      click: () => app.select(index),
    }, run.failed(index) ? "×" : index === run.best ? "★" : copy ? `${home}` : "");
    if (!run.failed(index)) {
      button.style.backgroundColor = rankColour(run.rank[index]);
      button.style.color = inkOn(rankColour(run.rank[index]));
    }
    squares.set(index, [...(squares.get(index) || []), button]);
    return button;
  }

  // Two axes as rows and columns; of cells that differ only in further axes the best is shown.
  function grid(island, number) {
    const { dimensions, bins } = run.block.islands;
    const [across, down] = [bins[0], bins[1] || 1];
    const owners = new Map();
    for (const member of island.members) {
      const [index, cell, owner] = member;
      if (!owner || !cell) continue;
      const key = `${cell[0]},${cell[1] || 0}`;
      const held = owners.get(key);
      if (!held || run.rank[index] > run.rank[held[0]]) owners.set(key, member);
    }
    const table = element("table", { class: "grid" });
    for (let row = down - 1; row >= 0; row -= 1) {
      const cells = [];
      for (let column = 0; column < across; column += 1) {
        const member = owners.get(`${column},${row}`);
        const label = `cell ${dimensions[0]} ${column}${dimensions[1] ? `, ${dimensions[1]} ${row}` : ""}`;
        cells.push(element("td", null, member ? cellButton(number, member, label) : null));
      }
      table.append(element("tr", null, cells));
    }
    const copies = island.members.filter((member) => member[3]);
    const from = new Map();
    for (const [index] of copies) from.set(run.home(index), (from.get(run.home(index)) || 0) + 1);
    const came = [...from].sort().map(([home, count]) => `${count} from island ${home}`).join(", ");
    return element("figure", { class: "island" },
      element("figcaption", null, element("strong", null, `Island ${number}`),
        ` generation ${island.generation}, ${island.members.length} programs in ${owners.size} cells` + (came ? `; ${came}` : "")),
      table,
      element("div", { class: "axis" }, `→ ${dimensions[0]}${dimensions[1] ? `   ↑ ${dimensions[1]}` : ""}`));
  }

  return {
    load(next) {
      run = next;
      const islands = run.block.islands;
      if (!islands) { byId("shape-tabs").replaceChildren(); show("tree"); return; }
      squares.clear();
      root.replaceChildren(
        element("p", { class: "quiet" }, "Each square is the best program of a cell: lighter ranks higher, ★ is the best of the run, a number names the island a copy came from by migration, × failed."),
        element("div", { class: "grids" }, islands.grids.map(grid)));
      choices(byId("shape-tabs"), [["islands", "Islands"], ["tree", "Lineage"]], show)(shownAs === "tree" && !this.opened ? "islands" : shownAs);
      if (!this.opened) show("islands");
      this.opened = true;
      this.select(app.selected);
    },
    select(index) {
      for (const buttons of squares.values()) buttons.forEach((button) => button.classList.remove("selected"));
      (squares.get(index) || []).forEach((button) => button.classList.add("selected"));
    },
    theme() { if (run && run.block.islands) this.load(run); },
  };
}
