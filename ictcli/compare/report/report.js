"use strict";
(() => {
  const cells = (row) => [...row.cells];

  function compare(a, b) {
    return typeof a === "number" && typeof b === "number" ? a - b
      : String(a).localeCompare(String(b), undefined, { numeric: true });
  }

  function sort(table, column, direction) {
    const body = table.tBodies[0];
    const keyed = [...body.rows].map((row) => [JSON.parse(row.cells[column].dataset.v), row]);
    keyed.sort(([a, one], [b, other]) => {
      if (direction === 0) return one.dataset.at - other.dataset.at;
      if (a === null || b === null) return (a === null) - (b === null); // absent ones last
      return direction * compare(a, b);
    });
    body.append(...keyed.map(([, row]) => row));
  }

  function sortable(table) {
    [...table.tBodies[0].rows].forEach((row, at) => { row.dataset.at = at; });
    const heads = cells(table.tHead.rows[0]);
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      button.title = "sort; again: the other way; again: as it was";
      head.append(button);
      button.addEventListener("click", () => {
        // numbers start with the largest, text with the first
        const order = head.classList.contains("t") ? ["ascending", "descending"] : ["descending", "ascending"];
        const next = order[order.indexOf(head.getAttribute("aria-sort")) + 1];
        heads.forEach((one) => one.removeAttribute("aria-sort"));
        if (next) head.setAttribute("aria-sort", next);
        sort(table, column, next === undefined ? 0 : next === "ascending" ? 1 : -1);
      });
    });
  }

  function download(table) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([table.dataset.csv], { type: "text/csv" }));
    link.download = `${table.dataset.name}.csv`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  // A table that is wider than its place says so.
  const watch = new ResizeObserver((changes) => changes.forEach(({ target }) => {
    target.parentElement.classList.toggle("goes-on", target.scrollWidth > target.clientWidth + 1);
  }));

  document.querySelectorAll("table").forEach((table) => {
    sortable(table);
    watch.observe(table.parentElement);
    const button = document.createElement("button");
    button.type = "button";
    button.className = "csv";
    button.textContent = "CSV";
    button.title = "download this table with unrounded values";
    button.addEventListener("click", () => download(table));
    table.closest("figure").querySelector("figcaption").append(button);
  });
})();
