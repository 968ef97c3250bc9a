// The page: what is chosen, sought and shown, and what the mouse, fingers and keys do to it.

const byId = (id) => document.getElementById(id);

class Timeline {
  constructor(events) {
    this.events = events;
    this.shown = events.kinds.map(() => true);
    this.view = new View(events);
    this.painter = new Painter(byId("canvas"), events);
    this.details = new Details(byId("details"), events, (row) => this.go(row));
    this.chosen = -1;
    this.arrows = [];
    this.stretch = null;
    this.pointers = new Map();
    this.waiting = false;
    this.arrange();
    this.kinds();
    this.listen();
    this.resize();
  }

  // Tracks are laid anew when kinds are hidden or shown.
  arrange() {
    this.tracks = new Tracks(this.events, this.shown);
    this.view.layOut(this.tracks);
    this.search = new Search(this.events, this.tracks, byId("search").value);
  }

  kinds() {
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
        if (this.chosen >= 0 && !this.shown[this.events.kind[this.chosen]]) this.choose(-1);
        this.told();
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
    this.paint(); // at once: a canvas of another size is black until it is drawn on
  }

  // Whatever is asked for before the next frame is drawn once.
  redraw() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.paint();
    });
  }

  paint() {
    this.view.scroll = byId("scroll").scrollTop;
    this.painter.draw(this.view, this.tracks, this.search, this.chosen, this.arrows, this.stretch);
    this.overview();
    const { from, to } = this.view;
    byId("shown").textContent =
      `${duration(Math.max(from, 0))} – ${duration(Math.min(to, this.events.span))} of ${duration(this.events.span)}, ` +
      `${this.events.length.toLocaleString("en")} events` +
      (this.tracks.tooDeep ? `, ${this.tracks.tooDeep.toLocaleString("en")} of them too deep to draw` : "");
  }

  overview() {
    const canvas = byId("overview"), ratio = window.devicePixelRatio || 1;
    const width = canvas.clientWidth, height = canvas.clientHeight;
    if (this.strip?.length !== width) {
      canvas.width = width * ratio;
      canvas.height = height * ratio;
      this.strip = strip(this.events, width);
    }
    const context = canvas.getContext("2d"), { painter, view } = this;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = painter.band;
    context.fillRect(0, 0, width, height);
    context.fillStyle = painter.faint;
    for (let x = 0; x < width; x++) {
      const tall = Math.round(this.strip[x] * (height - 2));
      if (this.strip[x] > 0) context.fillRect(x, height - Math.max(tall, 1), 1, Math.max(tall, 1));
    }
    const left = (Math.max(view.from, 0) / this.events.span) * width;
    const right = (Math.min(view.to, this.events.span) / this.events.span) * width;
    context.strokeStyle = painter.chosen;
    context.lineWidth = 2;
    context.strokeRect(left + 1, 1, Math.max(right - left - 2, 2), height - 2);
  }

  choose(row) {
    this.chosen = row;
    this.arrows = row < 0 ? [] : launches(this.events, row);
    const was = byId("details").hidden;
    this.details.show(row, this.tracks, this.arrows, () => this.choose(-1));
    const { events } = this;
    if (row >= 0)
      byId("said").textContent = `${events.text(row).slice(0, 200)}, ${duration(events.end[row] - events.begin[row])}`;
    if (was !== byId("details").hidden) this.resize();
    this.told();
    this.redraw();
  }

  // Choose an event and bring it into sight. A hidden kind is shown again, for it was asked for.
  go(row) {
    if (row < 0) return;
    if (this.tracks.place[row] < 0) {
      const kind = this.events.kind[row];
      const button = document.querySelector(`#kinds [data-kind="${kind}"]`);
      if (button.getAttribute("aria-pressed") === "false") button.click();
    }
    const lane = this.events.laneOf(row);
    if (this.view.folded.has(lane)) this.fold(lane);
    this.choose(row);
    this.view.reveal(row);
    byId("scroll").scrollTop = this.view.scroll;
    this.redraw();
  }

  fold(lane) {
    if (!this.view.folded.delete(lane)) this.view.folded.add(lane);
    this.view.layOut(this.tracks);
    this.resize();
  }

  seek(words) {
    this.search = new Search(this.events, this.tracks, words);
    this.told();
    this.redraw();
  }

  told() {
    const { search } = this;
    const on = this.chosen >= 0 && search.isHit(this.chosen, this.tracks);
    byId("found").textContent = !search.active
      ? ""
      : on
        ? `${search.rank(this.chosen).toLocaleString("en")} of ${search.count.toLocaleString("en")}`
        : `${search.count.toLocaleString("en")} found`;
  }

  found(step) {
    const time = this.chosen >= 0 ? this.events.begin[this.chosen] : this.view.from;
    const row = this.chosen >= 0 ? this.chosen : -1;
    this.go(this.search.active ? this.search.next(time, row, step) : -1);
  }

  nextWait() {
    const { events } = this;
    const after = this.chosen >= 0 ? events.begin[this.chosen] : this.view.from;
    let best = -1, first = -1;
    for (let row = 0; row < events.length; row++) {
      if (!events.waits[row]) continue;
      if (first < 0 || events.begin[row] < events.begin[first]) first = row;
      if (events.begin[row] > after && (best < 0 || events.begin[row] < events.begin[best])) best = row;
    }
    if (first < 0) byId("said").textContent = byId("found").textContent = "no synchronisation points";
    this.go(best < 0 ? first : best);
  }

  zoomTo(row) {
    if (row < 0) return;
    const { begin, end } = this.events, room = Math.max(0.1 * (end[row] - begin[row]), NARROWEST / 4);
    this.view.show(begin[row] - room, end[row] + room);
    this.redraw();
  }

  // From a launch to what it started, from that back.
  follow() {
    const pair = this.arrows[0];
    if (pair) this.go(this.chosen === pair[1] ? pair[0] : pair[1]);
  }

  beside(step) {
    if (this.chosen >= 0) return this.go(this.tracks.beside(this.events, this.chosen, step));
    const box = this.view.boxes.find((one) => one.rows);
    if (!box) return undefined;
    const at = this.tracks.ending(this.tracks.first[box.lane], this.view.from);
    return this.go(at < this.tracks.start[this.tracks.first[box.lane] + 1] ? this.tracks.row[at] : -1);
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
    const acts = {
      "+": () => this.zoom(0.7), "=": () => this.zoom(0.7), w: () => this.zoom(0.7),
      "-": () => this.zoom(1.4), s: () => this.zoom(1.4),
      a: () => this.pan(-step), ArrowLeft: () => this.pan(-step),
      d: () => this.pan(step), ArrowRight: () => this.pan(step),
      ArrowUp: () => this.pan(0, -3 * ROW), ArrowDown: () => this.pan(0, 3 * ROW),
      0: () => this.whole(), Home: () => this.whole(),
      f: () => this.zoomTo(this.chosen),
      n: () => this.found(event.shiftKey ? -1 : 1),
      ".": () => this.beside(1), ",": () => this.beside(-1),
      p: () => this.chosen >= 0 && this.go(this.tracks.around(this.events, this.chosen)),
      c: () => this.chosen >= 0 && this.go(this.tracks.inside(this.events, this.chosen)),
      l: () => this.follow(),
      m: () => this.nextWait(),
      x: () => this.chosen >= 0 && this.fold(this.events.laneOf(this.chosen)),
      "/": () => byId("search").focus(),
      "?": () => byId("keys").showModal(),
      Escape: () => this.choose(-1),
    };
    const act = acts[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (act) {
      act();
      event.preventDefault();
    }
  }

  whole() {
    this.view.whole();
    this.redraw();
  }

  listen() {
    const field = byId("search"), click = (id, act) => byId(id).addEventListener("click", act);
    field.addEventListener("input", () => this.seek(field.value));
    field.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.found(event.shiftKey ? -1 : 1);
      if (event.key === "Escape") {
        field.value = "";
        this.seek("");
        byId("scroll").focus();
      }
    });
    click("next", () => this.found(1));
    click("previous", () => this.found(-1));
    click("in", () => this.zoom(0.6));
    click("out", () => this.zoom(1.6));
    click("whole", () => this.whole());
    click("wait", () => this.nextWait());
    click("help", () => byId("keys").showModal());
    document.addEventListener("keydown", (event) => {
      const typing = event.target === field || byId("keys").open;
      const pressing = event.target.tagName === "BUTTON" && (event.key === "Enter" || event.key === " ");
      if (!typing && !pressing && !event.ctrlKey && !event.metaKey && !event.altKey) this.key(event);
    });
    byId("scroll").addEventListener("scroll", () => this.redraw());
    new ResizeObserver(() => this.resize()).observe(byId("scroll"));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      this.painter.theme();
      this.redraw();
    });
    this.points(byId("canvas"));
    this.overviewed(byId("overview"));
  }

  points(canvas) {
    const at = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      const by = event.deltaMode === 1 ? 16 : 1;
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY))
        this.pan((event.deltaX || event.deltaY) * by);
      else this.zoom(Math.exp(Math.max(Math.min(event.deltaY * by, 300), -300) * 0.0025), at(event)[0]);
      this.tip(null);
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      const [x, y] = at(event);
      this.pointers.set(event.pointerId, { x, y, fromX: x, moved: false, ruler: y < RULER });
    });
    canvas.addEventListener("pointermove", (event) => this.moved(event, ...at(event)));
    const up = (event) => this.released(event, ...at(event));
    canvas.addEventListener("pointerup", up);
    canvas.addEventListener("pointercancel", up);
    canvas.addEventListener("pointerleave", () => this.tip(null));
    canvas.addEventListener("dblclick", (event) => {
      const { row } = this.view.under(...at(event));
      if (row >= 0) this.zoomTo(row);
    });
  }

  moved(event, x, y) {
    const held = this.pointers.get(event.pointerId);
    if (!held) return this.tip(event, x, y);
    if (!held.moved && Math.hypot(x - held.x, y - held.y) < 4) return undefined;
    held.moved = true;
    if (this.pointers.size === 2) {
      const other = [...this.pointers.values()].find((one) => one !== held);
      const before = Math.max(Math.abs(held.x - other.x), 10), now = Math.max(Math.abs(x - other.x), 10);
      this.zoom(before / now, (x + other.x) / 2);
    } else if (held.ruler) {
      this.stretch = [held.fromX, x];
      this.redraw();
    } else {
      this.pan(held.x - x, held.y - y);
    }
    [held.x, held.y] = [x, y];
    return undefined;
  }

  released(event, x, y) {
    const held = this.pointers.get(event.pointerId);
    this.pointers.delete(event.pointerId);
    if (this.stretch) {
      const [from, to] = this.stretch.map((side) => this.view.time(side)).sort((a, b) => a - b);
      this.stretch = null;
      this.view.show(from, to);
      this.redraw();
    } else if (held && !held.moved && event.type === "pointerup") {
      const { lane, row } = this.view.under(x, y);
      if (lane !== undefined) this.fold(lane);
      else this.choose(row ?? -1);
    }
  }

  tip(event, x, y) {
    const tip = byId("tip");
    const row = event ? (this.view.under(x, y).row ?? -1) : -1;
    tip.hidden = row < 0;
    if (row < 0) return;
    tip.textContent = `${this.events.text(row).slice(0, 300)}\n${duration(this.events.end[row] - this.events.begin[row])}`;
    tip.style.left = `${Math.max(Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 8), 4)}px`;
    const below = event.clientY + 16;
    tip.style.top = `${below + tip.offsetHeight > innerHeight ? event.clientY - tip.offsetHeight - 10 : below}px`;
  }

  overviewed(canvas) {
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
