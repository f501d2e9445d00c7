"use strict";
// The page: fills in the sections, and shows the cause of a collective.

// ---------------------------------------------------------------- head
function addFact(list, name, text, style) {
  if (!text) return;
  const fact = make("div");
  fact.append(make("dt", name), make("dd", text, style));
  list.append(fact);
}

function fillHead() {
  if (data.program) {
    document.title = `${data.program}: what a step costs`;
    document.querySelector("h1").textContent = document.title;
  }
  const facts = $("facts");
  addFact(facts, "request", data.request, "mono");
  addFact(facts, "batch", data.batch, "mono");
  addFact(facts, "precision", data.precision, "mono");
  const mesh = axes.map(axis => `${axis.name}:${axis.size}`).join(",");
  addFact(facts, "mesh", axes.length
      ? `${mesh} (${plural(data.mesh.devices, "device")})` : "one device",
      "mono");
  addFact(facts, "layout", data.layout, "mono");
  $("machine").textContent = `Estimates for machine ${data.machine}, ` +
      (data.machine_checked ? `compared to ${data.machine_checked}.`
           : "never compared to a measured training step.");
  $("machine").className = data.machine_checked ? "soft" : "warning";
  const notes = data.notices.map(notice => make("div", `note: ${notice}`));
  $("notes").append(...notes, ...attentionNotes());
}

function attentionNotes() {
  const {composed} = data.attention, notes = [];
  const groups = groupLayers(
      composed, {by: "operation", equal: ["site", "why"]});
  for (const {operation, site, why} of groups) {
    notes.push(`Attention is composed of einsums: ${operation}${
        site ? ` (${site})` : ""}: ${why}.`);
  }
  return notes.map(note => make("div", note, "soft"));
}

function fillTiles() {
  const has = data.memory.machine_bytes, uses = data.cost.memory_bytes;
  for (const [label, value, style] of [
      ["step", seconds(data.cost.seconds)],
      ["compute", seconds(data.compute_seconds)],
      ["collectives", seconds(data.collective_seconds)],
      ["exposed", seconds(data.exposed)],
      ["per rank", flops(data.flops)],
      ["sent by a rank", bytes(data.cost.wire_bytes)],
      [`memory${has ? ` of ${bytes(has)}` : ""}${
           has && uses > has ? ": does not fit" : ""}`,
       bytes(uses), has && uses > has ? "warning" : ""]]) {
    const tile = make("div", undefined, "tile");
    tile.append(make("b", value, style), make("span", label, "soft"));
    $("tiles").append(tile);
  }
}

// -------------------------------------------------------------- tables
const editOf = c => c.change === null ? `none: ${c.no_change}`
    : data.changes[c.change].edit + (c.instead ? ` (then ${c.instead})` : "");

// Sums of the collectives by axes and kind, in the order of `by_axis`.
function totalsByAxis() {
  const totals = new Map();
  for (const {axes, kind, bytes, seconds, exposed} of data.collectives) {
    const key = `${axes} ${kind}`;
    const total = totals.get(key) ??
        {axes, kind, calls: 0, bytes: 0, seconds: 0, exposed: 0};
    totals.set(key, total);
    ++total.calls;
    total.bytes += bytes;
    total.seconds += seconds;
    total.exposed += exposed;
  }
  return data.by_axis.flatMap(({name}) =>
      [...totals.values()].filter(total => total.axes === name));
}

// The least time of compute relative to that of communication over each axis.
function marginsText() {
  const items = data.margins.map(({axis, flops_per_byte, break_even}) => {
    const ratio = flops_per_byte / break_even;
    const share = ratio < 1 ? `${Number((100 * ratio).toPrecision(2))} %`
                            : `${Number(ratio.toPrecision(3))} times`;
    return `${share} as long as the communication over ${axis}`;
  });
  return items.length ? "Compute at peak speed takes " + items.join(", ") + "."
                      : "";
}

function fillTotals() {
  if (!data.collectives.length) {
    $("totals").append(make("div", "Nothing is sent between devices.", "hint"));
    $("collectives").hidden = true;
    return;
  }
  new Table("totals", [
    shortColumn("axis", "axes"), shortColumn("collective", "kind"),
    column("calls", "calls", grouped), bytesColumn("sent", "bytes"),
    column("time", "seconds", seconds), column("exposed", "exposed", seconds)],
    totalsByAxis());
  $("totals").append(make("div", marginsText(), "hint"));
}

const collectiveTable = () => new Table("collectives", [
  column("no", "number", grouped),
  {...countColumn, title: "calls", text: grouped},
  shortColumn("collective", "kind"), shortColumn("axis", "axes"),
  bytesColumn("sent", "bytes"), column("time", "seconds", seconds),
  column("exposed", "exposed", blankZero(seconds)),
  nameColumn("tensor", "tensor"), nameColumn("caused by", "rule"),
  shortColumn("made at", "site"),
  // A rule stays on the line of its verb.
  {...nameColumn("removed by", "removed_by"),
   text: edit => edit.replace(/^drop /, "drop\u00a0")}],
  data.collectives.map(row => ({...row, removed_by: editOf(row)})), {
    layers: {by: "tensor", sums: ["bytes", "seconds", "exposed"],
             equal: ["kind", "axes", "rule", "removed_by", "site"]},
    select: members => select(members.map(row => row.number))});

const PURPOSES = {
  parameters: "#4d7fb5", optimizer_state: "#7a6bb0", state: "#a56b9c",
  gradients: "#c98b3a", copies: "#5aa6a6", activations: "#7fb37f",
  unused: "#a9b3bd"};
const purposeName = key => key.replace("_", " ");

function fillMemory() {
  const {memory} = data;
  const bar = make("div", undefined, "bar");
  const keys = make("div", undefined, "keys");
  for (const [key, color] of Object.entries(PURPOSES)) {
    if (!memory[key]) continue;
    const share = 100 * memory[key] / memory.total;
    const segment = make("div"), dot = make("span", undefined, "key");
    segment.style.width = `${share}%`;
    segment.style.background = dot.style.background = color;
    bar.append(segment);
    const label = make("span");
    label.append(dot, `${purposeName(key)} ${bytes(memory[key])} (${
        share.toFixed(1)} %)`);
    keys.append(label);
  }
  $("memory").append(bar, keys);
  if (memory.host) {
    $("memory").append(make("div", `In host memory: ${bytes(memory.host)}; ` +
        `copies of ${bytes(data.host_copy_bytes)} to and from the device ` +
        `take ${seconds(data.host_copy_seconds)}.`));
  }
  for (const {dimension, size, padded} of data.padding) {
    $("memory").append(make("div", `Padding: ${dimension} ${size} padded to ` +
        `${padded} (${((1 - size / padded) * 100).toFixed(1)} % unused).`,
        "hint"));
  }
  const {peak_operation: peak, peak_site: site} = memory;
  $("memory").append(make("div", `Tensors at the peak, in ${
      peak || "the step"}${site ? ` (${site})` : ""}:`, "hint"));
  const alive = [...memory.alive].sort((a, b) => b.bytes - a.bytes);
  const size = bytesColumn("memory", "bytes");
  const table = new Table("memory", [
    nameColumn("tensor", "name"), countColumn, size,
    shortColumn("kind", "kind"), nameColumn("type", "type"),
    shortColumn("made at", "site")], alive,
    {layers: {by: "name", sums: ["bytes"], equal: ["kind", "type", "site"]}});
  table.sortBy(size);
}

// The difference from the present cost, in percent.
const versus = (key, text) => value => {
  const now = data.cost[key];
  if (!now || value === now) return text(value);
  const change = ((value / now - 1) * 100).toFixed(1);
  return `${text(value)} (${value >= now ? "+" : ""}${change} %)`;
};
const costColumn = (title, key, text) => numberColumn(
    title, row => row.cost[key], versus(key, text));

function changeTable() {
  $("changes").hidden = !data.changes.length;
  const fastest = [...data.changes].sort(
      (a, b) => a.cost.seconds - b.cost.seconds);
  const present = {edit: "(none)", cost: data.cost, layout: data.layout,
                   memory: data.memory};
  const rows = [present, ...fastest];
  const host = numberColumn("host memory", row => row.memory.host,
                            blankZero(bytes));
  const table = new Table("changes", [
    nameColumn("change",
               row => row.edit + (row.estimated ? " (estimate)" : "")),
    costColumn("step", "seconds", seconds),
    costColumn("sent", "wire_bytes", bytes),
    costColumn("memory", "memory_bytes", bytes),
    ...(rows.some(row => row.memory.host) ? [host] : []),
    nameColumn("layout after it", "layout")], rows);
  if (data.changes_note) {
    $("changes").append(make("div", data.changes_note, "hint"));
  }
  return table;
}

function ruleTable() {
  $("rules").hidden = !data.rules.length;
  return new Table("rules", [
    shortColumn("section", "section"), nameColumn("rule", "rule"),
    nameColumn("use", row => row.use + (row.why ? `: ${row.why}` : "")),
    numberColumn("saved", row => row.memory_saved,
                 value => value === null ? "unknown" : bytes(value)),
    ...Object.keys(PURPOSES).map(key => numberColumn(
        purposeName(key), row => row.saved?.[key] ?? 0, blankZero(bytes))),
    nameColumn("from", "origin")], data.rules);
}

const moduleTable = () => new Table("modules", [
  nameColumn("module", row => row.label.slice(0, -1)), countColumn,
  column("per rank", "flops", blankZero(flops)),
  column("compute", "compute_seconds", blankZero(seconds)),
  column("calls", "calls", blankZero(grouped)),
  bytesColumn("sent", "bytes", blankZero(bytes)),
  column("collectives", "collective_seconds", blankZero(seconds)),
  column("exposed", "exposed", blankZero(seconds))],
  // With a slash, so that "layer_3" has a numbered scope too.
  data.by_module.map(row => ({...row, label: `${row.name}/`})),
  {layers: {by: "label", sums: ["flops", "compute_seconds", "calls", "bytes",
                                "collective_seconds", "exposed"]}});

function ratioText(ratio, {bound_bytes, moved_bytes}) {
  if (bound_bytes) return `${ratio.toFixed(2)}x`;
  return moved_bytes ? "avoidable" : "";
}
const dimensionsText = ({layout_dimensions: layout, best_dimensions: best}) =>
    `${layout}-D${layout === best ? "" : `, best ${best}-D`}`;

const einsumTable = () => new Table("einsums", [
  nameColumn("einsum", "operation"), countColumn,
  {...nameColumn("result", "sharding"), style: "name wide"},
  column("per rank", "flops", flops),
  numberColumn("repeated", row => row.repeated, value => value < 1.0005
      ? "" : `${Number(value.toPrecision(3))}x`),
  column("time", "seconds", seconds),
  column("received", "moved_bytes", blankZero(bytes)),
  column("lower bound", "bound_bytes", blankZero(bytes)),
  numberColumn("ratio", row => row.bound_bytes
      ? row.moved_bytes / row.bound_bytes : 0, ratioText),
  shortColumn("sharded", dimensionsText),
  shortColumn("made at", "site")], data.einsums,
  {layers: {by: "operation",
            sums: ["flops", "seconds", "moved_bytes", "bound_bytes"],
            equal: ["sharding", "repeated", "layout_dimensions",
                    "best_dimensions", "site"]}});

// ----------------------------------------------------------- selection
// The text of the effect of a change on the step.
function effectText({edit, cost}) {
  const parts = [["step", "seconds", seconds], ["sent", "wire_bytes", bytes],
                 ["memory", "memory_bytes", bytes]];
  return `${edit}: ` + parts.map(([name, key, text]) =>
      `${name} ${text(data.cost[key])} → ${text(cost[key])}`).join(", ");
}

// Shows the cause of collectives that differ only in their layer.
function showCause(numbers) {
  const members = numbers.map(number => data.collectives[number - 1]);
  const sum = key => members.reduce((total, c) => total + c[key], 0);
  const [c] = members, facts = make("dl");
  const [group] = groupLayers(members, {by: "tensor"});
  const fact = (term, text, style) =>
      facts.append(make("dt", term), make("dd", text, style));
  fact("collective", (members.length > 1 ? `${members.length} × ` : "") +
      `${c.kind} over ${c.axes} (${c.group_size} ranks), ${
      bytes(sum("bytes"))} per rank`);
  fact("tensor", group.tensor, "mono");
  fact("operation", members.length > 1
      ? groupLayers(members, {by: "operation"})[0].operation : c.operation,
      "mono");
  fact("made at", c.site, "mono");
  fact("dimension", c.dimension || "none", "mono");
  fact("rule", c.rule ? `${c.rule} (${c.rule_origin})` : "none", "mono");
  fact("time", `${seconds(sum("seconds"))}, ${
      seconds(sum("exposed"))} of it exposed`);
  fact("removed by", c.change === null ? `none: ${c.no_change}`
      : effectText(data.changes[c.change]));
  const close = make("button", "close", "close");
  close.type = "button";
  close.onclick = () => select([]);
  $("cause").replaceChildren(close, facts);
}

function select(numbers) {
  const selected = new Set(numbers);
  $("cause").hidden = !numbers.length;
  if (numbers.length) showCause(numbers);
  const causes = numbers.map(number => data.collectives[number - 1]);
  const rules = new Set(causes.flatMap(c => c.rules.map(i => data.rules[i])));
  const changes = new Set(causes.map(c => data.changes[c.change]));
  tables.collectives.mark(row => selected.has(row.number));
  tables.rules.mark(row => rules.has(row));
  tables.changes.mark(row => changes.has(row));
  timeline.selected = selected;
  timeline.draw();
  history.replaceState(null, "", `#${numbers.join(",")}`);
}

// --------------------------------------------------------------- theme
const prefersDark = matchMedia("(prefers-color-scheme: dark)");
function setTheme(dark) {
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  $("theme").textContent = dark ? "light" : "dark";
  timeline.draw();
}

fillHead();
fillTiles();
const timeline = new Timeline($("timeline"), data.timeline, data.cost.seconds,
                              number => select([number]));
fillMesh();
fillTotals();
fillMemory();
const tables = {collectives: collectiveTable(), changes: changeTable(),
                rules: ruleTable()};
moduleTable();
einsumTable();
setTheme(prefersDark.matches);
prefersDark.onchange = () => setTheme(prefersDark.matches);
$("theme").onclick = () =>
    setTheme(document.documentElement.dataset.theme === "light");
$("zoom_in").onclick = () => timeline.zoom(0.5);
$("zoom_out").onclick = () => timeline.zoom(2);
$("zoom_all").onclick = () => timeline.show(0, timeline.total);
window.addEventListener("keydown", event => {
  if (event.key === "Escape") select([]);
});
// Numbers in the URL select collectives.
const linked = location.hash.slice(1).split(",").map(Number).filter(
    number => data.collectives[number - 1]);
if (linked.length) select(linked);
