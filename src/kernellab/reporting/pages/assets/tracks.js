// Where events lie on the page: each lane has a track for each depth. The events of a track do not overlap and are
// sorted, so that the visible ones are found by binary search, and many in one pixel cost one step.

const HIDDEN = 0xffff;
const DEEPEST = 400; // tracks of a lane; deeper events are not drawn

class Tracks {
  constructor(events, shown) {
    const rows = events.length;
    const depth = new Uint16Array(rows).fill(HIDDEN);
    const lanes = events.lanes.length;
    this.depths = new Uint16Array(lanes);
    this.tooDeep = 0;
    const ends = new Float64Array(DEEPEST), open = new Uint32Array(DEEPEST);
    const range = events.kinds.findIndex((kind) => kind.one === "range");
    this.drawnTo = events.end.slice();
    for (let lane = 0; lane < lanes; lane++) {
      let top = 0, most = 0;
      for (let row = events.laneStart[lane]; row < events.laneStart[lane + 1]; row++) {
        if (!shown[events.kind[row]]) continue;
        while (top && ends[top - 1] <= events.begin[row]) top--;
        // A range begins inside the call that opens it and outlasts that call: the call is drawn up to there.
        while (events.kind[row] === range && top && ends[top - 1] < events.end[row] && events.kind[open[top - 1]] !== range)
          this.drawnTo[open[--top]] = events.begin[row];
        if (top === DEEPEST) {
          this.tooDeep += 1;
          continue;
        }
        depth[row] = top;
        open[top] = row;
        ends[top++] = events.end[row];
        if (top > most) most = top;
      }
      this.depths[lane] = most;
    }
    this.first = new Uint32Array(lanes + 1); // a lane's first track
    for (let lane = 0; lane < lanes; lane++) this.first[lane + 1] = this.first[lane] + this.depths[lane];
    this.depth = depth;
    this.sort(events);
  }

  // Rows by track: a counting sort, which keeps the order of time.
  sort(events) {
    const { depth, first, drawnTo } = this;
    const rows = events.length, lanes = events.lanes.length, tracks = first[lanes];
    const start = new Uint32Array(tracks + 1);
    for (let lane = 0; lane < lanes; lane++)
      for (let row = events.laneStart[lane], stop = events.laneStart[lane + 1]; row < stop; row++)
        if (depth[row] !== HIDDEN) start[first[lane] + depth[row] + 1]++;
    for (let track = 0; track < tracks; track++) start[track + 1] += start[track];
    const next = start.slice(), placed = start[tracks];
    const rowOf = new Uint32Array(placed), place = new Int32Array(rows).fill(-1);
    const begin = new Float64Array(placed), end = new Float64Array(placed);
    for (let lane = 0; lane < lanes; lane++)
      for (let row = events.laneStart[lane], stop = events.laneStart[lane + 1]; row < stop; row++) {
        if (depth[row] === HIDDEN) continue;
        const at = next[first[lane] + depth[row]]++;
        rowOf[at] = row;
        place[row] = at;
        begin[at] = events.begin[row];
        end[at] = drawnTo[row];
      }
    // Prefix sums: how busy a pixel is, and whether it holds a blocking call, are one subtraction.
    const busy = new Float64Array(placed + 1), waits = new Uint32Array(placed + 1);
    for (let at = 0; at < placed; at++) {
      busy[at + 1] = busy[at] + end[at] - begin[at];
      waits[at + 1] = waits[at] + events.waits[rowOf[at]];
    }
    Object.assign(this, { start, row: rowOf, place, begin, end, busy, waits });
  }

  // The first place of a track, from `low` on, whose event begins at `time` or later.
  firstFrom(track, time, low = this.start[track]) {
    const stop = this.start[track + 1];
    let step = 1, high = low;
    while (high < stop && this.begin[high] < time) {
      low = high + 1;
      high += step;
      step *= 2;
    }
    high = Math.min(high, stop);
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.begin[middle] < time) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  // The first place of a track whose event ends after `time`.
  firstEndingAfter(track, time) {
    const at = this.firstFrom(track, time);
    return at > this.start[track] && this.end[at - 1] > time ? at - 1 : at;
  }

  // The row of a track at `time`, or the nearest within `tolerance` nanoseconds; -1 if there is none.
  rowAt(track, time, tolerance) {
    const next = this.firstFrom(track, time);
    let best = -1, distance = tolerance;
    for (const place of [next - 1, next]) {
      if (place < this.start[track] || place >= this.start[track + 1]) continue;
      const away = Math.max(this.begin[place] - time, time - this.end[place], 0);
      if (away <= distance && (best < 0 || away < distance)) [best, distance] = [place, away];
    }
    return best < 0 ? -1 : this.row[best];
  }

  // The row that encloses another in its lane: the last one before it that is a depth above; -1 if there is none.
  enclosing(events, row) {
    if (this.depth[row] === 0 || this.depth[row] === HIDDEN) return -1;
    const track = this.first[events.laneOf(row)] + this.depth[row] - 1;
    let low = this.start[track], high = this.start[track + 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.row[middle] < row) low = middle + 1;
      else high = middle;
    }
    return low > this.start[track] ? this.row[low - 1] : -1;
  }

  firstInside(events, row) {
    const stop = events.after(row);
    for (let inner = row + 1; inner < stop; inner++) if (this.depth[inner] === this.depth[row] + 1) return inner;
    return -1;
  }

  // The row before or after another in its track.
  neighbour(events, row, step) {
    const track = this.first[events.laneOf(row)] + this.depth[row];
    const place = this.place[row] + step;
    return place < this.start[track] || place >= this.start[track + 1] ? -1 : this.row[place];
  }
}
