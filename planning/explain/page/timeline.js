"use strict";
// The timeline: phases, compute and collectives on a canvas.

// Top and height of each lane, in pixels.
const LANES = {
  phases: [18, 18], compute: [42, 40], collectives: [90, 40], height: 134};

// Runs of consecutive entries of one phase: name, begin and end.
function phasesOf(entries, end) {
  const phases = [];
  for (const {phase, begin} of entries) {
    if (phases.at(-1)?.name === phase) continue;
    if (phases.length) phases.at(-1).end = begin;
    phases.push({name: phase, begin, end});
  }
  return phases;
}

// The largest of 1, 2 and 5 times a power of ten up to `most`.
function roundStep(most) {
  const power = 10 ** Math.floor(Math.log10(most));
  return power * [5, 2, 1].find(factor => factor * power <= most);
}

class Timeline {
  // `select` is called with the number of the collective that is clicked.
  constructor(canvas, entries, seconds_of_step, select) {
    this.canvas = canvas;
    this.pen = canvas.getContext("2d");
    this.entries = entries;
    this.total = Math.max(seconds_of_step, entries.at(-1)?.end ?? 0, 1e-12);
    this.phases = phasesOf(entries, this.total);
    this.from = 0;
    this.to = this.total;
    this.select = select;
    this.selected = new Set();
    this.drag = null;
    canvas.onpointerdown = event => this.beginDrag(event);
    canvas.onpointermove = event => this.move(event);
    canvas.onpointerup = event => this.endDrag(event);
    canvas.onpointerleave = () => this.showTip(null);
    canvas.ondblclick = () => this.show(0, this.total);
    canvas.addEventListener("wheel", event => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      this.zoom(event.deltaY > 0 ? 1.25 : 0.8, this.timeAt(event));
    }, {passive: false});
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  show(from, to) {
    const span = Math.min(to - from, this.total);
    this.from = Math.min(Math.max(0, from), this.total - span);
    this.to = this.from + span;
    this.draw();
  }

  zoom(factor, at = (this.from + this.to) / 2) {
    this.show(at - (at - this.from) * factor, at + (this.to - at) * factor);
  }

  draw() {
    const {canvas, pen} = this, scale = devicePixelRatio || 1;
    const width = canvas.clientWidth;
    canvas.width = width * scale;
    canvas.height = LANES.height * scale;
    canvas.style.height = `${LANES.height}px`;
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.font = '11px system-ui, "DejaVu Sans", sans-serif';
    pen.textBaseline = "middle";
    const style = getComputedStyle(document.documentElement);
    this.color = name => style.getPropertyValue(`--${name}`);
    this.x = time => (time - this.from) / (this.to - this.from) * width;
    this.drawTicks(width);
    for (const phase of this.phases) {
      this.drawBox(phase, LANES.phases, this.color(phase.name));
      const text = `${phase.name} ${seconds(phase.end - phase.begin)}`;
      const room = this.x(phase.end) - this.x(phase.begin) - 10;
      this.drawLabel(pen.measureText(text).width < room ? text : phase.name,
                     phase, LANES.phases, this.color("ink"));
    }
    for (const entry of this.entries) {
      if (entry.end < this.from || entry.begin > this.to) continue;
      if (entry.collective) {
        this.drawCollective(entry);
      } else {
        this.drawBox(entry, LANES.compute, this.color("compute"));
        this.drawLabel(entry.name, entry, LANES.compute,
                       this.color("on-compute"));
      }
    }
  }

  drawTicks(width) {
    const {pen} = this;
    const step = roundStep(
        (this.to - this.from) / Math.max(2, Math.floor(width / 110)));
    pen.textAlign = "center";
    for (let i = Math.ceil(this.from / step); i * step <= this.to; ++i) {
      const x = this.x(i * step), text = seconds(i * step);
      const half = pen.measureText(text).width / 2;
      pen.fillStyle = this.color("line");
      pen.fillRect(x, 14, 1, LANES.height - 14);
      pen.fillStyle = this.color("soft");
      if (x + half <= width) pen.fillText(text, Math.max(x, half), 6);
    }
    pen.textAlign = "left";
  }

  drawBox({begin, end}, [top, height], color) {
    const left = this.x(begin), right = Math.max(left + 0.5, this.x(end));
    // A gap separates adjacent boxes that are wide enough.
    const gap = right - left > 5 ? 1 : 0;
    this.pen.fillStyle = color;
    this.pen.fillRect(left, top, right - left - gap, height);
  }

  // A box of which the exposed part is filled from below.
  drawCollective(entry) {
    const [top, height] = LANES.collectives, {pen} = this;
    const duration = entry.end - entry.begin;
    const high = duration > 0 ? height * entry.exposed / duration : 0;
    this.drawBox(entry, LANES.collectives, this.color("hidden"));
    this.drawBox(entry, [top + height - high, high], this.color("exposed"));
    if (this.selected.has(entry.collective)) {
      const left = this.x(entry.begin);
      pen.strokeStyle = this.color("ink");
      pen.lineWidth = 2;
      pen.strokeRect(left, top - 2, Math.max(1, this.x(entry.end) - left),
                     height + 4);
    }
    this.drawLabel(entry.name, entry, LANES.collectives, this.color("ink"));
  }

  // Writes `text` into the visible part of a box, unless that is too narrow for
  // the first words.
  drawLabel(text, {begin, end}, [top, height], color) {
    const {pen} = this;
    const left = Math.max(0, this.x(begin));
    const right = Math.min(this.canvas.clientWidth, this.x(end));
    if (right - left < Math.min(110, pen.measureText(text).width + 8)) return;
    pen.save();
    pen.beginPath();
    pen.rect(left, top, right - left - 3, height);
    pen.clip();
    pen.fillStyle = color;
    pen.fillText(text, left + 5, top + height / 2 + 1);
    pen.restore();
  }

  timeAt(event) {
    const box = this.canvas.getBoundingClientRect();
    return this.from +
        (event.clientX - box.left) / box.width * (this.to - this.from);
  }

  laneAt(event) {
    const y = event.clientY - this.canvas.getBoundingClientRect().top;
    return ["phases", "compute", "collectives"].find(
        name => LANES[name][0] <= y && y < LANES[name][0] + LANES[name][1]);
  }

  entryAt(event) {
    const lane = this.laneAt(event), time = this.timeAt(event);
    if (lane !== "compute" && lane !== "collectives") return undefined;
    const slack = (this.to - this.from) / this.canvas.clientWidth * 2;
    return this.entries.find(
        entry => (entry.collective !== null) === (lane === "collectives") &&
            entry.begin - slack <= time && time <= entry.end + slack);
  }

  beginDrag(event) {
    this.drag = {x: event.clientX, from: this.from, moved: false};
    this.canvas.setPointerCapture(event.pointerId);
  }

  move(event) {
    if (!this.drag) {
      const entry = this.entryAt(event);
      this.canvas.style.cursor =
          entry?.collective || this.laneAt(event) === "phases" ? "pointer" : "";
      this.showTip(entry, event);
      return;
    }
    const span = this.to - this.from, shift = event.clientX - this.drag.x;
    this.drag.moved = this.drag.moved || Math.abs(shift) > 3;
    if (!this.drag.moved) return;
    const from = this.drag.from - shift / this.canvas.clientWidth * span;
    this.show(from, from + span);
  }

  endDrag(event) {
    const moved = this.drag?.moved;
    this.drag = null;
    if (moved) return;
    const entry = this.entryAt(event), time = this.timeAt(event);
    if (entry?.collective) this.select(entry.collective);
    if (this.laneAt(event) !== "phases") return;
    const phase = this.phases.find(
        ({begin, end}) => begin <= time && time <= end);
    if (phase) this.show(phase.begin, phase.end);
  }

  showTip(entry, event) {
    const tip = $("tip");
    tip.hidden = !entry;
    if (!entry) return;
    tip.textContent =
        `${entry.name}: ${seconds(entry.end - entry.begin)} from ` +
        seconds(entry.begin) +
        (entry.collective ? `, ${seconds(entry.exposed)} exposed` : "");
    tip.style.left =
        `${Math.max(4, Math.min(event.clientX + 14, innerWidth - 430))}px`;
    tip.style.top = `${event.clientY + 16}px`;
  }
}
