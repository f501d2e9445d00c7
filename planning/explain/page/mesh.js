"use strict";
// The drawing of the mesh: which shard of a tensor each device holds.

const MOST_ROWS = 12, MOST_COLUMNS = 16;

// The hue of a shard, the same on all devices; adjacent shards differ clearly.
const shardColor = (shard, shards) => shards === 1 ? "var(--faint)"
    : `hsl(${(shard * 360 / Math.min(shards, 24) +
              (shards > 24 ? shard * 137.5 : 0)) % 360} 50% calc(var(--shard) +
              ${6 * (shard % 2)}%))`;

// The coordinates of a rank on all axes.
function coordinatesOf(rank) {
  const coordinates = [];
  for (let a = axes.length - 1; a >= 0; --a) {
    coordinates[a] = rank % axes[a].size;
    rank = Math.floor(rank / axes[a].size);
  }
  return coordinates;
}

// The shard of `dimensions` at `coordinates`: its index, the number of shards,
// and its range of each dimension as text.
function shardAt(dimensions, coordinates) {
  let shard = 0, shards = 1;
  const ranges = dimensions.map(({name, size, padded, axes: sharding}) => {
    let index = 0, count = 1;
    for (const axis of sharding) {
      index = index * axes[axis].size + coordinates[axis];
      count *= axes[axis].size;
    }
    shard = shard * count + index;
    shards *= count;
    const begin = index * padded / count;
    const end = Math.min(size, begin + padded / count);
    return begin < end ? `${name} ${begin}..${end - 1}` : `${name} (padding)`;
  });
  return {shard, shards, ranges: ranges.length ? ranges : ["replicated"]};
}

function drawMesh(tensor) {
  const last = axes.length - 1;
  const all_columns = axes.length ? axes[last].size : 1;
  const all_rows = data.mesh.devices / all_columns;
  const rows = Math.min(all_rows, MOST_ROWS);
  const columns = Math.min(all_columns, MOST_COLUMNS);
  const sharded = tensor.dimensions.filter(d => d.axes.length);
  const widest = sharded.map(({name, size, padded}) => Math.max(
      `${name} ${size}..${size}`.length,
      padded > size ? `${name} (padding)`.length : 0));
  const width = Math.max(92, 10 + 7 * Math.max(8, ...widest));
  const height = 24 + 14 * Math.max(1, sharded.length), top = 24;
  // Each row is labelled with its coordinates on all axes but the last.
  const rowLabel = coordinates => axes.slice(0, -1).map(
      (axis, a) => `${axis.name} ${coordinates[a]}`).join(", ");
  const left = last < 1 ? 2
      : 10 + 7 * rowLabel(axes.map(axis => axis.size - 1)).length;
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  svg.setAttribute("width", left + columns * width + 4);
  svg.setAttribute("height", top + rows * height + 4);
  const put = (tag, attributes, text) => {
    const element = document.createElementNS(space, tag);
    for (const key in attributes) element.setAttribute(key, attributes[key]);
    if (text !== undefined) element.textContent = text;
    svg.append(element);
  };
  for (let c = 0; c < columns && axes.length; ++c) {
    put("text", {x: left + c * width + 6, y: top - 8},
        `${axes[last].name} ${c}`);
  }
  for (let r = 0; r < rows; ++r) {
    const y = top + r * height;
    put("text", {x: 2, y: y + height / 2 + 4},
        rowLabel(coordinatesOf(r * all_columns)));
    for (let c = 0; c < columns; ++c) {
      const rank = r * all_columns + c, x = left + c * width;
      const {shard, shards, ranges} = shardAt(sharded, coordinatesOf(rank));
      put("rect", {x, y, width: width - 3, height: height - 3, rx: 3,
                   style: `fill: ${shardColor(shard, shards)}`});
      put("text", {x: x + 6, y: y + 14, "font-weight": 600, class: "shard"},
          `rank ${rank}`);
      ranges.forEach((range, i) => put(
          "text", {x: x + 6, y: y + 28 + 14 * i, class: "shard"}, range));
    }
  }
  $("mesh").replaceChildren(svg);
  const type = tensor.dimensions.map(d => `${d.name}:${d.size}` +
      (d.axes.length ? `/${d.axes.map(a => axes[a].name).join("+")}` : ""));
  $("tensor_note").textContent = `${tensor.dtype}[${type.join(", ")}], ` +
      `${bytes(tensor.bytes)} on each rank`;
  $("mesh_note").textContent =
      "One box per device; boxes of the same color hold the same shard. " +
      (rows < all_rows || columns < all_columns
          ? `Only the first ${columns} of ${all_columns} columns and ` +
            `${rows} of ${all_rows} rows are shown.`
          : "");
}

function fillMesh() {
  if (!axes.length) $("layout").hidden = true;
  const select = $("tensor");
  const placed = data.tensors.map(tensor => ({
      ...tensor,
      placement: JSON.stringify([tensor.dtype, tensor.dimensions])}));
  const tensors = groupLayers(
      placed, {by: "name", equal: ["kind", "placement"]});
  tensors.forEach((tensor, i) => {
    const option = make("option", `${tensor.name} (${tensor.kind})`);
    option.value = i;
    select.append(option);
  });
  select.onchange = () => drawMesh(tensors[select.value]);
  if (!tensors.length) return;
  // Start with the parameter that is sharded along most dimensions.
  const sharding = ({kind, dimensions}) => kind !== "parameter" ? 0
      : dimensions.filter(d => d.axes.length).length;
  const most = Math.max(...tensors.map(sharding));
  select.value = Math.max(
      0, tensors.findIndex(tensor => most && sharding(tensor) === most));
  select.onchange();
}
