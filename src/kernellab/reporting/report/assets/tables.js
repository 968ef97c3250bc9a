// Tables that sort by a column and show only the rows that match. Without this script they are plain tables.
(() => {
  const collator = new Intl.Collator("en", { numeric: true });
  const valueOf = (row, at) => {
    const cell = row.cells[at];
    return { number: cell.dataset.sort === undefined ? null : Number(cell.dataset.sort), text: cell.textContent };
  };
  const compare = (a, b) => {
    if (a.number !== null && b.number !== null) return a.number - b.number;
    return collator.compare(a.text, b.text);
  };
  const isEmpty = (value) => value.number === null && (value.text === "" || value.text === "–");

  const makeSortable = (table) => {
    const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells], original = [...body.rows];
    heads.forEach((head, at) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const before = head.getAttribute("aria-sort");
        const order = before === "ascending" ? "descending" : before === "descending" ? null : "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        let rows = original;
        if (order) {
          head.setAttribute("aria-sort", order);
          const sign = order === "ascending" ? 1 : -1;
          const keyed = original.map((row) => ({ row, value: valueOf(row, at) }));
          // Rows without a value come last in either order.
          keyed.sort((a, b) => isEmpty(a.value) - isEmpty(b.value) || sign * compare(a.value, b.value));
          rows = keyed.map((entry) => entry.row);
        }
        body.append(...rows);
      });
    });
  };

  const makeFilters = (form) => {
    const table = document.getElementById(form.dataset.for), rows = [...table.tBodies[0].rows];
    const heads = [...table.tHead.rows[0].cells];
    const selects = [...form.querySelectorAll("select")].map((select) => ({
      select, at: heads.findIndex((head) => head.dataset.filter === select.dataset.column),
    }));
    const search = form.querySelector("input"), count = form.querySelector(".count");
    const apply = () => {
      const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const row of rows) {
        const matches = selects.every(({ select, at }) =>
          select.selectedIndex <= 0 || row.cells[at].textContent === select.value);
        const text = words.length ? row.textContent.toLowerCase() : "";
        row.hidden = !(matches && words.every((word) => text.includes(word)));
        shown += !row.hidden;
      }
      count.textContent = `${shown} of ${rows.length} rows`;
    };
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("input", apply);
    form.addEventListener("reset", () => setTimeout(apply));
    form.hidden = false;
    apply();
  };

  document.querySelectorAll("form.filters").forEach(makeFilters); // reads the heads before they become buttons
  document.querySelectorAll("table.sortable").forEach(makeSortable);
})();
