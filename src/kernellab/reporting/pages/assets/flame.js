"use strict";
// Zoom, search and keys for a flame graph. Names are only ever read as text and set as text.
(() => {
  const holder = document.getElementById("frames");
  const said = document.querySelector(".said");
  const atFirst = said.textContent;
  const GLYPH = 7.3; // pixels of a monospaced letter at 12 px, rounded up
  const frames = [...holder.children].map((element) => ({
    element,
    text: element.querySelector("text"),
    label: element.querySelector("text").textContent,
    about: element.querySelector("title").textContent,
    name: element.querySelector("title").textContent.split("\n")[0].toLowerCase(),
    left: parseFloat(element.getAttribute("x")),
    width: parseFloat(element.getAttribute("width")),
    depth: Number(element.getAttribute("aria-level")),
  }));
  if (!frames.length) return;
  let zoomed = frames[0];
  let at = frames[0];
  const slack = 1e-3; // of what the shares were rounded to
  const within = (a, b) => a.left >= b.left - slack && a.left + a.width <= b.left + b.width + slack;

  function tell(frame) {
    const [name, time] = frame.about.split("\n");
    said.textContent = `${time}: ${name}`;
  }

  function show() {
    const pixels = document.documentElement.clientWidth;
    for (const frame of frames) {
      const outer = frame.depth < zoomed.depth && within(zoomed, frame);
      const inner = frame.depth >= zoomed.depth && within(frame, zoomed);
      frame.element.style.display = outer || inner ? "" : "none";
      if (!outer && !inner) continue;
      const width = outer ? 100 : (100 * frame.width) / zoomed.width;
      frame.element.setAttribute("x", `${outer ? 0 : (100 * (frame.left - zoomed.left)) / zoomed.width}%`);
      frame.element.setAttribute("width", `${width}%`);
      frame.element.classList.toggle("outer", outer);
      const letters = Math.floor((pixels * width / 100 - 6) / GLYPH);
      frame.text.textContent =
        letters < 2 ? "" : frame.label.length <= letters ? frame.label : frame.label.slice(0, letters - 1) + "…";
    }
  }

  function zoom(frame) {
    zoomed = at = frame;
    mark();
    show();
  }

  function mark() {
    for (const frame of frames) frame.element.classList.toggle("at", frame === at && frame !== frames[0]);
    if (at === frames[0]) said.textContent = atFirst;
    else tell(at);
  }

  function search(words) {
    const wanted = words.trim().toLowerCase();
    let share = 0, found = 0, past = -1;
    for (const frame of frames) {
      const hit = wanted !== "" && frame.name.includes(wanted);
      frame.element.classList.toggle("hit", hit);
      if (!hit) continue;
      found += 1;
      // A frame inside one that was counted adds nothing: frames come outer ones first.
      if (frame.left >= past - slack) {
        share += frame.width;
        past = frame.left + frame.width;
      }
    }
    said.textContent = wanted === "" ? atFirst : `${found} frames with “${words.trim()}”, ${share.toFixed(1)} % of the time`;
  }

  // Frames come in the order of a walk: the one around another is the last before it that is less deep.
  function around(frame) {
    for (let i = frames.indexOf(frame) - 1; i >= 0; i--) if (frames[i].depth === frame.depth - 1) return frames[i];
    return frame;
  }
  function inside(frame) {
    const next = frames[frames.indexOf(frame) + 1];
    return next && next.depth === frame.depth + 1 ? next : frame;
  }
  function beside(frame, step) {
    for (let i = frames.indexOf(frame) + step; i >= 0 && i < frames.length; i += step) {
      if (frames[i].depth < frame.depth) break;
      if (frames[i].depth === frame.depth) return frames[i];
    }
    return frame;
  }

  const html = (tag) => document.createElementNS("http://www.w3.org/1999/xhtml", tag);
  const tools = document.createElementNS("http://www.w3.org/2000/svg", "foreignObject");
  for (const [name, value] of [["x", 0], ["y", 50], ["width", "100%"], ["height", 30]]) tools.setAttribute(name, value);
  const bar = html("div"), field = html("input"), reset = html("button");
  bar.className = "tools";
  field.type = "search";
  field.placeholder = "search";
  field.setAttribute("aria-label", "search frames by name");
  field.addEventListener("input", () => search(field.value));
  reset.textContent = "whole";
  reset.setAttribute("aria-label", "show the whole graph");
  reset.addEventListener("click", () => zoom(frames[0]));
  bar.append(field, reset);
  tools.append(bar);
  document.documentElement.insertBefore(tools, holder);

  for (const frame of frames) {
    frame.element.addEventListener("click", () => zoom(frame));
    frame.element.addEventListener("mouseenter", () => tell(frame));
  }
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") {
      field.value = "";
      search("");
      field.blur();
      zoom(frames[0]);
    } else if (event.target === field) {
      return;
    } else if (event.key === "/") {
      field.focus();
    } else if (event.key === "Enter") {
      zoom(at);
    } else if (event.key.startsWith("Arrow")) {
      const way = event.key.slice(5);
      at = way === "Up" ? around(at) : way === "Down" ? inside(at) : beside(at, way === "Left" ? -1 : 1);
      if (at.element.style.display === "none") zoom(at);
      mark();
    } else {
      return;
    }
    event.preventDefault();
  });
  window.addEventListener("resize", show);
  show();
})();
