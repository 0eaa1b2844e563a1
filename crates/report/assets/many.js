"use strict";
// Draws the figures of an experiment: curves by cell, and any figure against any key.
(() => {
  const { color, millis, bytes, short, grid, logarithmic, across, up, draw, compared } = ldplayer;
  const data = JSON.parse(document.getElementById("data").textContent);
  const formats = { ms: millis, B: bytes };
  const NONE = "Nothing to show: no run that counts has this figure.";
  const label = (cell) => data.cells[cell].label;
  const axes = data.axes.length > 0 ? data.axes : [["", [""]]];

  // ---- What figures that are saved say of the experiment.
  const chosen = new Map();
  const only = () => [...chosen].filter(([, value]) => value).map(([key, value]) => `${key}=${value}`);
  const matrix = data.axes.map(([key, values]) => `${key}: ${values.join(", ")}`).join(" · ");
  const started = data.started.replace(/^(\S{10})T(\S{8}).*Z$/, "$1 $2 UTC");
  ldplayer.setAbout(() => ({
    lines: [`${data.name}, ${started}, ${data.repeats} repeats of each cell · ldplayer ${data.ldplayer}`, ...(matrix ? [matrix] : []), ...(only().length > 0 ? [`only ${only().join(", ")}`] : [])],
    file: data.name.replace(/[^A-Za-z0-9.-]/g, "-").slice(0, 60) || "experiment",
    columns: [["experiment", () => data.name], ...data.axes.map(([key]) => [key, (d) => data.cells[d.cell].keys[key] ?? ""])],
  }));

  // ---- Curves by cell, of the cells that are chosen. A cell has the same colour everywhere.
  const isShown = (d) => [...chosen].every(([key, value]) => !value || data.cells[d.cell].keys[key] === value);
  const named = (points) => points.filter(isShown).map((d) => ({ ...d, cell_name: label(d.cell) }));
  const PERCENTILES = { p5: "p5_ms", p25: "p25_ms", p50: "p50_ms", p75: "p75_ms", p95: "p95_ms" };
  const boxes = () => {
    const shown = named(data.curves.boxes).filter((d) => d.p5 !== null);
    draw("boxes", shown, (points, size) => {
      const upper = (d) => d.p95 ?? d.p75 ?? d.p50 ?? d.p25 ?? d.p5;
      const marginLeft = Math.min(24 + 7.4 * d3.max(points, (d) => d.cell_name.length), size.width * 0.4);
      const room = Math.max(8, Math.floor((marginLeft - 24) / 7.4));
      const fill = (d) => color(d.cell);
      return {
        height: 70 + 34 * points.length,
        marginLeft,
        x: logarithmic(points.flatMap((d) => [d.p5, upper(d)]).map((ms) => Math.max(ms, 1e-3)), "latency", across({ ...size, marginLeft })),
        y: { label: null, domain: points.map((d) => d.cell_name), padding: 0.35, tickFormat: (name) => (name.length > room ? `${name.slice(0, room - 1)}…` : name) },
        marks: [
          Plot.ruleY(points, { y: "cell_name", x1: "p5", x2: upper, stroke: fill, strokeWidth: 1.5 }),
          Plot.barX(points.filter((d) => d.p75 !== null), { y: "cell_name", x1: "p25", x2: "p75", fill, fillOpacity: 0.3, stroke: fill }),
          Plot.tickX(points.filter((d) => d.p50 !== null), { y: "cell_name", x: "p50", stroke: fill, strokeWidth: 3 }),
        ],
      };
    }, { columns: { cell_name: "cell", ...PERCENTILES }, none: NONE });
  };
  const all = () => {
    boxes();
    data.figures.forEach((row) => compared(row, data.curves[row.id].filter(isShown), "cell", label, NONE));
  };

  const option = (select, value, text) => {
    const item = document.createElement("option");
    item.value = value;
    item.textContent = text;
    select.append(item);
  };
  const filters = document.getElementById("filters");
  const several = data.axes.filter(([, values]) => values.length > 1);
  filters.hidden = several.length === 0;
  for (const [key, values] of several) {
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
  data.quantities.forEach((d, at) => option(figures, at, `${d.words} (${d.unit})`));
  axes.forEach(([key]) => option(keys, key, key));
  option(lines, "*", "all other keys");
  axes.forEach(([key]) => option(lines, key, key));
  const first = axes.findIndex(([, values]) => values.length > 1);
  keys.value = axes[axes.length > 1 && axes[axes.length - 1][1].length > 1 ? axes.length - 1 : Math.max(first, 0)][0];
  const p99 = data.quantities.findIndex((d) => d.quantity === "p99");
  figures.value = Math.max(p99, 0);
  // From zero, or near the lowest where that is far from it; a logarithmic axis where values are decades apart.
  const heights = (quantity, values, size, tickFormat) => {
    const [low, high] = d3.extent(values);
    if (low > 0 && high / low > 20) return logarithmic(values, quantity.words, up(size), tickFormat);
    const from = quantity.unit === "%" ? Math.max(0, low - (high - low || 1) * 0.3) : 0;
    const domain = low > 0 ? [from, high + (high - low || high * 0.1) * 0.15] : undefined;
    return { label: quantity.words, domain, tickFormat, ...grid };
  };
  // Nothing lies between two servers.
  const isQuantity = (values) => values.every((value) => /^[+-]?[.\d]/.test(value));
  const any = () => {
    const quantity = data.quantities[+figures.value] ?? { cells: [], unit: "", words: "" };
    const key = keys.value;
    const value = (d) => data.cells[d.cell].keys[key] ?? "all";
    const others = lines.value === "*" ? axes.map(([name]) => name).filter((name) => name !== key) : [lines.value];
    const varying = others.filter((name) => (axes.find(([axis]) => axis === name)?.[1] ?? []).length > 1);
    const series = (d) => varying.map((name) => data.cells[d.cell].keys[name]).join(" · ") || "all";
    const names = [...new Set(quantity.cells.map(series))];
    const tint = (d) => color(names.indexOf(series(d)));
    const runs = quantity.cells.flatMap((d) => d.values.map(([repeat, y]) => ({ cell: d.cell, cell_name: label(d.cell), repeat, y })));
    const format = formats[quantity.unit] ?? ((v) => `${short(v)}${quantity.unit === "%" ? " %" : ""}`);
    const title = document.querySelector("#any figcaption b");
    if (quantity.words) title.textContent = key ? `${quantity.words}, against ${key}.` : `${quantity.words}.`;
    const domain = axes.find(([axis]) => axis === key)?.[1].filter((name) => quantity.cells.some((d) => value(d) === name));
    draw("any", runs, (points, size) => {
      const y = heights(quantity, points.map((d) => d.y), size, format);
      const inside = (at) => (y.type === "log" ? Math.min(Math.max(at, y.domain[0]), y.domain[1]) : at);
      return {
        x: { type: "point", label: key, domain: domain?.length > 0 ? domain : undefined, padding: 0.4 },
        y,
        marks: [
          ...(isQuantity(domain ?? [])
            ? names.map((name, at) => Plot.line(quantity.cells.filter((d) => series(d) === name), { x: value, y: "median", stroke: color(at), strokeWidth: 1.5, sort: { x: "x" } }))
            : [Plot.dot(quantity.cells, { x: value, y: "median", stroke: tint, strokeWidth: 1.5, r: 7 })]),
          Plot.ruleX(quantity.cells.filter((d) => d.interval), { x: value, y1: (d) => inside(d.interval[0]), y2: (d) => inside(d.interval[1]), stroke: tint, strokeOpacity: 0.5, strokeWidth: 5, clip: true }),
          Plot.dot(points, { x: value, y: "y", fill: tint, r: 3.5, title: (d) => `${data.cells[d.cell].name}: ${format(d.y)}` }),
        ],
      };
    }, {
      keys: names.map((name, at) => [name, color(at)]),
      columns: { cell_name: "cell", repeat: "repeat", y: `${quantity.quantity} (${quantity.unit})` },
      none: NONE,
    });
  };
  [figures, keys, lines].forEach((select) => select.addEventListener("change", any));
  all();
  any();
  document.documentElement.dataset.drawn = "yes";
})();
