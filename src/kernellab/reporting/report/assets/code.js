// Source, PTX and SASS side by side: the line under the pointer or the cursor lights what belongs to it.
(() => {
  const ROW = 20, CHUNK = 100; // pixels of a row, as in code.css; rows that are laid out together
  const NAMES = { source: "Source", ptx: "PTX", sass: "SASS" };
  const plural = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
  const make = (name, type, parent) => {
    const made = document.createElement(type);
    made.className = name;
    parent.append(made);
    return made;
  };

  // One text in its box. Texts are only ever set as text.
  class Column {
    constructor(box, name) {
      this.name = name;
      this.box = box.querySelector(".code-lines");
      this.holder = box;
      this.id = `${box.closest(".code").dataset.texts}-${name}`;
    }

    show(text, files) {
      Object.assign(this, { text, rows: [], top: [], cursor: -1, lit: [], files: {} });
      this.box.replaceChildren();
      this.box.scrollTop = this.box.scrollLeft = 0;
      this.holder.toggleAttribute("data-empty", !text.lines.length);
      let chunk, height = 0, inChunk = CHUNK, file = "";
      const room = () => {
        if (inChunk === CHUNK) {
          chunk = make("code-chunk", "div", this.box);
          chunk.setAttribute("role", "presentation");
          inChunk = 0;
        }
        inChunk += 1;
        height += ROW;
        chunk.style.containIntrinsicHeight = `${inChunk * ROW}px`;
        return chunk;
      };
      text.lines.forEach((line, at) => {
        if (files[at] !== undefined) {
          file = files[at];
          const head = make("code-file", "div", room());
          head.textContent = file;
          head.setAttribute("role", "presentation");
        }
        this.top.push(height);
        this.files[at] = file;
        const row = make("code-line", "div", room());
        row.setAttribute("role", "option");
        row.setAttribute("aria-selected", "false");
        row.dataset.at = text.numbers[at];
        row.dataset.row = at;
        row.textContent = line || " ";
        if (text.groups[at].length) row.dataset.linked = "";
        this.rows.push(row);
      });
      // By group: the rows compiled from it, and those of functions called from it.
      this.byGroup = new Map();
      for (const groups of [text.groups, text.outer])
        groups.forEach((some, at) => some.forEach((group) => {
          if (!this.byGroup.has(group)) this.byGroup.set(group, []);
          this.byGroup.get(group).push(at);
        }));
    }

    // How many rows of this text were compiled from each group itself.
    counts() {
      const counts = new Map();
      for (const group of this.text.groups.flat()) counts.set(group, (counts.get(group) ?? 0) + 1);
      return counts;
    }

    light(groups, outer, held) {
      for (const at of this.lit) {
        this.rows[at].classList.remove("lit", "outer");
        this.rows[at].setAttribute("aria-selected", "false");
      }
      const strong = [...new Set(groups.flatMap((group) => this.byGroup.get(group) ?? []))].sort((a, b) => a - b);
      const weak = this.name === "source" ? outer.flatMap((group) => this.byGroup.get(group) ?? []) : [];
      for (const at of weak) this.rows[at].classList.add("outer");
      for (const at of strong) {
        this.rows[at].classList.add("lit");
        this.rows[at].setAttribute("aria-selected", String(held));
      }
      this.box.classList.toggle("held", held);
      this.lit = [...strong, ...weak];
      this.strong = strong;
    }

    reveal(at) {
      const top = this.top[at], { scrollTop, clientHeight } = this.box;
      if (top < scrollTop + ROW || top > scrollTop + clientHeight - 3 * ROW)
        this.box.scrollTop = Math.max(top - clientHeight / 3, 0);
    }

    moveTo(at) {
      if (this.cursor >= 0) {
        this.rows[this.cursor].classList.remove("cursor");
        this.rows[this.cursor].removeAttribute("id");
      }
      this.cursor = at;
      this.rows[at].classList.add("cursor");
      this.rows[at].id = this.id;
      this.box.setAttribute("aria-activedescendant", this.id);
      const top = this.top[at], { scrollTop, clientHeight } = this.box;
      if (top < scrollTop) this.box.scrollTop = top;
      if (top + 2 * ROW > scrollTop + clientHeight) this.box.scrollTop = top + 2 * ROW - clientHeight;
    }
  }

  class Code {
    constructor(root) {
      this.root = root;
      this.kernels = JSON.parse(document.getElementById(root.dataset.texts).textContent);
      this.status = root.querySelector(".code-status");
      this.frame = root.querySelector(".code-columns");
      this.columns = [...root.querySelectorAll(".code-column")].map((box) => new Column(box, box.dataset.column));
      this.tabs = [...root.querySelectorAll(".code-tabs button")];
      this.facts = [...root.querySelectorAll(".code-facts")];
      this.held = null;
      this.listen();
      this.show(0);
    }

    show(number) {
      const kernel = this.kernels[number];
      this.facts.forEach((facts, at) => { facts.hidden = at !== number; });
      for (const column of this.columns) column.show(kernel[column.name], column.name === "source" ? kernel.files : {});
      const [source, , sass] = this.columns, counts = sass.counts();
      source.text.groups.forEach((groups, at) => {
        // How many instructions a line itself was compiled to, beside its number.
        const share = counts.get(groups[0]) ?? 0;
        source.rows[at].dataset.at = `${source.text.numbers[at].padStart(4)} ${String(share || "").padStart(4)}`;
      });
      this.release();
      if (source.rows.length) source.reveal(this.firstLinked(source));
      const first = this.columns.find((column) => column.text.lines.length);
      for (const tab of this.tabs)
        tab.hidden = !this.columns.find((column) => column.name === tab.dataset.column).text.lines.length;
      if (first) this.choose(first.name);
    }

    // On a narrow screen one column is visible.
    choose(name) {
      this.frame.dataset.shown = name;
      for (const tab of this.tabs) tab.setAttribute("aria-pressed", String(tab.dataset.column === name));
    }

    light(column, at, held = false) {
      const groups = column.text.groups[at], outer = column.text.outer[at];
      for (const other of this.columns) other.light(groups, outer, held);
      column.rows[at].classList.add("lit");
      if (!column.lit.includes(at)) column.lit.push(at);
      this.describe(column, at);
    }

    describe(column, at) {
      const [source, ptx, sass] = this.columns;
      const { groups, outer, numbers } = column.text;
      for (const tab of this.tabs) {
        const { strong, name } = this.columns.find((other) => other.name === tab.dataset.column);
        tab.textContent = strong?.length && groups[at].length ? `${NAMES[name]} (${strong.length})` : NAMES[name];
      }
      if (!groups[at].length) {
        this.status.textContent = column === source
          ? "No instruction was compiled from this line."
          : "No line of source is known for this line.";
        return;
      }
      const line = (row) => `${source.files[row] || "source"}:${source.text.numbers[row]}`;
      const from = column === source ? [at] : source.strong;
      const names = from.length ? from.slice(0, 4).map(line).join(", ") : "a library function that is not shown";
      const calls = outer[at].flatMap((group) => source.byGroup.get(group) ?? []);
      const called = calls.length ? `, called from ${calls.slice(0, 4).map(line).join(", ")}` : "";
      const parts = [];
      if (ptx.text.lines.length) parts.push(plural(ptx.strong.length, "line") + " of PTX");
      if (sass.text.lines.length) parts.push(plural(sass.strong.length, "instruction") + " of SASS");
      this.status.textContent = `${names}${called}: ${parts.join(", ")}`;
    }

    hold(column, at) {
      if (!column.text.groups[at].length || (this.held?.column === column && this.held.at === at)) {
        this.release();
        return;
      }
      this.light(column, at, true);
      this.held = { column, at };
      for (const other of this.columns) {
        if (other === column || !other.strong.length) continue;
        other.reveal(other.strong[0]);
      }
    }

    release() {
      this.held = null;
      for (const column of this.columns) column.light([], [], false);
      for (const tab of this.tabs) tab.textContent = NAMES[tab.dataset.column];
      this.status.textContent = "\u00a0";
    }

    listen() {
      for (const column of this.columns) {
        const { box } = column;
        const rowOf = (event) => {
          const row = event.target.closest?.(".code-line");
          return row ? Number(row.dataset.row) : -1;
        };
        box.addEventListener("pointerover", (event) => {
          const at = rowOf(event);
          if (this.held || at < 0 || event.pointerType === "touch") return;
          this.light(column, at);
        });
        box.addEventListener("pointerleave", () => {
          if (!this.held) this.release();
        });
        box.addEventListener("click", (event) => {
          const at = rowOf(event);
          if (at < 0) return;
          column.moveTo(at);
          this.hold(column, at);
        });
        box.addEventListener("focus", () => {
          if (column.cursor < 0 && column.rows.length) column.moveTo(column.strong[0] ?? this.firstLinked(column));
        });
        box.addEventListener("keydown", (event) => this.key(event, column));
      }
      for (const tab of this.tabs) tab.addEventListener("click", () => this.choose(tab.dataset.column));
      this.root.querySelector(".code-kernel")?.addEventListener("change", (event) => this.show(Number(event.target.value)));
      this.root.addEventListener("keydown", (event) => {
        if (event.key === "Escape") this.release();
      });
      document.addEventListener("keydown", (event) => {
        if (event.key === "Escape" && this.held) this.release();
      });
    }

    firstLinked(column) {
      return Math.max(column.text.groups.findIndex((groups) => groups.length), 0);
    }

    key(event, column) {
      if (event.ctrlKey || event.metaKey || event.altKey || !column.rows.length) return;
      const last = column.rows.length - 1, page = Math.max(Math.floor(column.box.clientHeight / ROW) - 2, 1);
      const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -last, End: last };
      if (event.key in steps) {
        const at = Math.min(Math.max(Math.max(column.cursor, 0) + steps[event.key], 0), last);
        this.held = null;
        column.moveTo(at);
        this.light(column, at);
        for (const other of this.columns) if (other !== column && other.strong.length) other.reveal(other.strong[0]);
      } else if (event.key === "Enter" || event.key === " ") {
        if (column.cursor >= 0) this.hold(column, column.cursor);
      } else if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
        const present = this.columns.filter((other) => other.rows.length);
        const next = present[present.indexOf(column) + (event.key === "ArrowLeft" ? -1 : 1)];
        if (!next) return;
        this.choose(next.name);
        if (next.strong.length) next.moveTo(next.strong[0]);
        next.box.focus();
      } else {
        return;
      }
      event.preventDefault();
    }
  }

  // A section is built when the reader comes near it, so that a long report opens at once.
  const near = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      near.unobserve(target);
      new Code(target);
      target.dataset.ready = "yes";
    }
  }, { rootMargin: "600px" });
  for (const root of document.querySelectorAll(".code[data-texts]")) near.observe(root);
})();
