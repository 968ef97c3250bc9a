"use strict";
// Zooming, searching and keys of a flame graph. Names are only ever read as text and set as text.
(() => {
  const holder = document.getElementById("frames");
  const status = document.querySelector(".status");
  const summary = status.textContent;
  const GLYPH = 7.3; // width of a monospaced letter at 12 px, in pixels, rounded up
  const frames = [...holder.children].map((element) => ({
    element,
    text: element.querySelector("text"),
    label: element.querySelector("text").textContent,
    tooltip: element.querySelector("title").textContent,
    name: element.querySelector("title").textContent.split("\n")[0].toLowerCase(),
    left: parseFloat(element.getAttribute("x")),
    width: parseFloat(element.getAttribute("width")),
    depth: Number(element.getAttribute("aria-level")),
  }));
  if (!frames.length) return;
  let zoomed = frames[0];
  let selected = frames[0];
  const slack = 1e-3; // percent: the shares are rounded
  const within = (a, b) => a.left >= b.left - slack && a.left + a.width <= b.left + b.width + slack;

  function describe(frame) {
    const [name, time] = frame.tooltip.split("\n");
    status.textContent = `${time}: ${name}`;
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
    zoomed = selected = frame;
    mark();
    show();
  }

  function mark() {
    for (const frame of frames) frame.element.classList.toggle("selected", frame === selected && frame !== frames[0]);
    if (selected === frames[0]) status.textContent = summary;
    else describe(selected);
  }

  function search(text) {
    const wanted = text.trim().toLowerCase();
    let share = 0, hits = 0, countedTo = -1;
    for (const frame of frames) {
      const hit = wanted !== "" && frame.name.includes(wanted);
      frame.element.classList.toggle("hit", hit);
      if (!hit) continue;
      hits += 1;
      // A frame inside a counted one adds nothing: outer frames come first.
      if (frame.left >= countedTo - slack) {
        share += frame.width;
        countedTo = frame.left + frame.width;
      }
    }
    status.textContent =
      wanted === "" ? summary : `${hits} frames contain “${text.trim()}”, ${share.toFixed(1)} % of the time`;
  }

  // Frames are in depth-first order: the parent is the last frame before it that is one level up.
  function parent(frame) {
    for (let i = frames.indexOf(frame) - 1; i >= 0; i--) if (frames[i].depth === frame.depth - 1) return frames[i];
    return frame;
  }
  function firstChild(frame) {
    const next = frames[frames.indexOf(frame) + 1];
    return next && next.depth === frame.depth + 1 ? next : frame;
  }
  function sibling(frame, step) {
    for (let i = frames.indexOf(frame) + step; i >= 0 && i < frames.length; i += step) {
      if (frames[i].depth < frame.depth) break;
      if (frames[i].depth === frame.depth) return frames[i];
    }
    return frame;
  }

  const html = (tag) => document.createElementNS("http://www.w3.org/1999/xhtml", tag);
  const toolbar = document.createElementNS("http://www.w3.org/2000/svg", "foreignObject");
  for (const [name, value] of [["x", 0], ["y", 50], ["width", "100%"], ["height", 30]]) toolbar.setAttribute(name, value);
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
  toolbar.append(bar);
  holder.parentNode.insertBefore(toolbar, holder);

  for (const frame of frames) {
    frame.element.addEventListener("click", () => zoom(frame));
    frame.element.addEventListener("mouseenter", () => describe(frame));
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
      zoom(selected);
    } else if (event.key.startsWith("Arrow")) {
      const moves = { Up: parent, Down: firstChild, Left: (frame) => sibling(frame, -1), Right: (frame) => sibling(frame, 1) };
      selected = moves[event.key.slice("Arrow".length)](selected);
      if (selected.element.style.display === "none") zoom(selected);
      mark();
    } else {
      return;
    }
    event.preventDefault();
  });
  window.addEventListener("resize", show);
  show();
})();
