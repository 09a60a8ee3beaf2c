// Words and elements. Text enters the page by textContent alone; nothing here or elsewhere makes HTML of a text.

let hiddenCharacters = /(?!)/gu;

// The table of ranges comes with the block: the part of the page without script follows the same one.
function hide(ranges) {
  const written = ranges.map(([first, last]) => `\\u{${first.toString(16)}}-\\u{${last.toString(16)}}`);
  hiddenCharacters = new RegExp(`[${written.join("")}]`, "gu");
}

function escapeOf(character) {
  const code = character.codePointAt(0).toString(16);
  return code.length <= 4 ? `\\u${code.padStart(4, "0")}` : `\\u{${code}}`;
}

// For places that take no elements: attributes, and canvases.
function visible(text) {
  return String(text).replace(hiddenCharacters, escapeOf);
}

// Appends a text, its hidden characters marked.
function say(parent, text) {
  const whole = String(text);
  let begin = 0;
  for (const found of whole.matchAll(hiddenCharacters)) {
    if (found.index > begin) parent.append(document.createTextNode(whole.slice(begin, found.index)));
    const mark = document.createElement("span");
    mark.className = "hidden-character";
    mark.textContent = escapeOf(found[0]);
    parent.append(mark);
    begin = found.index + found[0].length;
  }
  if (begin < whole.length) parent.append(document.createTextNode(whole.slice(begin)));
  return parent;
}

// element("td", {class: "number", click: f}, "text", other): functions become listeners, all else attributes.
function element(tag, properties, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") made.addEventListener(name, value);
    else made.setAttribute(name, value === true ? "" : visible(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === "") continue;
    if (child instanceof Node) made.append(child);
    else say(made, child);
  }
  return made;
}

function byId(id) {
  return document.getElementById(id);
}

function number(value, digits = 6) {
  if (value === null || value === undefined) return "unknown";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-4) return Number(value.toPrecision(digits)).toExponential().replace("e+", "e");
  return String(Number(value.toPrecision(digits)));
}

function many(count, thing) {
  return `${count.toLocaleString("en")} ${thing}${count === 1 ? "" : "s"}`;
}

function signed(value) {
  return value === null ? "unknown" : (value > 0 ? "+" : "") + number(value, 4);
}

function seconds(value) {
  if (value === null || value === undefined) return "unknown";
  if (value < 120) return `${number(value, 3)} s`;
  return value < 7200 ? `${number(value / 60, 3)} min` : `${number(value / 3600, 3)} h`;
}

function bytes(value) {
  if (value === null || value === undefined) return "unknown";
  return value < 1 << 20 ? `${Math.round(value / 1024)} KiB` : `${Math.round(value / (1 << 20))} MiB`;
}

// A row of buttons of which one is pressed. `chosen(value)` hears of it; the result sets it from outside.
function choices(parent, options, chosen) {
  const buttons = options.map(([value, label]) =>
    element("button", { type: "button", "aria-pressed": "false", click: () => set(value, true) }, label));
  function set(value, tell) {
    options.forEach(([each], place) => buttons[place].setAttribute("aria-pressed", String(each === value)));
    if (tell) chosen(value);
  }
  parent.replaceChildren(...buttons);
  return set;
}
