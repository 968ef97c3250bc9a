// The details of the selected event. Everything is set as text.

const MOST_LISTED = 8;

function element(tag, text, parent) {
  const created = document.createElement(tag);
  if (text !== null) created.textContent = text;
  parent.append(created);
  return created;
}

class Details {
  constructor(panel, events, select) {
    this.panel = panel;
    this.events = events;
    this.select = select;
  }

  // `pairs`: the calls inside the row that launched something, each with what it launched.
  show(row, tracks, pairs, close) {
    const { panel, events } = this;
    panel.replaceChildren();
    panel.hidden = row < 0;
    if (row < 0) return;
    const top = element("div", null, panel);
    top.className = "top";
    element("h2", events.text(row), top);
    const button = element("button", "×", top);
    button.setAttribute("aria-label", "close");
    button.addEventListener("click", close);
    const list = element("dl", null, panel);
    const add = (name, value) => {
      element("dt", name, list);
      return element("dd", value, list);
    };
    const lane = events.lanes[events.laneOf(row)];
    add("kind", events.kinds[events.kind[row]].one + (events.waits[row] ? ", waits for the GPU" : ""));
    add("duration", duration(events.end[row] - events.begin[row]));
    const own = selfTime(events, tracks, row);
    if (own < events.end[row] - events.begin[row]) add("self time", duration(own));
    add("from", exactTime(events.begin[row], 1));
    add("to", exactTime(events.end[row], 1));
    add("on", `${lane.name} · ${lane.process}`);
    const enclosing = tracks.enclosing(events, row);
    if (enclosing >= 0) this.links(add("inside", ""), [enclosing]);
    const call = events.launcher[row] - 1;
    if (call >= 0) {
      this.links(add("launched by", ""), [call]);
      const caller = tracks.enclosing(events, call);
      if (caller >= 0) this.links(add("called from", ""), [caller]);
      add("delay after launch", duration(events.begin[row] - events.end[call]));
    }
    const launched = events.launchedBy(row);
    if (launched.length) this.links(add("launched", ""), launched);
    if (call < 0 && pairs.length) {
      const spent = pairs.reduce((sum, [, started]) => sum + events.end[started] - events.begin[started], 0);
      const where = launched.length ? "by it" : "inside";
      add("GPU time", `${duration(spent)} in ${pairs.length.toLocaleString("en")} launched ${where}`);
    }
    for (const [name, value] of events.details(row)) add(name.replaceAll("_", " "), value);
  }

  links(where, rows) {
    for (const row of rows.slice(0, MOST_LISTED)) {
      const name = this.events.text(row);
      const link = element("button", name.length > 120 ? name.slice(0, 119) + "…" : name, where);
      link.className = "link";
      link.addEventListener("click", () => this.select(row));
    }
    if (rows.length > MOST_LISTED) element("span", `and ${rows.length - MOST_LISTED} more`, where);
  }
}

// The duration of a row minus that of the rows directly inside it.
function selfTime(events, tracks, row) {
  let own = events.end[row] - events.begin[row];
  const stop = events.after(row), depth = tracks.depth[row] + 1;
  for (let inside = row + 1; inside < stop; inside++)
    if (tracks.depth[inside] === depth) own -= Math.min(events.end[inside], events.end[row]) - events.begin[inside];
  return Math.max(own, 0);
}

// The calls inside a row that launched something, each with what it launched: pairs, for the arrows.
function launches(events, row) {
  const launcher = events.launcher[row] - 1;
  if (launcher >= 0) return [[launcher, row]];
  const pairs = [];
  const stop = events.after(row);
  for (let call = row; call < stop; call++)
    for (const launched of events.launchedBy(call)) pairs.push([call, launched]);
  return pairs;
}
