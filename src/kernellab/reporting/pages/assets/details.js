// What is known of the chosen event, in words. Everything is set as text.

const MOST_LISTED = 8;

function element(tag, text, parent) {
  const made = document.createElement(tag);
  if (text !== null) made.textContent = text;
  parent.append(made);
  return made;
}

class Details {
  constructor(place, events, choose) {
    this.place = place;
    this.events = events;
    this.choose = choose;
  }

  // `pairs` are the launches inside the row, with what they started.
  show(row, tracks, pairs, close) {
    const { place, events } = this;
    place.replaceChildren();
    place.hidden = row < 0;
    if (row < 0) return;
    const top = element("div", null, place);
    top.className = "top";
    element("h2", events.text(row), top);
    const button = element("button", "×", top);
    button.setAttribute("aria-label", "close");
    button.addEventListener("click", close);
    const list = element("dl", null, place);
    const say = (name, value) => {
      element("dt", name, list);
      return element("dd", value, list);
    };
    const lane = events.lanes[events.laneOf(row)];
    say("what", events.kinds[events.kind[row]].one + (events.waits[row] ? ", waits for the GPU" : ""));
    say("took", duration(events.end[row] - events.begin[row]));
    const own = alone(events, tracks, row);
    if (own < events.end[row] - events.begin[row]) say("of that alone", duration(own));
    say("from", exact(events.begin[row], 1));
    say("to", exact(events.end[row], 1));
    say("on", `${lane.name} · ${lane.process}`);
    const around = tracks.around(events, row);
    if (around >= 0) this.links(say("inside", ""), [around]);
    const by = events.starter[row] - 1;
    if (by >= 0) {
      this.links(say("started by", ""), [by]);
      const caller = tracks.around(events, by);
      if (caller >= 0) this.links(say("called from", ""), [caller]);
      say("waited to start", duration(events.begin[row] - events.end[by]));
    }
    const started = events.started(row);
    if (started.length) this.links(say("started", ""), started);
    if (by < 0 && pairs.length) {
      const spent = pairs.reduce((sum, [, one]) => sum + events.end[one] - events.begin[one], 0);
      say("on the GPU", `${duration(spent)} in ${pairs.length.toLocaleString("en")} started ${started.length ? "by it" : "inside"}`);
    }
    for (const [name, value] of events.details(row)) say(name.replaceAll("_", " "), value);
  }

  links(where, rows) {
    for (const row of rows.slice(0, MOST_LISTED)) {
      const name = this.events.text(row);
      const link = element("button", name.length > 120 ? name.slice(0, 119) + "…" : name, where);
      link.className = "link";
      link.addEventListener("click", () => this.choose(row));
    }
    if (rows.length > MOST_LISTED) element("span", `and ${rows.length - MOST_LISTED} more`, where);
  }
}

// What a row took less what the rows directly inside it took.
function alone(events, tracks, row) {
  let own = events.end[row] - events.begin[row];
  const stop = events.after(row), depth = tracks.depth[row] + 1;
  for (let inside = row + 1; inside < stop; inside++)
    if (tracks.depth[inside] === depth) own -= Math.min(events.end[inside], events.end[row]) - events.begin[inside];
  return Math.max(own, 0);
}

// Which calls inside a row started what: pairs, for the arrows.
function launches(events, row) {
  const by = events.starter[row] - 1;
  if (by >= 0) return [[by, row]];
  const found = [];
  const stop = events.after(row);
  for (let call = row; call < stop; call++)
    for (const started of events.started(call)) found.push([call, started]);
  return found;
}
