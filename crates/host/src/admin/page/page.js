"use strict";
// What the server tells is put in place as text, and never as markup.
(() => {
  const EVERY_MS = 2000, KEPT = 60, COUNT = 25;
  const NUMBER = new Intl.NumberFormat("en", { maximumFractionDigits: 1, notation: "compact" });
  const $ = (id) => document.getElementById(id);

  const number = (n) => n === null || n === undefined ? "–" : n > 0 && n < 0.05 ? "<0.1" : NUMBER.format(n);
  const count = (n) => n === null || n === undefined ? "–" : n < 100000 ? String(n) : NUMBER.format(n);
  const percent = (n) => n === null ? "–" : number(n * 100) + " %";
  const seconds = (s) => s === null ? "–" : s < 0.001 ? Math.round(s * 1e6) + " µs"
    : s < 1 ? number(s * 1000) + " ms" : number(s) + " s";
  const bytes = (n) => {
    if (n === null) return "–";
    let unit = 0;
    for (; n >= 1024 && unit < 4; unit++) n /= 1024;
    return number(n) + " " + ["B", "KiB", "MiB", "GiB", "TiB"][unit];
  };
  const length = (s) => s < 120 ? s + " s" : s < 7200 ? Math.floor(s / 60) + " min"
    : s < 172800 ? Math.floor(s / 3600) + " h" : Math.floor(s / 86400) + " days";

  // Heads of columns: what they sort by, what they are called, what they mean, and what stands in them.
  const COLUMNS = [
    { sort: "name", label: "Name", views: "all", text: true },
    { label: "Kind", views: "guests", text: true, dull: true, show: (row) => row.kind },
    { label: "State", views: "guests", text: true, show: (row) => row.state },
    { label: "Guests", views: "tenants", show: (row) => count(row.guests) },
    { label: "Leads to", views: "routes", text: true, show: (row) => row.leads_to || "–" },
    { sort: "requests", label: "Requests/s", views: "all", value: (row) => row.requests_s, show: (row) => number(row.requests_s),
      help: "Requests a second, over the last seconds" },
    { label: "Requests", views: "all", value: (row) => row.requests, show: (row) => count(row.requests), help: "Requests since the server began" },
    { sort: "errors", label: "Errors/s", views: "all", bad: true, value: (row) => row.errors_s, show: (row) => number(row.errors_s),
      help: "Requests a second that it did not answer as it should have" },
    { label: "Errors", views: "all", value: (row) => row.errors, show: (row) => count(row.errors), help: "The same since the server began" },
    { label: "p50", views: "all", dull: true, value: (row) => row.p50_s, show: (row) => seconds(row.p50_s),
      help: "Half of the requests of its routes took no longer, from their heads to their answers' ends" },
    { sort: "latency", label: "p99", views: "all", value: (row) => row.p99_s, show: (row) => seconds(row.p99_s),
      help: "99 of 100 requests of its routes took no longer" },
    { sort: "cpu", label: "CPU", views: "guests tenants", value: (row) => row.cpu, show: (row) => percent(row.cpu),
      help: "Of one processor" },
    { sort: "memory", label: "Memory", views: "guests tenants", value: (row) => row.memory_bytes, show: (row) => bytes(row.memory_bytes),
      help: "That its instances or processes hold now" },
    { sort: "denials", label: "Denials", views: "guests tenants", dull: true, value: (row) => row.denials, show: (row) => count(row.denials),
      help: "What it asked for and was not granted" },
    { sort: "faults", label: "Faults", views: "guests tenants", value: (row) => row.faults, show: (row) => count(row.faults),
      help: "Times that it trapped, took too long or too much, or died" },
    { sort: "restarts", label: "Restarts", views: "guests tenants", dull: true, value: (row) => row.restarts, show: (row) => count(row.restarts),
      help: "Instances or processes started in place of one that ended" },
  ];
  const TILES = [
    { label: "Requests", big: (t) => number(t.requests_s) + " /s", more: (t) => count(t.requests) + " in all, " + count(t.refused) + " refused",
      value: (t) => t.requests_s },
    { label: "Errors", big: (t) => number(t.errors_s) + " /s", more: (t) => count(t.errors) + " in all", value: (t) => t.errors_s, bad: (t) => t.errors_s > 0 },
    { label: "Latency p99", big: (t) => seconds(t.p99_s), more: (t) => "p50 " + seconds(t.p50_s), value: (t) => t.p99_s },
    { label: "CPU of guests", big: (t) => percent(t.cpu), more: () => "of one processor", value: (t) => t.cpu },
    { label: "Memory of guests", big: (t) => bytes(t.memory_bytes), more: (t) => count(t.connections) + " connections", value: (t) => t.memory_bytes },
    { label: "Denials", big: (t) => count(t.denials), more: () => "since the start", value: (t) => t.denials, grows: true },
    { label: "Faults", big: (t) => count(t.faults), more: (t) => count(t.restarts) + " restarts, " + count(t.resting) + " at rest",
      value: (t) => t.faults, grows: true, bad: (t) => t.resting > 0 },
  ];

  const asked = { view: "guests", sort: "requests", search: "", from: 0 };
  const open = new Set(), rows = new Map(), history = TILES.map(() => []);
  let live = true, timer = 0, number_of_ask = 0, answers = 0, shown_at = 0, heads_of = "";

  const make = (name, text, attributes = {}) => {
    const element = document.createElement(name);
    if (text !== undefined) element.textContent = text;
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  };
  const set_text = (element, text) => { if (element.textContent !== text) element.textContent = text; };

  // One request at a time; the answer to a question that is not asked any more is dropped.
  async function ask() {
    clearTimeout(timer);
    const own = ++number_of_ask;
    try {
      const query = new URLSearchParams({ ...asked, count: COUNT });
      const answer = await fetch("/overview?" + query, { cache: "no-store", redirect: "error" });
      if (!answer.ok) throw new Error("the server answered " + answer.status);
      const told = await answer.json();
      if (own === number_of_ask) show(told);
    } catch (error) {
      if (own === number_of_ask) show_silence(error);
    }
    if (own === number_of_ask && live && !document.hidden) timer = setTimeout(ask, EVERY_MS);
  }

  function show(told) {
    shown_at = Date.now();
    show_server(told);
    show_tiles(told.totals);
    show_heads(told);
    show_rows(told);
    show_faults(told.faults);
    show_age();
    document.body.dataset.answers = ++answers;
  }

  function show_silence(error) {
    const since = shown_at ? "What is shown is " + length(Math.round((Date.now() - shown_at) / 1000)) + " old: " : "";
    show_alerts([["bad", since + error.message + ". It is tried again."]]);
  }

  function show_alerts(alerts) {
    const box = $("alerts"), key = JSON.stringify(alerts);
    if (box.dataset.key === key) return;
    box.dataset.key = key;
    box.replaceChildren(...alerts.map(([kind, text]) => make("p", text, { class: kind })));
  }

  function show_age() {
    set_text($("age"), live ? "every " + EVERY_MS / 1000 + " s" : "held since " + new Date(shown_at).toLocaleTimeString());
  }

  function show_server(told) {
    const server = told.server;
    set_text($("file"), server.file);
    document.title = "palisade · " + server.file.split("/").pop();
    const alerts = [];
    const failure = server.last_failure;
    if (failure) alerts.push(["bad", "The last reload failed, generation " + server.generation + " serves on (" + failure.time + "): " + failure.message]);
    for (const warning of told.warnings) alerts.push(["warn", warning]);
    const more = told.all_warnings - told.warnings.length;
    if (more > 0) alerts.push(["warn", more + " more warnings: palisade status shows them"]);
    show_alerts(alerts);
    const facts = [
      ["Serves", server.listeners.join(", ") || "no listener of its own"],
      ["Generation", server.generation + (server.serving_since ? ", since " + server.serving_since : "")],
      ["Reloads", server.reloads + ", and " + server.failed_reloads + " that failed"],
      ["Runs", "for " + length(server.uptime_s) + ", process " + server.pid],
      ["Workers", String(server.workers)],
      ["Version", server.version],
      ["Log lines lost", String(server.log_lines_dropped)],
    ];
    show_facts($("server"), facts);
  }

  function show_facts(list, facts) {
    const key = JSON.stringify(facts);
    if (list.dataset.key === key) return;
    list.dataset.key = key;
    list.replaceChildren(...facts.flatMap(([name, value]) => [make("dt", name), make("dd", value)]));
  }

  function show_tiles(totals) {
    const list = $("tiles");
    if (!list.children.length) list.append(...TILES.map(make_tile));
    TILES.forEach((tile, at) => {
      const box = list.children[at];
      set_text(box.querySelector(".big"), tile.big(totals));
      set_text(box.querySelector(".quiet"), tile.more(totals));
      box.classList.toggle("alarm", Boolean(tile.bad && tile.bad(totals)));
      const value = tile.value(totals);
      if (value !== null) history[at].push(value);
      if (history[at].length > KEPT + 1) history[at].shift();
      draw(box.querySelector("polyline"), tile.grows ? growth(history[at]) : history[at].slice(-KEPT));
    });
  }

  const growth = (values) => values.slice(1).map((value, at) => Math.max(0, value - values[at]));

  function make_tile(tile) {
    const box = make("div");
    const value = make("dd");
    const name = "http://www.w3.org/2000/svg";
    const picture = document.createElementNS(name, "svg"), line = document.createElementNS(name, "polyline");
    for (const [key, of] of [["viewBox", "0 0 100 20"], ["preserveAspectRatio", "none"], ["aria-hidden", "true"]]) picture.setAttribute(key, of);
    for (const [key, of] of [["fill", "none"], ["stroke", "currentColor"], ["stroke-width", "1.5"], ["vector-effect", "non-scaling-stroke"]]) line.setAttribute(key, of);
    picture.append(line);
    value.append(make("div", "", { class: "big" }), make("div", "", { class: "quiet" }), picture);
    box.append(make("dt", tile.label), value);
    return box;
  }

  function draw(line, values) {
    const most = Math.max(...values, 0) || 1;
    const x = (at) => (100 * (at + KEPT - values.length) / (KEPT - 1)).toFixed(1);
    const y = (value) => (19 - 18 * value / most).toFixed(1);
    line.setAttribute("points", values.map((value, at) => x(at) + "," + y(value)).join(" "));
  }

  const columns_of = (view) => COLUMNS.filter((column) => column.views === "all" || column.views.split(" ").includes(view));

  function show_heads(told) {
    for (const button of document.querySelectorAll("[data-view]")) {
      button.setAttribute("aria-pressed", String(button.dataset.view === told.view));
      if (button.dataset.view === "tenants") button.hidden = !told.has_tenants && told.view !== "tenants";
    }
    if (heads_of === told.view + told.sort) return;
    const is_new = !heads_of.startsWith(told.view);
    heads_of = told.view + told.sort;
    const columns = columns_of(told.view);
    if (is_new) {
      $("heads").replaceChildren(...columns.map(make_head));
      $("sort").replaceChildren(...columns.filter((column) => column.sort).map((column) => make("option", column.label, { value: column.sort })));
    }
    $("sort").value = told.sort;
    columns.forEach((column, at) => {
      const head = $("heads").children[at];
      if (column.sort && column.sort === told.sort) head.setAttribute("aria-sort", column.sort === "name" ? "ascending" : "descending");
      else head.removeAttribute("aria-sort");
    });
  }

  function make_head(column) {
    const head = make("th", undefined, { scope: "col" });
    head.classList.toggle("text", Boolean(column.text));
    if (column.help) head.title = column.help;
    if (!column.sort) {
      head.textContent = column.label;
      return head;
    }
    const button = make("button", column.label, { type: "button" });
    button.addEventListener("click", () => change({ sort: column.sort, from: 0 }));
    head.append(button);
    return head;
  }

  // Rows that stay keep their elements, so that who stands on one with the keyboard still does.
  function show_rows(told) {
    const columns = columns_of(told.view), focus = document.activeElement, elements = [], keys = new Set();
    for (const row of told.rows) {
      const key = told.view + "\n" + row.kind + "\n" + row.name;
      keys.add(key);
      const known = rows.get(key) || make_row(key, columns);
      rows.set(key, known);
      fill_row(known, row, columns);
      elements.push(known.line, known.more);
    }
    for (const key of rows.keys()) if (!keys.has(key)) rows.delete(key);
    const body = $("body");
    if (elements.length !== body.children.length || elements.some((element, at) => body.children[at] !== element)) {
      body.replaceChildren(...elements);
      if (focus && focus !== document.activeElement && document.contains(focus)) focus.focus({ preventScroll: true });
    }
    show_place(told);
  }

  function make_row(key, columns) {
    const line = make("tr"), more = make("tr", undefined, { class: "more" });
    const cells = columns.map((column) => {
      const cell = make("td", undefined, { "data-label": column.label });
      cell.classList.toggle("text", Boolean(column.text));
      cell.classList.toggle("dull", Boolean(column.dull));
      return cell;
    });
    const button = make("button", "", { type: "button", "aria-expanded": "false" });
    cells[0].append(button);
    line.append(...cells);
    const detail = make("td", undefined, { colspan: String(columns.length) }), facts = make("dl", undefined, { class: "facts" });
    detail.append(facts);
    more.append(detail);
    const row = { line, more, cells, button, facts };
    const set_open = (is_open) => {
      button.setAttribute("aria-expanded", String(is_open));
      more.hidden = !is_open;
    };
    set_open(open.has(key));
    button.addEventListener("click", () => {
      const is_open = !open.has(key);
      if (is_open) open.add(key); else open.delete(key);
      set_open(is_open);
    });
    return row;
  }

  function fill_row(known, row, columns) {
    set_text(known.button, row.name);
    known.button.title = row.name;
    columns.forEach((column, at) => {
      if (!column.show) return;
      const cell = known.cells[at], value = column.value && column.value(row);
      cell.classList.toggle("zero", column.value !== undefined && !value);
      cell.classList.toggle("alarm", Boolean(column.bad && value > 0));
      if (column.label === "State") show_state(cell, row.state);
      else set_text(cell, column.show(row));
    });
    const facts = columns.filter((column) => column.dull).map((column) => [column.label, column.show(row)]);
    if (row.resting && row.kind === "tenant") facts.push(["At rest", String(row.resting)]);
    if (row.cpu_us !== null) facts.push(["Processor time", seconds(row.cpu_us / 1e6)]);
    if (row.leads_to) facts.push(["Leads to", row.leads_to]);
    const fault = row.last_fault;
    if (row.kind !== "route") facts.push(["Last fault", fault ? fault.time + ": " + fault.message : "none"]);
    show_facts(known.facts, facts);
  }

  function show_state(cell, state) {
    const pill = cell.firstElementChild || cell.appendChild(make("span"));
    set_text(pill, state);
    pill.className = "state " + (["idle", "starting", "resting"].includes(state) ? state : "");
  }

  function show_place(told) {
    const last = told.from + told.rows.length;
    const of = told.matching === told.all ? count(told.all) : count(told.matching) + " of " + count(told.all);
    set_text($("place"), told.rows.length ? told.from + 1 + "–" + last + " of " + of : "");
    $("before").disabled = told.from === 0;
    $("after").disabled = last >= told.matching;
    $("pages").hidden = told.matching <= COUNT && told.from === 0;
    $("empty").hidden = told.rows.length > 0;
    if (told.rows.length === 0) set_text($("empty"), asked.search ? "Nothing has “" + asked.search + "” in its name." : "There are none.");
    if (told.from >= told.matching && told.from > 0) change({ from: 0 });
  }

  function show_faults(faults) {
    const list = $("faults"), key = JSON.stringify(faults);
    if (list.dataset.key === key) return;
    list.dataset.key = key;
    const lines = faults.map((fault) => {
      const line = make("li");
      line.append(make("b", fault.guest), make("span", fault.time + " · " + fault.kind, { class: "quiet" }), make("span", fault.message));
      return line;
    });
    list.replaceChildren(...lines.length ? lines : [make("li", "None since the server began.", { class: "quiet" })]);
  }

  function change(what) {
    Object.assign(asked, what);
    const query = new URLSearchParams();
    for (const key of ["view", "sort", "search"]) if (asked[key]) query.set(key, asked[key]);
    window.history.replaceState(null, "", "#" + query);
    ask();
  }

  function restore() {
    const query = new URLSearchParams(location.hash.slice(1));
    const is_view = ["guests", "tenants", "routes"].includes(query.get("view"));
    if (is_view) asked.view = query.get("view");
    if (COLUMNS.some((column) => column.sort && column.sort === query.get("sort"))) asked.sort = query.get("sort");
    asked.search = (query.get("search") || "").slice(0, 80);
    $("search").value = asked.search;
  }

  for (const button of document.querySelectorAll("[data-view]")) {
    button.addEventListener("click", () => {
      const sort = columns_of(button.dataset.view).some((column) => column.sort === asked.sort) ? asked.sort : "requests";
      change({ view: button.dataset.view, sort, from: 0 });
    });
  }
  let typing = 0;
  $("search").addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => change({ search: $("search").value.trim(), from: 0 }), 200);
  });
  $("controls").addEventListener("submit", (event) => event.preventDefault());
  $("sort").addEventListener("change", () => change({ sort: $("sort").value, from: 0 }));
  $("before").addEventListener("click", () => change({ from: Math.max(0, asked.from - COUNT) }));
  $("after").addEventListener("click", () => change({ from: asked.from + COUNT }));
  $("live").addEventListener("click", () => {
    live = !live;
    $("live").setAttribute("aria-pressed", String(live));
    clearTimeout(timer);
    if (live) ask(); else show_age();
  });
  document.addEventListener("keydown", (event) => {
    const is_typing = ["INPUT", "SELECT"].includes(document.activeElement.tagName);
    if (event.key === "/" && !is_typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      $("search").focus();
    } else if (event.key === "Escape" && document.activeElement === $("search") && $("search").value) {
      $("search").value = "";
      change({ search: "", from: 0 });
    }
  });
  document.addEventListener("visibilitychange", () => { if (!document.hidden && live) ask(); });
  restore();
  ask();
})();
