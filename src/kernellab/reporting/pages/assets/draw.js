// Draws the visible part. Events narrower than a pixel are drawn pixel by pixel, each as dark as it is busy.

const SHADES = 3;
const MOST_ARROWS = 200;

class Painter {
  constructor(canvas, events) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d", { alpha: false });
    this.events = events;
    this.theme();
  }

  // The colours are the style sheet's, light or dark.
  theme() {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(`--${name}`).trim();
    for (const name of ["paper", "band", "ink", "faint", "rule", "hit", "wait", "selected", "onbox", "onhit"])
      this[name] = colour(name);
    this.fills = [];
    for (let kind = 0; kind < this.events.kinds.length; kind++)
      for (let shade = 0; shade < SHADES; shade++)
        this.fills.push(mix(colour(`kind-${kind}`), this.paper, 0.14 * shade));
    this.font = "11px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace";
    this.context.font = this.font;
    this.glyph = this.context.measureText("MMMMMMMMMM").width / 10;
  }

  // The canvas has device pixels; all coordinates here are CSS pixels.
  resize(width, height) {
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
  }

  draw(view, tracks, search, selected, arrows, selection) {
    const context = this.context;
    context.globalAlpha = 1;
    context.fillStyle = this.paper;
    context.fillRect(0, 0, view.width, view.height);
    context.font = this.font;
    context.textBaseline = "middle";
    this.grid(view);
    for (const box of view.boxes) {
      const top = RULER + box.y - view.scroll;
      if (top > view.height || RULER + box.bottom - view.scroll < RULER) continue;
      for (let depth = 0; depth < box.rows; depth++) {
        const y = top + HEAD + depth * ROW;
        if (y + ROW > RULER && y < view.height) this.track(view, tracks, tracks.first[box.lane] + depth, y, search);
      }
      this.head(view, box, top);
    }
    for (const [from, to] of arrows.slice(0, MOST_ARROWS)) this.arrow(view, from, to);
    if (selected >= 0) this.outline(view, selected);
    this.ruler(view, search);
    if (selection) {
      context.globalAlpha = 0.25;
      context.fillStyle = this.selected;
      context.fillRect(Math.min(...selection), 0, Math.abs(selection[1] - selection[0]), view.height);
      context.globalAlpha = 1;
    }
  }

  track(view, tracks, track, y, search) {
    const { context, events } = this;
    const { from, to, scale } = view;
    const stop = tracks.start[track + 1];
    const marks = [];
    const pixel = 1 / scale;
    // Adjacent pixels that look the same are one box.
    let left = 0, right = 0, fill = "", alpha = 1;
    const flush = () => {
      if (right === left) return;
      context.globalAlpha = alpha;
      context.fillStyle = fill;
      context.fillRect(left, y, right - left, ROW - 1);
      left = right;
    };
    let at = tracks.firstEndingAfter(track, from);
    while (at < stop && tracks.begin[at] < to) {
      const x = (tracks.begin[at] - from) * scale;
      const width = (tracks.end[at] - tracks.begin[at]) * scale;
      if (width >= 1.5) {
        const row = tracks.row[at];
        const hit = search.active && search.upTo[at + 1] > search.upTo[at];
        this.box(row, Math.max(x, -1), Math.min(x + width, view.width + 1), y, hit, search.active);
        at += 1;
        continue;
      }
      // All events that begin in this pixel, except a wide last one.
      const here = Math.floor(x);
      let next = tracks.firstFrom(track, from + (here + 1) * pixel, at + 1);
      if (next - 1 > at && (tracks.end[next - 1] - tracks.begin[next - 1]) * scale >= 1.5) next -= 1;
      const busy = (tracks.busy[next] - tracks.busy[at]) * scale;
      const waits = tracks.waits[next] > tracks.waits[at];
      const hit = search.active && search.upTo[next] > search.upTo[at];
      const dark = hit ? 1 : (search.active ? 0.3 : 1) * (0.3 + 0.7 * Math.min(1, Math.round(busy * 16) / 16));
      const colour = hit ? this.hit : this.fills[events.kind[tracks.row[at]] * SHADES];
      if (here !== right || dark !== alpha || colour !== fill) {
        flush();
        [left, fill, alpha] = [here, colour, dark];
      }
      right = here + 1;
      if (waits) marks.push(here);
      at = next;
    }
    flush();
    context.globalAlpha = 1;
    context.fillStyle = this.wait;
    for (const x of marks) context.fillRect(x, y + ROW - 4, 1, 3);
  }

  box(row, left, right, y, hit, searching) {
    const { context, events } = this;
    const waits = events.waits[row] === 1;
    context.globalAlpha = searching && !hit ? 0.35 : 1;
    context.fillStyle = hit ? this.hit
      : waits ? this.wait
      : this.fills[events.kind[row] * SHADES + ((events.name[row] * 7) % SHADES)];
    const gap = right - left > 4 ? 1 : 0;
    context.fillRect(left, y, right - left - gap, ROW - 1);
    const letters = Math.floor((right - Math.max(left, 0) - 6) / this.glyph);
    if (letters < 3) return;
    const name = events.label(row);
    context.fillStyle = hit || waits ? this.onhit : this.onbox;
    context.fillText(name.length <= letters ? name : name.slice(0, letters - 1) + "…", Math.max(left, 0) + 3, y + ROW / 2);
  }

  head(view, box, top) {
    const { context } = this;
    const lane = this.events.lanes[box.lane];
    context.globalAlpha = 0.85;
    context.fillStyle = this.band;
    context.fillRect(0, top, view.width, HEAD - 2);
    context.globalAlpha = 1;
    context.fillStyle = this.ink;
    const label = `${box.rows ? "▾" : "▸"} ${lane.name} · ${lane.process}`;
    context.fillText(label.slice(0, Math.floor(view.width / this.glyph)), 6, top + HEAD / 2 - 1);
  }

  grid(view) {
    this.context.fillStyle = this.rule;
    for (const [x] of ticks(view)) this.context.fillRect(Math.round(x), RULER, 1, view.height);
  }

  // On top of everything: the times, and marks where the CPU waits for the GPU.
  ruler(view, search) {
    const { context, events } = this;
    context.fillStyle = this.paper;
    context.fillRect(0, 0, view.width, RULER);
    context.fillStyle = this.rule;
    context.fillRect(0, RULER - 1, view.width, 1);
    context.fillStyle = this.faint;
    for (const [x, label] of ticks(view)) {
      context.fillRect(Math.round(x), RULER - 8, 1, 8);
      context.fillText(label, x + 4, 9);
    }
    this.markWaits(view);
    if (search.active) this.markHits(view, search);
  }

  waitTimes() {
    if (!this.waitsAt) {
      const times = [];
      for (let row = 0; row < this.events.length; row++) if (this.events.waits[row]) times.push(this.events.begin[row]);
      this.waitsAt = Float64Array.from(times).sort();
    }
    return this.waitsAt;
  }

  // Marks along the ruler, as many as can be distinguished.
  markWaits(view) {
    const times = this.waitTimes();
    this.context.fillStyle = this.wait;
    for (let at = firstFrom(times, view.from); at < times.length && times[at] < view.to; ) {
      const x = view.x(times[at]);
      this.context.beginPath();
      this.context.moveTo(x - 4, RULER - 9);
      this.context.lineTo(x + 4, RULER - 9);
      this.context.lineTo(x, RULER - 1);
      this.context.fill();
      at = firstFrom(times, view.time(Math.floor(x) + 12), at + 1);
    }
  }

  markHits(view, search) {
    this.context.fillStyle = this.hit;
    for (let lane = 0; lane < this.events.lanes.length; lane++) {
      let at = search.firstHit(lane, view.from, 0);
      while (at < search.laneStart[lane + 1] && this.events.begin[search.hits[at]] < view.to) {
        const x = view.x(this.events.begin[search.hits[at]]);
        this.context.fillRect(x, RULER - 4, 2, 4);
        at = Math.max(search.firstHit(lane, view.time(Math.floor(x) + 2), 0), at + 1);
      }
    }
  }

  // From the middle of a call to the begin of what it launched.
  arrow(view, call, launched) {
    const { context, events } = this;
    const y0 = view.y(call), y1 = view.y(launched);
    if (y0 === null || y1 === null) return;
    const clamp = (x) => Math.min(Math.max(x, -5000), view.width + 5000);
    const x0 = clamp(view.x((events.begin[call] + events.end[call]) / 2));
    const x1 = clamp(view.x(events.begin[launched]));
    const bend = Math.max(Math.min(Math.abs(x1 - x0) / 2, 120), 12), side = y1 < y0 ? 1 : -1;
    context.strokeStyle = context.fillStyle = this.selected;
    context.lineWidth = 1.5;
    context.beginPath();
    context.moveTo(x0, y0 - (side * ROW) / 2);
    context.bezierCurveTo(x0, y0 - side * bend, x1 - bend, y1, x1 - 5, y1);
    context.stroke();
    context.beginPath();
    context.moveTo(x1, y1);
    context.lineTo(x1 - 7, y1 - 4);
    context.lineTo(x1 - 7, y1 + 4);
    context.fill();
  }

  outline(view, row) {
    const y = view.y(row);
    if (y === null || y < RULER) return;
    const left = Math.max(view.x(this.events.begin[row]), -4);
    const right = Math.min(view.x(this.events.end[row]), view.width + 4);
    this.context.strokeStyle = this.selected;
    this.context.lineWidth = 2;
    this.context.strokeRect(left - 0.5, y - ROW / 2, Math.max(right - left, 3), ROW - 1);
  }
}

// How busy the busiest stream is in each pixel of the overview; the busiest thread if nothing ran on a GPU.
function busyByPixel(events, width) {
  const gpu = Uint8Array.from(events.kinds, (kind) => (kind.gpu ? 1 : 0));
  const onGpu = events.kind.some((kind) => gpu[kind]);
  const scale = width / events.span;
  const busiest = new Float64Array(width);
  for (let lane = 0; lane < events.lanes.length; lane++) {
    if (events.lanes[lane].gpu !== onGpu) continue;
    const busy = new Float64Array(width + 1);
    let done = 0; // overlapping and nested events count once
    for (let row = events.laneStart[lane]; row < events.laneStart[lane + 1]; row++) {
      if (onGpu && !gpu[events.kind[row]]) continue;
      const from = Math.max(events.begin[row], done), to = events.end[row];
      if (to <= from) continue;
      done = to;
      let x = Math.min(Math.floor(from * scale), width - 1);
      const last = Math.min(Math.floor(to * scale), width - 1);
      busy[x] -= from * scale - x;
      for (; x < last; x++) busy[x] += 1;
      busy[last] += to * scale - last;
    }
    for (let x = 0; x < width; x++) busiest[x] = Math.max(busiest[x], Math.min(busy[x], 1));
  }
  return busiest;
}

// Round times about 110 pixels apart: their positions and labels.
function ticks(view) {
  const about = (110 / view.width) * (view.to - view.from);
  const power = 10 ** Math.floor(Math.log10(about));
  const step = Math.max([1, 2, 5, 10].find((by) => by * power >= about) * power, 1);
  const marks = [];
  for (let time = Math.max(Math.ceil(view.from / step), 0) * step; time <= view.to; time += step)
    marks.push([view.x(time), exactTime(time, step)]);
  return marks;
}

// A time with as many digits as the step between times needs.
function exactTime(time, step) {
  const [by, unit] = time < 1e3 ? [1, "ns"] : time < 1e6 ? [1e3, "µs"] : time < 1e9 ? [1e6, "ms"] : [1e9, "s"];
  return `${(time / by).toFixed(Math.max(0, Math.ceil(Math.log10(by / step) - 1e-9)))} ${unit}`;
}

function firstFrom(times, time, low = 0) {
  let high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] < time) low = middle + 1;
    else high = middle;
  }
  return low;
}

function mix(colour, other, share) {
  const parts = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  const [a, b] = [parts(colour), parts(other)];
  return `rgb(${a.map((value, i) => Math.round(value * (1 - share) + b[i] * share)).join(",")})`;
}
