"use strict";
// Tables that sort, filter and group equal layers.

// Columns of a table. `value` is sorted by; `text` is shown.
const numberColumn = (title, value, text) =>
    ({title, value, text, style: "number"});
const column = (title, key, text) => numberColumn(title, row => row[key], text);
const nameColumn = (title, value) =>
    ({title, value: typeof value === "string" ? row => row[value] : value,
      style: "name"});
const shortColumn = (title, value) =>
    ({...nameColumn(title, value), style: "short"});
const countColumn = numberColumn("count", row => row.members.length,
                                 count => count > 1 ? grouped(count) : "");
const bytesColumn = (title, key, text = bytes) =>
    ({...column(title, key, text), exact: true});

// Below this many rows a table needs no filter.
const LEAST_FILTERED_ROWS = 8;

// A table of `rows` at the end of the section `id`, without the columns that
// are empty in all rows. A click on a title sorts; a filter keeps the rows that
// contain all of its words. With `layers` (the options of groupLayers), equal
// layers share a row that can be unfolded. `select`, if given, is called with
// the members of the row that is clicked.
class Table {
  constructor(id, columns, rows, {layers, select} = {}) {
    this.rows = rows;
    this.layers = layers;
    this.select = select;
    const groups = this.groupsOf(rows);
    this.columns = columns.filter(
        column => groups.some(row => this.textOf(column, row) !== ""));
    // The first column of names has the buttons that unfold rows.
    this.label = layers && columns.find(column => column.style === "name");
    this.sorted = null;  // a column
    this.down = false;
    this.words = [];
    this.unfolded = new Set();  // by the first member of the group
    this.isMarked = () => false;
    const section = $(id);
    if (rows.length >= LEAST_FILTERED_ROWS) {
      section.querySelector(".head").append(this.makeFilter());
    }
    const table = make("table"), box = make("div", undefined, "scroll");
    this.head = make("thead");
    this.body = make("tbody");
    table.append(this.head, this.body);
    box.append(table);
    section.append(box);
    this.makeHead();
    this.fill();
  }

  makeFilter() {
    const filter = make("div", undefined, "filter"), input = make("input");
    this.count = make("span", undefined, "count");
    input.type = "search";
    input.placeholder = "filter";
    input.setAttribute("aria-label", "filter rows");
    input.oninput = () => {
      this.words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      this.fill();
    };
    filter.append(this.count, input);
    return filter;
  }

  makeHead() {
    const line = make("tr");
    line.append(...this.columns.map(column => {
      const order = this.sorted !== column ? "" : this.down ? " ▾" : " ▴";
      const title = make("th", column.title + order, this.styleOf(column));
      title.onclick = () => this.sortBy(column);
      return title;
    }));
    this.head.replaceChildren(line);
  }

  styleOf(column) {
    return column === this.label ? "name label" : column.style;
  }

  // The text of a cell. `row` has `members`.
  textOf(column, row) {
    const value = column.value(row);
    return column.text ? column.text(value, row) : String(value ?? "");
  }

  // Rows with `members`.
  groupsOf(rows) {
    return this.layers ? groupLayers(rows, this.layers)
                       : rows.map(row => ({...row, members: [row]}));
  }

  // Whether a row contains all words of the filter.
  matches(row) {
    const single = {...row, members: [row]};
    const text = this.columns.map(column => this.textOf(column, single))
        .join(" ").toLowerCase();
    return this.words.every(word => text.includes(word));
  }

  inOrder(rows) {
    if (!this.sorted) return rows;
    const {value} = this.sorted;
    return [...rows].sort((a, b) => {
      const x = value(a) ?? "", y = value(b) ?? "";
      const order = x < y ? -1 : x > y ? 1 : 0;
      return this.down ? -order : order;
    });
  }

  // Sorts by `column`, numbers downwards, as a click on its title does.
  sortBy(column) {
    this.down = this.sorted === column ? !this.down
                                       : column.style === "number";
    this.sorted = column;
    this.makeHead();
    this.fill();
  }

  fill() {
    const found = this.words.length ? this.rows.filter(row => this.matches(row))
                                    : this.rows;
    const groups = this.groupsOf(found);
    const lines = [];
    for (const group of this.inOrder(groups)) {
      lines.push(this.makeLine(group));
      if (group.members.length === 1 || !this.unfolded.has(group.members[0])) {
        continue;
      }
      const members = group.members.map(row => ({...row, members: [row]}));
      lines.push(...this.inOrder(members).map(
          member => this.makeLine(member, "member")));
    }
    this.body.replaceChildren(...lines);
    this.mark(this.isMarked);
    if (this.count) this.showCount(found.length, groups.length);
  }

  showCount(found, shown) {
    const all = this.rows.length;
    this.count.textContent =
        found < all ? `${grouped(found)} of ${grouped(all)}`
        : shown < all ? `${grouped(all)} in ${plural(shown, "row")}`
        : plural(all, "row");
  }

  makeLine(row, style = "") {
    const line = make("tr", undefined, style);
    for (const column of this.columns) {
      // Long names may wrap after a slash or a comma.
      const text = column.style.startsWith("name")
          ? this.textOf(column, row).replace(/[/,]/g, "$&\u200b")
          : this.textOf(column, row);
      const cell = make("td", text, this.styleOf(column));
      if (column.exact) cell.title = `${grouped(column.value(row))} bytes`;
      if (column === this.label && row.members.length > 1) {
        cell.prepend(this.makeFold(row.members[0]));
      }
      line.append(cell);
    }
    if (this.select) {
      line.classList.add("click");
      line.onclick = () => this.select(row.members);
    } else if (row.members.length > 1) {
      line.classList.add("click");
      line.onclick = () => this.toggle(row.members[0]);
    }
    line.members = row.members;
    return line;
  }

  makeFold(first) {
    const isOpen = this.unfolded.has(first);
    const fold = make("button", isOpen ? "▾" : "▸", "fold");
    fold.type = "button";
    fold.title = "list the layers";
    fold.setAttribute("aria-expanded", isOpen);
    fold.onclick = event => {
      event.stopPropagation();
      this.toggle(first);
    };
    return fold;
  }

  toggle(first) {
    if (!this.unfolded.delete(first)) this.unfolded.add(first);
    this.fill();
  }

  // Highlights the lines with a member for which `isMarked` is true.
  mark(isMarked) {
    this.isMarked = isMarked;
    for (const line of this.body.children) {
      line.classList.toggle("marked", line.members.some(isMarked));
    }
  }
}
