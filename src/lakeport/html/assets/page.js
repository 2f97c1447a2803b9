// What a page can do beyond being read: sort, search, copy, the reader's time and theme.
"use strict";
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const number = new Intl.NumberFormat("en-US");

  for (const time of all("time")) {
    const at = new Date(time.dateTime);
    if (!isNaN(at)) {
      time.textContent = at.toLocaleString("sv-SE", { dateStyle: "short", timeStyle: "medium" });
    }
  }

  // Sorting: by `data-v` where a cell has it; numbers as numbers, unknown ones last.
  const key = (row, place) => {
    const cell = row.cells[place];
    return cell.dataset.v ?? cell.textContent.trim();
  };
  const before = (one, other) => {
    const [a, b] = [Number(one), Number(other)];
    const numbers = one !== "" && other !== "" && !isNaN(a) && !isNaN(b);
    return numbers ? a - b : one.localeCompare(other);
  };
  const sort = (table, place, down) => {
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => [key(row, place), row]);
    rows.sort(([a], [b]) => (a === "") - (b === "") || (down ? before(b, a) : before(a, b)));
    body.append(...rows.map(([, row]) => row));
  };
  for (const table of all("table.sortable")) {
    const titles = [...table.tHead.rows[0].cells];
    titles.forEach((title, place) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.append(...title.childNodes);
      title.append(button);
      button.addEventListener("click", () => {
        const down = title.getAttribute("aria-sort") === "ascending";
        titles.forEach((other) => other.removeAttribute("aria-sort"));
        title.setAttribute("aria-sort", down ? "descending" : "ascending");
        sort(table, place, down);
      });
    });
  }

  // Search and filter: each form is above the table that it is for.
  for (const form of all("form.filters")) {
    const rows = [...form.nextElementSibling.querySelector("tbody").rows];
    const [search, choice] = [form.querySelector(".search"), form.querySelector(".choice")];
    const told = form.querySelector(".matches");
    const show = () => {
      const words = search.value.toLowerCase().split(/\s+/);
      const tag = choice.value;
      let count = 0;
      for (const row of rows) {
        const text = row.textContent.toLowerCase();
        const fits = words.every((word) => text.includes(word));
        row.hidden = !(fits && (!tag || row.dataset.tags.split(" ").includes(tag)));
        count += !row.hidden;
      }
      told.textContent = `${number.format(count)} of ${number.format(rows.length)}`;
    };
    form.hidden = false;
    form.addEventListener("input", show);
    form.addEventListener("submit", (event) => event.preventDefault());
    show();
  }

  const element = (name, text, kind) => {
    const made = document.createElement(name);
    made.textContent = text;
    if (kind) made.className = kind;
    return made;
  };
  // Commands are copied by a button.
  for (const command of all(".command")) {
    const button = element("button", "Copy", "copy");
    button.type = "button";
    button.setAttribute("aria-label", `Copy: ${command.querySelector("span").textContent}`);
    const said = element("output", "", "unseen");
    command.append(button, said);
    button.addEventListener("click", async () => {
      const code = command.querySelector("code");
      try {
        await navigator.clipboard.writeText(code.textContent);
        button.textContent = "Copied";
        said.textContent = "copied";
      } catch {
        getSelection().selectAllChildren(code); // to be copied by keyboard
        button.textContent = "Selected";
        said.textContent = "selected";
      }
    });
  }

  // The theme is the system's, until the reader chooses.
  const root = document.body;
  const button = document.querySelector("button.theme");
  const kept = (value) => {
    try {
      return value ? localStorage.setItem("lakeport-theme", value) : localStorage.getItem("lakeport-theme");
    } catch {
      return null; // a browser that keeps nothing
    }
  };
  const dark = () => (root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const name = () => {
    button.textContent = dark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `Show in ${dark() ? "light" : "dark"} colours`);
  };
  if (button) {
    const chosen = kept();
    if (chosen === "dark" || chosen === "light") root.dataset.theme = chosen;
    button.hidden = false;
    name();
    button.addEventListener("click", () => {
      root.dataset.theme = dark() ? "light" : "dark";
      kept(root.dataset.theme);
      name();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", name);
  }
})();
