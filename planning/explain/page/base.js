"use strict";
// The data, elements, units, and groups of equal layers.

const $ = id => document.getElementById(id);
const data = JSON.parse($("explanation").textContent);
const axes = data.mesh.axes;

function make(tag, text, style) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (style) element.className = style;
  return element;
}

// Units as in the text: "1.23 us", "1.50 KiB".
function scaled(value, units, step) {
  let i = 0;
  while (i + 1 < units.length && Math.abs(value) >= step * 0.9995) {
    value /= step;
    ++i;
  }
  return [value, units[i]];
}
function threeDigits(value, units) {
  const [number, unit] = scaled(value, units, 1000);
  return `${Number(number.toPrecision(3))} ${unit}`;
}
const seconds = value =>
    value === 0 ? "0" : threeDigits(value * 1e9, ["ns", "us", "ms", "s"]);
const flops = value => threeDigits(
    value, ["FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"]);
function bytes(value) {
  const [number, unit] =
      scaled(value, ["B", "KiB", "MiB", "GiB", "TiB"], 1024);
  const size = Math.abs(number);
  const decimals = unit === "B" || size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
  return `${number.toFixed(decimals)} ${unit}`;
}
const grouped = value => value.toLocaleString("en");
const plural = (count, noun) => `${grouped(count)} ${noun}${
    count === 1 ? "" : "s"}`;
// Zeros are left blank, which keeps a table readable.
const blankZero = text => value => value ? text(value) : "";

// A name split at the number of its first numbered scope, as SplitLayer() does:
// "layer_0/ffn/einsum" is "layer_", 0, "/ffn/einsum".
function splitLayer(name) {
  const found = name.match(/^((?:[^/]*\/)*?[^/]+_)(\d{1,9})(\/.*)$/s);
  return found ? {prefix: found[1], layer: Number(found[2]), suffix: found[3]}
               : {prefix: "", layer: -1, suffix: name};
}

// "0..11,13" for a list of layers.
function layerRanges(layers) {
  const sorted = [...new Set(layers)].sort((a, b) => a - b);
  const ranges = [];
  for (const layer of sorted) {
    const last = ranges.at(-1);
    if (last && last[1] === layer - 1) {
      last[1] = layer;
    } else {
      ranges.push([layer, layer]);
    }
  }
  return ranges.map(([a, b]) => a === b ? `${a}` : `${a}..${b}`).join(",");
}

// Merges rows that differ only in their layer. Rows share a group if their
// names (row[by]) differ only in the layer and their `equal` keys are equal. A
// group is its first row with the name "layer_0..11/ffn", the `sums` of its
// members, and `members`.
function groupLayers(rows, {by, sums = [], equal = []}) {
  const groups = new Map();
  for (const row of rows) {
    const name = splitLayer(row[by]);
    const key = name.layer < 0 ? groups.size : JSON.stringify(
        [name.prefix, name.suffix, ...equal.map(key => row[key])]);
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(row);
  }
  return [...groups.values()].map(members => {
    if (members.length === 1) return {...members[0], members};
    const {prefix, suffix} = splitLayer(members[0][by]);
    const layers = members.map(row => splitLayer(row[by]).layer);
    const group = {...members[0], members,
                   [by]: prefix + layerRanges(layers) + suffix};
    for (const key of sums) {
      group[key] = members.reduce((sum, row) => sum + row[key], 0);
    }
    return group;
  });
}
