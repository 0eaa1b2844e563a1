"use strict";
// Draws the figures of an experiment from the points embedded in the page. Every <figure> gets data-marks: how many shapes hold data.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const SOFT = "var(--soft)";
  const colors = d3.schemeTableau10;
  const color = (cell) => colors[cell % colors.length];
  const dash = (cell) => (cell >= colors.length ? "5 3" : undefined);
  const inDecades = (decades) => (value) => {
    const step = decades.find(([from]) => Math.abs(value) >= from) ?? decades[decades.length - 1];
    return value === 0 ? "0" : `${+(value / step[0]).toPrecision(3)} ${step[1]}`;
  };
  const millis = inDecades([[1e3, "s"], [1, "ms"], [1e-3, "µs"]]);
  const bytes = inDecades([[1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]]);
  const count = new Intl.NumberFormat("en").format;
  const formats = { ms: millis, B: bytes };
  const powers = (low, high) => d3.range(Math.floor(Math.log10(low)), Math.ceil(Math.log10(high)) + 1).map((e) => +`1e${e}`);
  const grid = { grid: true, line: true };
  const time = { label: "time since the first query (s)", line: true };
  // From the power of ten below to the one above.
  const decades = (values) => {
    const [low, high] = [10 ** Math.floor(Math.log10(d3.min(values))), 10 ** Math.ceil(Math.log10(d3.max(values)))];
    return [low, Math.max(high, low * 10)];
  };
  const logarithmic = (values, label) => {
    const domain = decades(values);
    return { type: "log", label, domain, ticks: powers(...domain), tickFormat: millis, ...grid };
  };

  const legend = (entries) => {
    const box = document.createElement("div");
    box.className = "legend";
    for (const [name, key, dashed] of entries) {
      const item = document.createElement("span");
      item.textContent = name;
      item.style.setProperty("--key", key);
      if (dashed) item.className = "dashed";
      box.append(item);
    }
    return box;
  };

  const draw = (id, points, plot, keys) => {
    const figure = document.getElementById(id);
    if (!figure) return;
    [...figure.children].filter((child) => child.tagName !== "FIGCAPTION").forEach((child) => child.remove());
    if (points.length === 0) {
      const none = document.createElement("p");
      none.className = "none";
      none.textContent = "Nothing to show: no run that counts has this figure.";
      figure.append(none);
      figure.dataset.marks = 0;
      return;
    }
    const wide = figure.classList.contains("wide");
    const size = { width: wide ? 1060 : 520, height: 300, marginLeft: 70, marginRight: 18, marginBottom: 44 };
    const svg = Plot.plot({ ...size, ...plot(points) });
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", figure.querySelector("figcaption").textContent);
    if (keys) figure.append(legend(keys));
    figure.append(svg);
    figure.dataset.marks = [...svg.querySelectorAll("g[aria-label]")]
      .filter((group) => !/axis|grid|frame|tip/.test(group.getAttribute("aria-label")))
      .reduce((sum, group) => sum + group.childElementCount, 0);
  };

  // ---- Curves by cell, of the cells that are chosen.
  const label = (cell) => data.cells[cell].label;
  const chosen = new Map();
  const isShown = (d) => [...chosen].every(([key, value]) => !value || data.cells[d.cell].keys[key] === value);
  const curves = (id, points, axes) => {
    const shown = points.filter(isShown);
    const cells = [...new Set(shown.map((d) => d.cell))];
    const lines = cells.map((cell) => Plot.line(shown.filter((d) => d.cell === cell), { x: "x", y: "y", stroke: color(cell), strokeWidth: 1.8, strokeDasharray: dash(cell) }));
    draw(id, shown, () => ({ ...axes(shown), marks: lines }), cells.map((cell) => [label(cell), color(cell), cell >= colors.length]));
  };
  const fromZero = (name, tickFormat = count) => (points) => ({ x: time, y: { label: name, domain: [0, (d3.max(points, (d) => d.y) || 1) * 1.05], tickFormat, ...grid } });
  const latencyOverTime = (points) => ({ x: time, y: logarithmic(points.map((d) => Math.max(d.y, 1e-3)), "latency") });
  const boxes = () => {
    const shown = data.curves.boxes.filter((d) => isShown(d) && d.p5 !== null);
    draw("boxes", shown, (points) => {
      const upper = (d) => d.p95 ?? d.p75 ?? d.p50 ?? d.p25 ?? d.p5;
      const names = points.map((d) => label(d.cell));
      return {
        height: 70 + 34 * points.length,
        marginLeft: 24 + 7 * d3.max(names, (name) => name.length),
        x: logarithmic(points.flatMap((d) => [d.p5, upper(d)]).map((ms) => Math.max(ms, 1e-3)), "latency"),
        y: { label: null, domain: names, padding: 0.35 },
        marks: [
          Plot.ruleY(points, { y: (d) => label(d.cell), x1: "p5", x2: upper, stroke: (d) => color(d.cell), strokeWidth: 1.5 }),
          Plot.barX(points.filter((d) => d.p75 !== null), { y: (d) => label(d.cell), x1: "p25", x2: "p75", fill: (d) => color(d.cell), fillOpacity: 0.3, stroke: (d) => color(d.cell) }),
          Plot.tickX(points.filter((d) => d.p50 !== null), { y: (d) => label(d.cell), x: "p50", stroke: (d) => color(d.cell), strokeWidth: 3 }),
        ],
      };
    });
  };
  const all = () => {
    boxes();
    curves("cdf", data.curves.cdf, (points) => ({ x: logarithmic(points.map((d) => d.x), "latency"), y: { label: "queries (%)", domain: [0, 100], ...grid } }));
    curves("tail", data.curves.tail, (points) => {
      const least = d3.min(points, (d) => d.x);
      const ticks = powers(least, 100).filter((value) => value >= least * 0.999 && value <= 100);
      return { x: { type: "log", reverse: true, label: "slowest queries (%)", domain: [least, 100], ticks, tickFormat: (v) => `${+v.toPrecision(1)}`, ...grid }, y: logarithmic(points.map((d) => d.y), "latency") };
    });
    curves("p50", data.curves.p50, latencyOverTime);
    curves("p99", data.curves.p99, latencyOverTime);
    curves("answers", data.curves.answers, fromZero("per second"));
    curves("cores", data.curves.cores, fromZero("cores"));
    curves("memory", data.curves.memory, fromZero("memory", bytes));
  };

  const option = (select, value, text) => {
    const item = document.createElement("option");
    item.value = value;
    item.textContent = text;
    select.append(item);
  };
  const filters = document.getElementById("filters");
  for (const [key, values] of data.axes.filter(([, values]) => values.length > 1)) {
    const select = document.createElement("select");
    option(select, "", `every ${key}`);
    values.forEach((value) => option(select, value, `${key}=${value}`));
    select.addEventListener("change", () => {
      chosen.set(key, select.value);
      all();
    });
    filters.append(select, " ");
  }

  // ---- Any figure against any key.
  const [figures, keys, lines] = ["choose-figure", "choose-key", "choose-lines"].map((id) => document.getElementById(id));
  data.quantities.forEach((d, at) => option(figures, at, `${d.quantity} (${d.unit})`));
  const axes = data.axes.length > 0 ? data.axes : [["", [""]]];
  axes.forEach(([key]) => option(keys, key, key));
  option(lines, "*", "all other keys");
  axes.forEach(([key]) => option(lines, key, key));
  const first = axes.findIndex(([, values]) => values.length > 1);
  keys.value = axes[axes.length > 1 && axes[axes.length - 1][1].length > 1 ? axes.length - 1 : Math.max(first, 0)][0];
  const p99 = data.quantities.findIndex((d) => d.quantity === "p99");
  figures.value = Math.max(p99, 0);
  const any = () => {
    const quantity = data.quantities[+figures.value] ?? { cells: [], unit: "" };
    const key = keys.value;
    const value = (d) => data.cells[d.cell].keys[key] ?? "all";
    const others = lines.value === "*" ? axes.map(([name]) => name).filter((name) => name !== key) : [lines.value];
    const varying = others.filter((name) => (axes.find(([axis]) => axis === name)?.[1] ?? []).length > 1);
    const series = (d) => varying.map((name) => data.cells[d.cell].keys[name]).join(" · ") || "all";
    const names = [...new Set(quantity.cells.map(series))];
    const tint = (d) => colors[names.indexOf(series(d)) % colors.length];
    const runs = quantity.cells.flatMap((d) => d.values.map(([, y]) => ({ cell: d.cell, y })));
    const positive = runs.every((d) => d.y > 0);
    const [low, high] = d3.extent(runs, (d) => d.y);
    const far = positive && high / low > 20;
    const format = formats[quantity.unit] ?? ((v) => `${+v.toPrecision(4)}${quantity.unit === "%" ? " %" : ""}`);
    draw("any", runs, () => ({
      x: { type: "point", label: key, domain: axes.find(([axis]) => axis === key)?.[1].filter((name) => quantity.cells.some((d) => value(d) === name)), padding: 0.4 },
      y: far
        ? { ...logarithmic(runs.map((d) => d.y), quantity.quantity), tickFormat: format }
        : { label: quantity.quantity, domain: positive ? [quantity.unit === "%" ? Math.max(0, low - (high - low || 1) * 0.3) : 0, high + (high - low || high * 0.1) * 0.15] : undefined, tickFormat: format, ...grid },
      marks: [
        ...names.map((name) => Plot.line(quantity.cells.filter((d) => series(d) === name), { x: value, y: "median", stroke: colors[names.indexOf(name) % colors.length], strokeWidth: 1.5, sort: { x: "x" } })),
        Plot.ruleX(quantity.cells.filter((d) => d.interval && (!far || d.interval[0] > 0)), { x: value, y1: (d) => (far ? Math.max(d.interval[0], decades(runs.map((r) => r.y))[0]) : d.interval[0]), y2: (d) => (far ? Math.min(d.interval[1], decades(runs.map((r) => r.y))[1]) : d.interval[1]), stroke: tint, strokeOpacity: 0.5, strokeWidth: 5, clip: true }),
        Plot.dot(runs, { x: value, y: "y", fill: tint, r: 3.5, title: (d) => `${data.cells[d.cell].name}: ${format(d.y)}` }),
      ],
    }), names.map((name, at) => [name, colors[at % colors.length]]));
  };
  [figures, keys, lines].forEach((select) => select.addEventListener("change", any));
  all();
  any();
  document.documentElement.dataset.drawn = "yes";
})();
