// Folding, search, zoom and details of a drawing.  Units are arranged as layout.py does it: see NOTE [Lanes] there.
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const { GAP, HEAD, MARGIN, BRACKET, LANE, INSET, STRAIGHT, BEND } = data.sizes;
const svg = document.getElementById("drawing");
const group = (name) => svg.querySelector(`g.${name}`);
const closed = new Set(data.closed);
const elements = new Map([...svg.querySelectorAll(".unit")].map((g) => [g.dataset.unit, g]));
let chosen = null, zoom = 1, height = 0, matches = [], current = -1;

// ---- arranging

function visible(blocks) {
  return blocks.flatMap((b) => (b.children.length && !closed.has(b.id) ? visible(b.children) : [b]));
}

function arrange() {
  const units = [...visible(data.tree), ...data.results].map((b) => ({ ...data.units[b.id], id: b.id }));
  let y = HEAD;
  for (const unit of units) { unit.top = y; y += unit.height + GAP; }
  const at = new Map();
  units.forEach((unit, k) => { for (let row = unit.start; row < unit.stop; row++) at.set(row, k); });
  const plans = data.wires.map((wire, k) => plan(units, at, wire, k));
  return { units, plans, lanes: lanes(plans), height: y - GAP + MARGIN };
}

function plan(units, at, wire, k) {
  const start = at.get(wire.row), here = units[start], step = [1, 0, -1][wire.side];
  const begin = [here.left, here.out, here.right][wire.side][k] ?? here.height / 2;
  const far = new Map();
  let beside = false, straight = null;
  for (const [gradient, row] of wire.ends) {
    const unit = at.get(row), there = units[unit];
    if (unit === start) beside = beside || wire.side === 1 || wire.paired || gradient;
    else if (step && unit === start + step && !wire.paired && !gradient) {
      straight = step === 1 ? [here.top + here.height, there.top] : [here.top, there.top + there.height];
    } else {
      const port = [there.left, there.middle, there.right][wire.side][k] ?? there.height / 2;
      far.set(`${there.top + port} ${gradient}`, [there.top + port, gradient]);
    }
  }
  return { wire: k, side: wire.side, y: here.top + begin, paired: wire.paired, beside, far: [...far.values()], straight };
}

function lanes(plans) {
  const spans = plans.filter((p) => p.far.length).map((p) => {
    const heights = [p.y, ...p.far.map(([y]) => y)];
    return { top: Math.min(...heights), bottom: Math.max(...heights), plan: p };
  });
  const taken = [[], [], []], found = new Map();
  spans.sort((a, b) => (a.bottom - a.top) - (b.bottom - b.top) || a.plan.wire - b.plan.wire);
  for (const { top, bottom, plan: p } of spans) {
    const side = taken[p.side];
    let free = side.findIndex((lane) => lane.every(([a, b]) => bottom + 3 < a || b + 3 < top));
    if (free < 0) free = side.push([]) - 1;
    side[free].push([top, bottom]);
    found.set(p.wire, free);
  }
  // more lanes than there is room for stand closer together
  const pitch = taken.map((side, k) => (side.length > data.lanes[k] ? (LANE * Math.max(data.lanes[k], 1)) / side.length : LANE));
  return { of: found, pitch };
}

function routes(p, lane, pitch) {
  const c = data.columns, found = [];
  let left = c.forward[0], begin, laneAt, own;
  if (p.side === 1) {
    left = c.backward[0];
    [begin, laneAt, own] = [c.pill[0] + c.pill[1], left - INSET - pitch * lane, left];
  } else if (p.side === 0) {
    [begin, laneAt, own] = [p.paired ? c.argument[0] + c.argument[1] : left, left - INSET - pitch * lane, left];
  } else {
    left = c.backward[0];
    [begin, laneAt, own] = [left + c.backward[1], left + c.backward[1] + INSET + pitch * lane, c.gradient[0]];
  }
  if (p.beside) found.push([[begin, p.y], [own, p.y]]);
  for (const [y, outward] of p.far) {
    const last = outward ? c.gradient[0] : p.side === 2 ? begin : left;
    found.push([[begin, p.y], [laneAt, p.y], [laneAt, y], [last, y]]);
  }
  if (p.straight) found.push([[left + STRAIGHT, p.straight[0]], [left + STRAIGHT, p.straight[1]]]);
  return found;
}

const text = (...numbers) => numbers.map((x) => x.toFixed(1)).join(" ");
const far = (a, b) => Math.abs(a[0] - b[0]) + Math.abs(a[1] - b[1]);
const towards = (a, b, size) => [0, 1].map((i) => a[i] + ((b[i] - a[i]) * size) / (far(a, b) || 1));

function path(corners) {
  let line = `M${text(...corners[0])}`;
  for (let i = 1; i + 1 < corners.length; i++) {
    const [before, corner, after] = corners.slice(i - 1, i + 2);
    const size = Math.min(BEND, far(before, corner) / 2, far(corner, after) / 2);
    line += `L${text(...towards(corner, before, size))}Q${text(...corner, ...towards(corner, after, size))}`;
  }
  return `${line}L${text(...corners.at(-1))}`;
}

function head(corners) {
  const [x, y] = corners.at(-1), [x0, y0] = corners.at(-2);
  const dx = Math.sign(x - x0), dy = Math.sign(y - y0);
  return `M${text(x, y)}L${text(x - 6 * dx - 3 * dy, y - 6 * dy - 3 * dx)}L${text(x - 6 * dx + 3 * dy, y - 6 * dy + 3 * dx)}Z`;
}

// ---- drawing

const make = (name, attributes, parent, content = "") => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.textContent = content;
  parent.append(element);
  return element;
};

function draw() {
  const now = arrange();
  const shown = new Map(now.units.map((unit) => [unit.id, unit]));
  for (const [id, element] of elements) {
    const unit = shown.get(id);
    element.style.display = unit ? "" : "none";
    if (unit) element.setAttribute("transform", `translate(0 ${unit.top.toFixed(1)})`);
  }
  const wires = group("wires");
  wires.replaceChildren();
  for (const p of now.plans) {
    for (const corners of routes(p, now.lanes.of.get(p.wire) ?? 0, now.lanes.pitch[p.side])) {
      const g = make("g", { class: `wire ${["left", "across", "right"][p.side]}`, "data-wire": p.wire }, wires);
      make("title", {}, g, data.wires[p.wire].name);
      make("path", { d: path(corners) }, g);
      make("path", { d: head(corners), class: "head" }, g);
    }
  }
  const spans = new Map();
  for (const unit of now.units) for (let row = unit.start; row < unit.stop; row++) spans.set(row, unit);
  group("brackets").replaceChildren();
  brackets(data.tree, spans, 0);
  height = now.height;
  svg.setAttribute("viewBox", `0 0 ${data.columns.width} ${height}`);
  resize();
  mark();
}

function brackets(blocks, spans, depth) {
  for (const block of blocks) {
    if (!block.children.length || closed.has(block.id)) continue;
    const first = spans.get(block.start), last = spans.get(block.stop - 1);
    const top = first.top, bottom = last.top + last.height, x = MARGIN + BRACKET * depth + 12;
    const g = make("g", { class: "bracket", "data-block": block.id, role: "button" }, group("brackets"));
    make("title", {}, g, `${block.label}: click to fold`);
    make("rect", { class: "hit", x: x - 12, y: top, width: 17, height: bottom - top }, g);
    make("path", { d: `M${x + 5} ${top}H${x}V${bottom}H${x + 5}` }, g);
    const room = Math.floor((bottom - top) / 5.9), label = `− ${block.label}`;
    make("text", { class: "note", "text-anchor": "middle", transform: `translate(${x - 4} ${(top + bottom) / 2}) rotate(-90)` },
      g, label.length < room ? label : `${label.slice(0, room - 1)}…`);
    g.onclick = (event) => { event.stopPropagation(); closed.add(block.id); draw(); };
    brackets(block.children, spans, depth + 1);
  }
}

for (const block of data.tree.flatMap(function every(b) { return [b, ...b.children.flatMap(every)]; })) {
  if (!block.children.length) continue;
  const c = data.columns, x = c.forward[0] + c.forward[1] - 18;
  const g = make("g", { class: "toggle", "data-block": block.id, role: "button" }, elements.get(block.id));
  make("title", {}, g, "click to unfold");
  make("rect", { x, y: 4, width: 14, height: 14, rx: 3 }, g);
  make("text", { x: x + 7, y: 15, "text-anchor": "middle" }, g, "+");
  g.onclick = (event) => { event.stopPropagation(); closed.delete(block.id); draw(); };
}

function resize() {
  svg.setAttribute("width", (data.columns.width * zoom).toFixed(0));
  svg.setAttribute("height", (height * zoom).toFixed(0));
  document.getElementById("zoom").textContent = `${Math.round(zoom * 100)}%`;
}

function zoomed(factor) {
  zoom = Math.min(8, Math.max(0.1, factor));
  resize();
}

// ---- what is chosen, and what is looked for

function mark() {
  const query = document.getElementById("search").value.trim().toLowerCase();
  matches = query ? data.rows.filter((row) => row.text.includes(query)) : [];
  for (const [id, element] of elements) {
    const unit = data.units[id];
    const found = matches.some((row) => row.row >= unit.start && row.row < unit.stop);
    element.classList.toggle("found", found);
    element.classList.toggle("faded", Boolean(query) && !found);
    element.classList.toggle("chosen", id === chosen);
  }
  const unit = chosen === null ? null : data.units[chosen];
  const inside = (row) => unit && row >= unit.start && row < unit.stop;
  for (const g of svg.querySelectorAll(".wire[data-wire]")) {
    const wire = data.wires[g.dataset.wire];
    const touches = inside(wire.from) || wire.ends.some(([, row]) => inside(row));
    g.classList.toggle("faded", unit !== null && !touches);
    g.classList.toggle("chosen", unit !== null && touches);
  }
  document.getElementById("count").textContent = query ? `${matches.length} found` : "";
}

function reveal(row, blocks = data.tree) {
  for (const block of blocks) {
    if (row < block.start || row >= block.stop) continue;
    if (!block.children.length) return block.id;
    closed.delete(block.id);
    return reveal(row, block.children);
  }
  return data.results.find((block) => block.start === row)?.id ?? null;
}

function choose(id) {
  chosen = id;
  const panel = document.getElementById("detail");
  panel.replaceChildren();
  for (const [title, content] of id === null ? [["", "Click on a box for its line, type, rule and saved values."]] : data.details[id]) {
    const heading = document.createElement("h2"), body = document.createElement("pre");
    heading.textContent = title;
    body.textContent = content;
    panel.append(...(title ? [heading, body] : [body]));
  }
  mark();
}

svg.onclick = (event) => choose(event.target.closest(".unit")?.dataset.unit ?? null);
document.getElementById("search").oninput = () => { current = -1; mark(); };
document.getElementById("search").onkeydown = (event) => {
  if (event.key !== "Enter" || !matches.length) return;
  current = (current + (event.shiftKey ? matches.length - 1 : 1)) % matches.length;
  const id = reveal(matches[current].row);
  draw();
  choose(id);
  elements.get(id).scrollIntoView({ block: "center", inline: "nearest" });
};
document.getElementById("in").onclick = () => zoomed(zoom * 1.25);
document.getElementById("out").onclick = () => zoomed(zoom / 1.25);
document.getElementById("fit").onclick = () => zoomed(document.querySelector("main").clientWidth / data.columns.width);
document.querySelector("main").addEventListener("wheel", (event) => {
  if (!event.ctrlKey && !event.metaKey) return;
  event.preventDefault();
  zoomed(zoom * (event.deltaY < 0 ? 1.1 : 1 / 1.1));
}, { passive: false });
document.getElementById("level").onchange = (event) => {
  closed.clear();
  for (const id of data.levels[event.target.value]) closed.add(id);
  draw();
};
draw();
choose(null);
zoomed(Math.min(1, document.querySelector("main").clientWidth / data.columns.width));
