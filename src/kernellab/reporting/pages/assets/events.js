"use strict";
// The table of events: unpacked from the page, one typed array for each column. Rows are ordered by lane, then by time.

class Events {
  constructor(about, columns) {
    const rows = about.events;
    this.length = rows;
    this.span = Math.max(about.span, 1);
    this.kinds = about.kinds;
    this.kind = columns.kind;
    this.name = columns.name;
    this.launcher = columns.launcher; // the row of the call that launched it, plus one; 0 if unknown
    this.waits = columns.waits;
    this.names = JSON.parse(new TextDecoder().decode(columns.names));
    this.lower = this.names.map((name) => name.toLowerCase());
    this.lanes = about.lanes;
    this.laneStart = new Uint32Array(about.lanes.length + 1);
    about.lanes.forEach((lane, i) => (this.laneStart[i + 1] = this.laneStart[i] + lane.events));
    this.begin = new Float64Array(rows);
    this.end = new Float64Array(rows);
    for (let lane = 0; lane < this.lanes.length; lane++) {
      let now = 0;
      for (let row = this.laneStart[lane]; row < this.laneStart[lane + 1]; row++) {
        now += columns.since[row] + columns.since_high[row] * 4294967296;
        this.begin[row] = now;
        this.end[row] = now + columns.duration[row] + columns.duration_high[row] * 4294967296;
      }
    }
    this.detail = columns.detail;
    this.detailText = columns.details;
    this.detailLines = null;
    this.linkLaunches();
  }

  text(row) {
    return this.names[this.name[row]];
  }

  // The name on a box. For a Python function its own name comes first, as the rest may be cut off.
  label(row) {
    const name = this.text(row);
    if (this.kinds[this.kind[row]].one === "kernel") return name.replace(/^void /, "");
    if (this.kinds[this.kind[row]].one !== "Python function") return name;
    const [, file, line, functionName] = name.match(/([^/]*)\((\d+)\): (.*)$/) ?? [];
    return functionName
      ? `${functionName} ${file}:${line}`
      : name.replace(/^<built-in (method|function) (\w+).*/, "$2 (built-in)");
  }

  laneOf(row) {
    let low = 0, high = this.lanes.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.laneStart[middle] <= row) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  // Pairs of a name and a value. The lines are found when first needed: most visits do not need them.
  details(row) {
    if (!this.detailLines) {
      this.detailLines = [0];
      for (let at = this.detailText.indexOf(10); at >= 0; at = this.detailText.indexOf(10, at + 1))
        this.detailLines.push(at + 1);
      this.detailLines.push(this.detailText.length + 1);
    }
    const at = this.detail[row];
    const bytes = this.detailText.subarray(this.detailLines[at], this.detailLines[at + 1] - 1);
    return bytes.length ? JSON.parse(new TextDecoder().decode(bytes)) : [];
  }

  // The row after the last one inside a row: the rows inside follow it.
  after(row) {
    const stop = this.laneStart[this.laneOf(row) + 1];
    let low = row + 1, high = stop;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.begin[middle] < this.end[row]) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  // For each call the first row it launched, and for each such row the next one.
  linkLaunches() {
    this.firstLaunched = new Int32Array(this.length).fill(-1);
    this.nextLaunched = new Int32Array(this.length).fill(-1);
    for (let row = this.length - 1; row >= 0; row--) {
      const call = this.launcher[row] - 1;
      if (call < 0) continue;
      this.nextLaunched[row] = this.firstLaunched[call];
      this.firstLaunched[call] = row;
    }
  }

  launchedBy(call) {
    const rows = [];
    for (let row = this.firstLaunched[call]; row >= 0; row = this.nextLaunched[row]) rows.push(row);
    return rows;
  }
}

async function unpack(about, packed) {
  if (typeof DecompressionStream === "undefined") throw new Error("this browser is too old to unpack the events");
  const bytes = Uint8Array.fromBase64
    ? Uint8Array.fromBase64(packed)
    : Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const all = new Uint8Array(await new Response(stream).arrayBuffer());
  const columns = {};
  let at = 0;
  for (const [name, width, length] of about.columns) {
    const part = all.subarray(at, at + length);
    columns[name] = width === 4 ? joinPlanes(part) : part;
    at += length;
  }
  return new Events(about, columns);
}

// 32-bit values from byte planes: the lowest byte of every value, then the next byte of every value, and so on.
function joinPlanes(bytes) {
  const values = new Uint32Array(bytes.length / 4);
  const [a, b, c] = [values.length, 2 * values.length, 3 * values.length];
  for (let i = 0; i < values.length; i++)
    values[i] = bytes[i] | (bytes[i + a] << 8) | (bytes[i + b] << 16) | (bytes[i + c] << 24);
  return values;
}

function duration(ns) {
  const size = Math.abs(ns);
  const [by, unit] = size < 1e3 ? [1, "ns"] : size < 1e6 ? [1e3, "µs"] : size < 1e9 ? [1e6, "ms"] : [1e9, "s"];
  const value = ns / by;
  return `${unit === "ns" ? Math.round(value) : Number(value.toPrecision(4))} ${unit}`;
}
