// Which part of the trace is visible, and where each lane lies: converts times to pixels and back. Draws nothing.

const RULER = 24, HEAD = 20, ROW = 18, GAP = 8;
const SHORTEST = 20; // visible span, in nanoseconds

class View {
  constructor(events) {
    this.events = events;
    this.folded = new Set();
    this.width = this.height = 1;
    this.scroll = 0;
    this.boxes = [];
    this.total = 0;
    this.showAll();
  }

  get margin() {
    return 0.02 * this.events.span;
  }

  showAll() {
    [this.from, this.to] = [-this.margin, this.events.span + this.margin];
  }

  // Streams come first: they have few tracks, threads have many.
  layOut(tracks) {
    this.tracks = tracks;
    const order = this.events.lanes.map((_, lane) => lane).filter((lane) => tracks.depths[lane] > 0);
    const weight = (lane) => (this.events.lanes[lane].gpu ? 1e15 : 0) + this.events.lanes[lane].events;
    order.sort((a, b) => weight(b) - weight(a) || a - b);
    let y = 4;
    this.boxes = order.map((lane) => {
      const rows = this.folded.has(lane) ? 0 : tracks.depths[lane];
      const box = { lane, y, rows, bottom: y + HEAD + rows * ROW };
      y = box.bottom + GAP;
      return box;
    });
    this.total = y + RULER;
  }

  get scale() {
    return this.width / (this.to - this.from); // pixels per nanosecond
  }
  x(time) {
    return (time - this.from) * this.scale;
  }
  time(x) {
    return this.from + x / this.scale;
  }

  show(from, to) {
    const span = Math.min(Math.max(to - from, SHORTEST), this.events.span + 2 * this.margin);
    const middle = (from + to) / 2;
    const least = -this.margin, most = this.events.span + this.margin - span;
    this.from = Math.min(Math.max(middle - span / 2, least), Math.max(most, least));
    this.to = this.from + span;
  }

  zoom(factor, x = this.width / 2) {
    const at = this.time(x);
    const span = Math.min(Math.max((this.to - this.from) * factor, SHORTEST), this.events.span + 2 * this.margin);
    const from = at - (x / this.width) * span;
    this.show(from, from + span);
  }

  pan(pixels) {
    const by = pixels / this.scale;
    this.show(this.from + by, this.to + by);
  }

  boxOf(lane) {
    return this.boxes.find((box) => box.lane === lane);
  }

  // The middle of an event's row, from the top of the canvas; if its lane is folded, of the lane's name.
  y(row) {
    const box = this.boxOf(this.events.laneOf(row));
    if (!box || this.tracks.depth[row] === HIDDEN) return null;
    const top = RULER + box.y - this.scroll;
    return box.rows ? top + HEAD + (this.tracks.depth[row] + 0.5) * ROW : top + HEAD / 2;
  }

  // What lies under a point: a lane's name, an event, or nothing.
  hitTest(x, y) {
    if (y < RULER) return {};
    const down = y - RULER + this.scroll;
    const box = this.boxes.find(({ y: top, bottom }) => down >= top && down < bottom);
    if (!box) return {};
    if (down < box.y + HEAD) return { lane: box.lane };
    const track = this.tracks.first[box.lane] + Math.floor((down - box.y - HEAD) / ROW);
    return { row: this.tracks.rowAt(track, this.time(x), 3 / this.scale) };
  }

  // Make an event visible; the visible span changes only if it must.
  reveal(row) {
    const begin = this.events.begin[row], length = this.events.end[row] - begin, span = this.to - this.from;
    if (begin < this.from || begin + Math.min(length, span / 2) > this.to || length * this.scale < 2) {
      const wide = length * this.scale < 2 ? Math.max(length * 40, SHORTEST) : Math.max(span, length * 1.5);
      this.show(begin + length / 2 - wide / 2, begin + length / 2 + wide / 2);
    }
    const y = this.y(row);
    if (y !== null && (y < RULER + HEAD || y > this.height - ROW)) {
      const most = Math.max(this.total - this.height, 0);
      this.scroll = Math.min(Math.max(this.scroll + y - this.height / 2, 0), most);
    }
  }
}
