"use strict";
// Draws figures as wide as their place, draws them again when that changes, and saves them as SVG, PNG and CSV. Every <figure> gets
// data-marks: how many shapes hold data.
const ldplayer = (() => {
  const SOFT = "var(--soft)";
  const colors = d3.schemeTableau10;
  const color = (at) => colors[at % colors.length];
  // Beyond the colours there are dashes.
  const dash = (at) => [undefined, "6 3", "2 3"][Math.floor(at / colors.length) % 3];

  // ---- Numbers. A zero has no sign.
  const number = new Intl.NumberFormat("en", { maximumSignificantDigits: 6 });
  const count = (value) => number.format(value || 0);
  const short = (value) => `${+value.toPrecision(4)}`;
  const inDecades = (decades) => (value) => {
    const step = decades.find(([from]) => Math.abs(value) >= from * 0.9995) ?? decades[decades.length - 1];
    return value === 0 ? "0" : `${+(value / step[0]).toPrecision(3)} ${step[1]}`;
  };
  const seconds = inDecades([[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]]);
  const micros = inDecades([[1e6, "s"], [1e3, "ms"], [1, "µs"]]);
  const millis = inDecades([[1e3, "s"], [1, "ms"], [1e-3, "µs"]]);
  const bytes = inDecades([[1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]]);

  // ---- Axes.
  const grid = { grid: true, line: true };
  const powers = (low, high) => d3.range(Math.floor(Math.log10(low) + 1e-9), Math.ceil(Math.log10(high) - 1e-9) + 1).map((e) => +`1e${e}`);
  const within = (values, [low, high]) => values.filter((value) => value >= low * 0.999 && value <= high * 1.001);
  // As many of the ticks as have room, counted from the first.
  const fitting = (ticks, room) => {
    const every = Math.ceil(ticks.length / Math.max(2, Math.floor(room)));
    return ticks.filter((_, at) => at % every === 0);
  };
  // From the power of ten below to the one above.
  const decades = (values) => {
    const [low, high] = [10 ** Math.floor(Math.log10(d3.min(values)) + 1e-9), 10 ** Math.ceil(Math.log10(d3.max(values)) - 1e-9)];
    return [low, Math.max(high, low * 10)];
  };
  const logarithmic = (values, label, room, tickFormat = millis) => {
    const domain = decades(values);
    return { type: "log", label, domain, ticks: fitting(powers(...domain), room), tickFormat, ...grid };
  };
  // A symmetric logarithmic axis: powers of ten on both sides of zero, as many as are in sight and have room.
  const symmetric = (values, unit, room) => {
    const [low, high] = d3.extent(values);
    const domain = [Math.min(low, -unit), Math.max(high, unit)];
    const sides = powers(unit, Math.max(-domain[0], domain[1]));
    const seen = sides.filter((v) => v <= domain[1]).length + sides.filter((v) => v <= -domain[0]).length + 1;
    const every = Math.max(1, Math.ceil(seen / Math.max(3, room)));
    // Where there is little room, the ones next to zero would lie over its label.
    const some = sides.filter((_, at) => (sides.length - 1 - at) % every === 0 && (at > 0 || room >= 6 || sides.length === 1));
    return { domain, ticks: [...some.map((v) => -v).reverse(), 0, ...some].filter((v) => v >= domain[0] * 1.001 && v <= domain[1] * 1.001) };
  };
  // Room for labels of an axis of this many pixels.
  const across = (size) => (size.width - size.marginLeft - size.marginRight) / 62;
  const up = (size) => (size.height - 60) / 26;
  const time = { label: "time since the first query (s)", line: true, tickFormat: count };
  // A slowest share of the queries: evenly from all of them to the slowest one.
  const slowest = (values, size) => {
    const least = d3.min(values);
    const ticks = within(powers(least, 100), [least, 100]).reverse();
    return { type: "log", reverse: true, label: "slowest queries (%)", domain: [Math.min(least, 10), 100], ticks: fitting(ticks, across(size)), tickFormat: (v) => `${+v.toPrecision(1)}`, ...grid };
  };

  // The axis of a row of the table of figures, for these values.
  const LEVELS = { count, short, bytes };
  const axis = ({ label, scale }, values, room, size) => {
    const most = d3.max(values) || 1;
    switch (scale) {
      case "time": case "usage_time": return { ...time, domain: [0, most] };
      case "slowest": return slowest(values, size);
      case "latency": return logarithmic(values.map((ms) => Math.max(ms, 1e-3)), label, room);
      case "gap": return logarithmic(values, label, room, seconds);
      case "error": return { type: "symlog", constant: 10, label, tickFormat: micros, ...symmetric(values, 10, room), ...grid };
      case "difference": return { type: "symlog", constant: 0.01, label, tickFormat: short, ...symmetric(values, 0.01, room), ...grid };
      case "percent": return { label, domain: [0, 100], ...grid };
      default: return { label, domain: [0, most * 1.05], tickFormat: LEVELS[scale], ...grid };
    }
  };
  const axes = ({ x, y }, points, size) => ({
    x: axis(x, points.map((d) => d.x), across(size), size),
    y: axis(y, points.map((d) => d.y), up(size), size),
  });

  // ---- Figures.
  const all = [];
  let about = () => ({ lines: [], file: "figure", columns: [] });
  const sizeOf = (figure, width) => {
    const wide = figure.classList.contains("wide");
    return { width, height: width < 420 ? 240 : wide ? 260 : 300, marginLeft: width < 420 ? 52 : 64, marginRight: 16, marginTop: 26, marginBottom: 40, style: { fontSize: "12px" } };
  };
  const legend = (keys) => {
    const box = document.createElement("div");
    box.className = "legend";
    for (const [name, key, dashed] of keys) {
      const item = document.createElement("span");
      item.textContent = name;
      item.style.setProperty("--key", key);
      if (dashed) item.className = "dashed";
      box.append(item);
    }
    return box;
  };
  const plotted = ({ figure, points, plot }, width) => {
    const size = sizeOf(figure, width);
    const svg = Plot.plot({ ...size, ...plot(points, size) });
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", figure.querySelector("figcaption").textContent);
    return svg;
  };
  const marks = (svg) => [...svg.querySelectorAll("g[aria-label]")]
    .filter((group) => !/axis|grid|rule|frame|tip/.test(group.getAttribute("aria-label")))
    .reduce((sum, group) => sum + group.childElementCount, 0);
  const render = (entry, width) => {
    const { figure } = entry;
    figure.querySelectorAll(":scope > svg").forEach((old) => old.remove());
    const svg = plotted(entry, width);
    figure.insertBefore(svg, figure.querySelector(".save"));
    figure.dataset.marks = marks(svg);
    entry.width = width;
  };
  const widthOf = (figure) => Math.max(260, Math.round(figure.clientWidth) || 520);

  // `plot` makes the options of a plot of points and the size of the figure; `columns` are the keys of a point and their heads in CSV.
  const draw = (id, points, plot, { keys, columns, none } = {}) => {
    const figure = document.getElementById(id);
    // A run without connections has no figures of them.
    if (!figure) return;
    // What was drawn of other points gives way.
    const before = all.findIndex((entry) => entry.id === id);
    if (before >= 0) all.splice(before, 1);
    figure.querySelectorAll(":scope > :is(svg, .legend, .save, .none)").forEach((old) => old.remove());
    if (points.length === 0) {
      const text = document.createElement("p");
      text.className = "none";
      text.textContent = none ?? figure.dataset.none ?? "Nothing to show: no query of this run has this figure.";
      figure.append(text);
      figure.dataset.marks = 0;
      return;
    }
    const entry = { id, figure, points, plot, keys: keys ?? [], columns };
    all.push(entry);
    if (entry.keys.length > 0) figure.append(legend(entry.keys));
    figure.append(buttons(entry));
    render(entry, widthOf(figure));
  };
  // A curve of one point is a dot.
  const curve = (points, look) => (points.length > 1 ? Plot.line(points, look) : Plot.dot(points, { x: look.x, y: look.y, fill: look.stroke, r: 3 }));
  // The curves of a row of the table, one for each run or cell (`group`), which has the same colour everywhere.
  const compared = (row, points, group, name, none) => {
    const groups = [...new Set(points.map((d) => d[group]))];
    const known = points.filter((d) => d.y !== null);
    const marks = groups.map((at) => curve(points.filter((d) => d[group] === at), { x: "x", y: (d) => d.y ?? NaN, stroke: color(at), strokeWidth: 1.8, strokeDasharray: dash(at) }));
    draw(row.id, known.length > 0 ? points.map((d) => ({ ...d, name: name(d[group]) })) : [], (_, size) => ({ ...axes(row, known, size), marks }), {
      keys: groups.map((at) => [name(at), color(at), at >= colors.length]),
      columns: { name: group, x: row.x.column, y: row.y.column },
      none: row.none || none,
    });
  };

  // ---- Saving. Pictures are light, have their title and legend inside, and say what they are of.
  const palette = () => {
    const probe = document.createElement("div");
    probe.className = "light";
    document.body.append(probe);
    const style = getComputedStyle(probe);
    const found = new Map(["ink", "soft", "line", "paper", "a", "b", "c", "fill"].map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
    probe.remove();
    return found;
  };
  const settled = (text, tints) => text.replace(/var\(--([a-z-]+)\)/g, (_, name) => tints.get(name) ?? "#fff").replace(/currentColor/g, tints.get("ink"));
  const FONT = "system-ui, 'DejaVu Sans', Arial, sans-serif";
  const ruler = document.createElement("canvas").getContext("2d");
  const wrapped = (text, px, width) => {
    ruler.font = `${px}px ${FONT}`;
    const found = [];
    let line = "";
    // A word without a space may be a path, and longer than a line.
    for (const word of text.split(/\s+/).flatMap((word) => word.match(/.{1,60}/gu) ?? [])) {
      const longer = line ? `${line} ${word}` : word;
      if (line && ruler.measureText(longer).width > width) {
        found.push(line);
        line = word;
      } else {
        line = longer;
      }
    }
    return line ? [...found, line] : found;
  };
  const svgOf = (entry) => {
    const { figure, keys } = entry;
    const width = figure.classList.contains("wide") ? 960 : 640;
    const tints = palette();
    const node = (name, attributes, text) => {
      const made = document.createElementNS("http://www.w3.org/2000/svg", name);
      Object.entries(attributes).forEach(([key, value]) => made.setAttribute(key, value));
      if (text !== undefined) made.textContent = text;
      return made;
    };
    const picture = node("svg", { xmlns: "http://www.w3.org/2000/svg", width, "font-family": FONT, "font-size": 12, color: tints.get("ink") });
    const background = node("rect", { width: "100%", fill: tints.get("paper") });
    picture.append(background);
    const left = 16;
    let y = 12;
    const write = (text, px, attributes = {}) => {
      for (const line of wrapped(text, px, width - 2 * left)) {
        y += px + 4;
        picture.append(node("text", { x: left, y, "font-size": px, fill: tints.get("ink"), ...attributes }, line));
      }
    };
    const caption = figure.querySelector("figcaption");
    const title = caption.querySelector("b")?.textContent ?? entry.id;
    write(title, 15, { "font-weight": "bold" });
    write(caption.textContent.replace(title, "").trim(), 12, { fill: tints.get("soft") });
    let x = left;
    if (keys.length > 0) y += 18;
    for (const [name, key, dashed] of keys) {
      ruler.font = `12px ${FONT}`;
      const long = ruler.measureText(name).width + 40;
      if (x > left && x + long > width - left) [x, y] = [left, y + 18];
      picture.append(node("line", { x1: x, x2: x + 18, y1: y - 4, y2: y - 4, stroke: settled(key, tints), "stroke-width": 3, ...(dashed ? { "stroke-dasharray": "5 3" } : {}) }));
      picture.append(node("text", { x: x + 24, y, fill: tints.get("ink") }, name));
      x += long;
    }
    y += 8;
    const svg = plotted(entry, width);
    const height = +svg.getAttribute("height");
    svg.querySelectorAll("style").forEach((style) => style.remove());
    for (const part of [svg, ...svg.querySelectorAll("*")]) {
      ["class", "aria-label", "role"].forEach((name) => part.removeAttribute(name));
      for (const { name, value } of [...part.attributes]) if (/var\(|currentColor/.test(value)) part.setAttribute(name, settled(value, tints));
    }
    svg.setAttribute("y", y);
    svg.setAttribute("overflow", "visible");
    svg.setAttribute("fill", tints.get("ink"));
    picture.append(svg);
    y += height + 4;
    about().lines.forEach((line) => write(line, 11, { fill: tints.get("soft") }));
    y += 14;
    picture.setAttribute("height", y);
    picture.setAttribute("viewBox", `0 0 ${width} ${y}`);
    background.setAttribute("height", y);
    return { text: new XMLSerializer().serializeToString(picture), width, height: y };
  };
  const cell = (value) => {
    const text = value === null || value === undefined ? "" : typeof value === "number" ? `${value || 0}` : `${value}`;
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const csvOf = ({ points, columns }) => {
    const shown = columns ?? Object.fromEntries(Object.keys(points[0]).map((key) => [key, key]));
    const more = about().columns;
    const head = [...Object.values(shown), ...more.map(([name]) => name)];
    const rows = points.map((d) => [...Object.keys(shown).map((key) => d[key]), ...more.map(([, value]) => value(d))]);
    return [head, ...rows].map((row) => row.map(cell).join(",")).join("\n") + "\n";
  };
  const pngOf = async (entry) => {
    const { text, width, height } = svgOf(entry);
    const image = new Image();
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
    await image.decode();
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [width * 2, height * 2];
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return new Promise((made) => canvas.toBlob(made, "image/png"));
  };
  const KINDS = {
    svg: async (entry) => new Blob([svgOf(entry).text], { type: "image/svg+xml" }),
    png: pngOf,
    csv: async (entry) => new Blob([csvOf(entry)], { type: "text/csv" }),
  };
  const save = async (entry, kind) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(await KINDS[kind](entry));
    link.download = `${about().file}-${entry.id.replaceAll("_", "-")}.${kind}`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  };
  const buttons = (entry) => {
    const box = document.createElement("div");
    box.className = "save";
    for (const kind of Object.keys(KINDS)) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = kind.toUpperCase();
      button.dataset.save = kind;
      button.title = `Save this figure as ${kind.toUpperCase()}`;
      button.addEventListener("click", () => save(entry, kind));
      box.append(button);
    }
    return box;
  };

  // ---- As wide as their place, on paper too.
  const redraw = (width = ({ figure }) => widthOf(figure)) => all.filter((entry) => width(entry) !== entry.width).forEach((entry) => render(entry, width(entry)));
  let waiting;
  window.addEventListener("resize", () => {
    clearTimeout(waiting);
    waiting = setTimeout(redraw, 100);
  });
  // Columns of paper, of which the style sheet stretches figures to the very width.
  window.addEventListener("beforeprint", () => redraw(({ figure }) => (figure.classList.contains("wide") ? 700 : 340)));
  window.addEventListener("afterprint", () => redraw());
  // Nobody unfolds a warning on paper.
  window.addEventListener("beforeprint", () => document.querySelectorAll(".sub details, .warnings details").forEach((folded) => { folded.open = true; }));

  return {
    SOFT, color, dash, count, short, seconds, micros, millis, bytes,
    grid, powers, within, fitting, decades, logarithmic, across, up, time, axis, axes,
    draw, curve, compared,
    setAbout: (of) => { about = of; },
  };
})();
