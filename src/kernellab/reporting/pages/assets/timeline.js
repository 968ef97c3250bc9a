// The page: which event is selected, what is searched and shown, and how mouse, touch and keys change that.

const byId = (id) => document.getElementById(id);

class Timeline {
  constructor(events) {
    this.events = events;
    this.shown = events.kinds.map(() => true);
    this.view = new View(events);
    this.painter = new Painter(byId("canvas"), events);
    this.details = new Details(byId("details"), events, (row) => this.goTo(row));
    this.selected = -1;
    this.arrows = [];
    this.selection = null; // the part of the ruler being dragged over, in pixels
    this.pointers = new Map();
    this.frameRequested = false;
    this.arrange();
    this.addKindButtons();
    this.listen();
    this.resize();
  }

  // Tracks are rebuilt when kinds are hidden or shown.
  arrange() {
    this.tracks = new Tracks(this.events, this.shown);
    this.view.layOut(this.tracks);
    this.search = new Search(this.events, this.tracks, byId("search").value);
  }

  addKindButtons() {
    const present = new Set(this.events.kind);
    for (const [kind, { many }] of this.events.kinds.entries()) {
      if (!present.has(kind)) continue;
      const button = element("button", many, byId("kinds"));
      button.dataset.kind = kind;
      button.setAttribute("aria-pressed", "true");
      button.addEventListener("click", () => {
        this.shown[kind] = !this.shown[kind];
        button.setAttribute("aria-pressed", String(this.shown[kind]));
        this.arrange();
        if (this.selected >= 0 && !this.shown[this.events.kind[this.selected]]) this.select(-1);
        this.showHits();
        this.resize();
      });
    }
  }

  resize() {
    byId("tall").style.height = `${this.view.total}px`;
    const room = byId("scroll");
    this.view.width = Math.max(room.clientWidth, 1);
    this.view.height = Math.max(room.clientHeight, 1);
    this.painter.resize(this.view.width, this.view.height);
    this.paint(); // at once: a resized canvas is black until it is drawn on
  }

  // All changes before the next frame are drawn together.
  redraw() {
    if (this.frameRequested) return;
    this.frameRequested = true;
    requestAnimationFrame(() => {
      this.frameRequested = false;
      this.paint();
    });
  }

  paint() {
    this.view.scroll = byId("scroll").scrollTop;
    this.painter.draw(this.view, this.tracks, this.search, this.selected, this.arrows, this.selection);
    this.paintOverview();
    const { from, to } = this.view;
    byId("shown").textContent =
      `${duration(Math.max(from, 0))} – ${duration(Math.min(to, this.events.span))} of ${duration(this.events.span)}, ` +
      `${this.events.length.toLocaleString("en")} events` +
      (this.tracks.tooDeep ? `, ${this.tracks.tooDeep.toLocaleString("en")} of them too deep to draw` : "");
  }

  paintOverview() {
    const canvas = byId("overview"), ratio = window.devicePixelRatio || 1;
    const width = canvas.clientWidth, height = canvas.clientHeight;
    if (this.busy?.length !== width) {
      canvas.width = width * ratio;
      canvas.height = height * ratio;
      this.busy = busyByPixel(this.events, width);
    }
    const context = canvas.getContext("2d"), { painter, view } = this;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = painter.band;
    context.fillRect(0, 0, width, height);
    context.fillStyle = painter.faint;
    for (let x = 0; x < width; x++) {
      const bar = Math.max(Math.round(this.busy[x] * (height - 2)), 1);
      if (this.busy[x] > 0) context.fillRect(x, height - bar, 1, bar);
    }
    const left = (Math.max(view.from, 0) / this.events.span) * width;
    const right = (Math.min(view.to, this.events.span) / this.events.span) * width;
    context.strokeStyle = painter.selected;
    context.lineWidth = 2;
    context.strokeRect(left + 1, 1, Math.max(right - left - 2, 2), height - 2);
  }

  select(row) {
    this.selected = row;
    this.arrows = row < 0 ? [] : launches(this.events, row);
    const wasHidden = byId("details").hidden;
    this.details.show(row, this.tracks, this.arrows, () => this.select(-1));
    const { events } = this;
    if (row >= 0)
      byId("status").textContent = `${events.text(row).slice(0, 200)}, ${duration(events.end[row] - events.begin[row])}`;
    if (wasHidden !== byId("details").hidden) this.resize();
    this.showHits();
    this.redraw();
  }

  // Select an event and make it visible; a hidden kind is shown again.
  goTo(row) {
    if (row < 0) return;
    if (this.tracks.place[row] < 0) {
      const kind = this.events.kind[row];
      const button = document.querySelector(`#kinds [data-kind="${kind}"]`);
      if (button.getAttribute("aria-pressed") === "false") button.click();
    }
    const lane = this.events.laneOf(row);
    if (this.view.folded.has(lane)) this.fold(lane);
    this.select(row);
    this.view.reveal(row);
    byId("scroll").scrollTop = this.view.scroll;
    this.redraw();
  }

  fold(lane) {
    if (!this.view.folded.delete(lane)) this.view.folded.add(lane);
    this.view.layOut(this.tracks);
    this.resize();
  }

  searchFor(text) {
    this.search = new Search(this.events, this.tracks, text);
    this.showHits();
    this.redraw();
  }

  showHits() {
    const { search } = this;
    const on = this.selected >= 0 && search.isHit(this.selected, this.tracks);
    byId("found").textContent = !search.active
      ? ""
      : on
        ? `${search.rank(this.selected).toLocaleString("en")} of ${search.count.toLocaleString("en")}`
        : `${search.count.toLocaleString("en")} found`;
  }

  goToHit(step) {
    const time = this.selected >= 0 ? this.events.begin[this.selected] : this.view.from;
    const row = this.selected >= 0 ? this.selected : -1;
    this.goTo(this.search.active ? this.search.next(time, row, step) : -1);
  }

  goToNextWait() {
    const { events } = this;
    const after = this.selected >= 0 ? events.begin[this.selected] : this.view.from;
    let best = -1, first = -1;
    for (let row = 0; row < events.length; row++) {
      if (!events.waits[row]) continue;
      if (first < 0 || events.begin[row] < events.begin[first]) first = row;
      if (events.begin[row] > after && (best < 0 || events.begin[row] < events.begin[best])) best = row;
    }
    if (first < 0) byId("status").textContent = byId("found").textContent = "no synchronisation points";
    this.goTo(best < 0 ? first : best);
  }

  zoomTo(row) {
    if (row < 0) return;
    const { begin, end } = this.events, room = Math.max(0.1 * (end[row] - begin[row]), SHORTEST / 4);
    this.view.show(begin[row] - room, end[row] + room);
    this.redraw();
  }

  // From a call to what it launched, and back.
  followLaunch() {
    const pair = this.arrows[0];
    if (pair) this.goTo(this.selected === pair[1] ? pair[0] : pair[1]);
  }

  goToNeighbour(step) {
    if (this.selected >= 0) return this.goTo(this.tracks.neighbour(this.events, this.selected, step));
    const box = this.view.boxes.find(({ rows }) => rows);
    if (!box) return undefined;
    const at = this.tracks.firstEndingAfter(this.tracks.first[box.lane], this.view.from);
    return this.goTo(at < this.tracks.start[this.tracks.first[box.lane] + 1] ? this.tracks.row[at] : -1);
  }

  zoom(factor, x) {
    this.view.zoom(factor, x);
    this.redraw();
  }

  pan(x, y = 0) {
    this.view.pan(x);
    if (y) byId("scroll").scrollTop += y;
    this.redraw();
  }

  key(event) {
    const step = 0.2 * this.view.width;
    const actions = {
      "+": () => this.zoom(0.7), "=": () => this.zoom(0.7), w: () => this.zoom(0.7),
      "-": () => this.zoom(1.4), s: () => this.zoom(1.4),
      a: () => this.pan(-step), ArrowLeft: () => this.pan(-step),
      d: () => this.pan(step), ArrowRight: () => this.pan(step),
      ArrowUp: () => this.pan(0, -3 * ROW), ArrowDown: () => this.pan(0, 3 * ROW),
      0: () => this.showAll(), Home: () => this.showAll(),
      f: () => this.zoomTo(this.selected),
      n: () => this.goToHit(event.shiftKey ? -1 : 1),
      ".": () => this.goToNeighbour(1), ",": () => this.goToNeighbour(-1),
      p: () => this.selected >= 0 && this.goTo(this.tracks.enclosing(this.events, this.selected)),
      c: () => this.selected >= 0 && this.goTo(this.tracks.firstInside(this.events, this.selected)),
      l: () => this.followLaunch(),
      m: () => this.goToNextWait(),
      x: () => this.selected >= 0 && this.fold(this.events.laneOf(this.selected)),
      "/": () => byId("search").focus(),
      "?": () => byId("keys").showModal(),
      Escape: () => this.select(-1),
    };
    const act = actions[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (act) {
      act();
      event.preventDefault();
    }
  }

  showAll() {
    this.view.showAll();
    this.redraw();
  }

  listen() {
    const field = byId("search"), click = (id, act) => byId(id).addEventListener("click", act);
    field.addEventListener("input", () => this.searchFor(field.value));
    field.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.goToHit(event.shiftKey ? -1 : 1);
      if (event.key === "Escape") {
        field.value = "";
        this.searchFor("");
        byId("scroll").focus();
      }
    });
    click("next", () => this.goToHit(1));
    click("previous", () => this.goToHit(-1));
    click("in", () => this.zoom(0.6));
    click("out", () => this.zoom(1.6));
    click("whole", () => this.showAll());
    click("wait", () => this.goToNextWait());
    click("help", () => byId("keys").showModal());
    document.addEventListener("keydown", (event) => {
      const typing = event.target === field || byId("keys").open;
      const pressing = event.target.tagName === "BUTTON" && (event.key === "Enter" || event.key === " ");
      if (!typing && !pressing && !event.ctrlKey && !event.metaKey && !event.altKey) this.key(event);
    });
    byId("scroll").addEventListener("scroll", () => this.redraw());
    new ResizeObserver(() => this.resize()).observe(byId("scroll"));
    const repaint = () => {
      this.painter.theme();
      this.redraw();
    };
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
    document.addEventListener("themechange", repaint);
    this.listenToCanvas(byId("canvas"));
    this.listenToOverview(byId("overview"));
  }

  listenToCanvas(canvas) {
    const at = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    // In the frame of another document the wheel scrolls past this one, until the reader uses it.
    let inUse = window === parent;
    if (!inUse) {
      addEventListener("focus", () => { inUse = true; });
      addEventListener("blur", () => { inUse = false; });
    }
    canvas.addEventListener("wheel", (event) => {
      if (!inUse) return;
      event.preventDefault();
      const by = event.deltaMode === 1 ? 16 : 1;
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY))
        this.pan((event.deltaX || event.deltaY) * by);
      else this.zoom(Math.exp(Math.max(Math.min(event.deltaY * by, 300), -300) * 0.0025), at(event)[0]);
      this.showTip(null);
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      const [x, y] = at(event);
      this.pointers.set(event.pointerId, { x, y, fromX: x, moved: false, ruler: y < RULER });
    });
    canvas.addEventListener("pointermove", (event) => this.pointerMoved(event, ...at(event)));
    const up = (event) => this.pointerReleased(event, ...at(event));
    canvas.addEventListener("pointerup", up);
    canvas.addEventListener("pointercancel", up);
    canvas.addEventListener("pointerleave", () => this.showTip(null));
    canvas.addEventListener("dblclick", (event) => {
      const { row } = this.view.hitTest(...at(event));
      if (row >= 0) this.zoomTo(row);
    });
  }

  pointerMoved(event, x, y) {
    const pointer = this.pointers.get(event.pointerId);
    if (!pointer) return this.showTip(event, x, y);
    if (!pointer.moved && Math.hypot(x - pointer.x, y - pointer.y) < 4) return undefined;
    pointer.moved = true;
    if (this.pointers.size === 2) {
      const other = [...this.pointers.values()].find((candidate) => candidate !== pointer);
      const before = Math.max(Math.abs(pointer.x - other.x), 10), now = Math.max(Math.abs(x - other.x), 10);
      this.zoom(before / now, (x + other.x) / 2);
    } else if (pointer.ruler) {
      this.selection = [pointer.fromX, x];
      this.redraw();
    } else {
      this.pan(pointer.x - x, pointer.y - y);
    }
    [pointer.x, pointer.y] = [x, y];
    return undefined;
  }

  pointerReleased(event, x, y) {
    const pointer = this.pointers.get(event.pointerId);
    this.pointers.delete(event.pointerId);
    if (this.selection) {
      const [from, to] = this.selection.map((side) => this.view.time(side)).sort((a, b) => a - b);
      this.selection = null;
      this.view.show(from, to);
      this.redraw();
    } else if (pointer && !pointer.moved && event.type === "pointerup") {
      const { lane, row } = this.view.hitTest(x, y);
      if (lane !== undefined) this.fold(lane);
      else this.select(row ?? -1);
    }
  }

  showTip(event, x, y) {
    const tip = byId("tip");
    const row = event ? (this.view.hitTest(x, y).row ?? -1) : -1;
    tip.hidden = row < 0;
    if (row < 0) return;
    tip.textContent = `${this.events.text(row).slice(0, 300)}\n${duration(this.events.end[row] - this.events.begin[row])}`;
    tip.style.left = `${Math.max(Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 8), 4)}px`;
    const below = event.clientY + 16;
    tip.style.top = `${below + tip.offsetHeight > innerHeight ? event.clientY - tip.offsetHeight - 10 : below}px`;
  }

  listenToOverview(canvas) {
    const move = (event) => {
      if (!event.buttons) return;
      const box = canvas.getBoundingClientRect(), half = (this.view.to - this.view.from) / 2;
      const middle = ((event.clientX - box.left) / box.width) * this.events.span;
      this.view.show(middle - half, middle + half);
      this.redraw();
    };
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      move(event);
    });
    canvas.addEventListener("pointermove", move);
  }
}

(async () => {
  try {
    const about = JSON.parse(byId("about").textContent);
    const packed = byId("packed");
    const events = await unpack(about, packed.textContent);
    packed.remove();
    byId("notes").textContent = about.notes.join(" ");
    byId("notes").hidden = !about.notes.length;
    new Timeline(events);
    document.documentElement.dataset.ready = "yes";
  } catch (error) {
    byId("shown").textContent = `This page cannot be shown: ${error.message}`;
    document.documentElement.dataset.ready = "no";
  }
})();
