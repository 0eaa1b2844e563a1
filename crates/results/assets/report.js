"use strict";
// Draws the figures from the points embedded in the page. Every <figure> gets data-marks: how many shapes hold data.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const A = "var(--a)", B = "var(--b)", C = "var(--c)", SOFT = "var(--soft)";
  const count = new Intl.NumberFormat("en").format;
  const inDecades = (decades, unit) => (value) => {
    const step = decades.find(([from]) => Math.abs(value) >= from) ?? decades[decades.length - 1];
    return value === 0 ? "0" : `${+(value / step[0]).toPrecision(3)} ${step[1]}`;
  };
  const seconds = inDecades([[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]]);
  const micros = inDecades([[1e6, "s"], [1e3, "ms"], [1, "µs"]]);
  const millis = inDecades([[1e3, "s"], [1, "ms"], [1e-3, "µs"]]);
  const powers = (low, high) => d3.range(Math.floor(Math.log10(low)), Math.ceil(Math.log10(high)) + 1).map((e) => +`1e${e}`);
  const within = (values, [low, high]) => values.filter((value) => value >= low * 0.999 && value <= high * 1.001);

  // Ticks of a symmetric logarithmic axis: powers of ten on both sides of zero, as many as are in sight and fit.
  const symmetric = (values, unit) => {
    const [low, high] = d3.extent(values);
    const sides = powers(unit, Math.max(Math.abs(low), Math.abs(high), unit)).filter((value) => value >= unit);
    const every = Math.ceil(sides.length / 4);
    const some = sides.filter((_, at) => at % every === 0);
    return { domain: [Math.min(low, -unit), Math.max(high, unit)], ticks: within([...some.map((v) => -v).reverse(), 0, ...some], [Math.min(low, -unit), Math.max(high, unit)]) };
  };

  const legend = (entries) => {
    const box = document.createElement("div");
    box.className = "legend";
    for (const [name, color, dashed] of entries) {
      const item = document.createElement("span");
      item.textContent = name;
      item.style.setProperty("--key", color);
      if (dashed) item.className = "dashed";
      box.append(item);
    }
    return box;
  };

  const draw = (id, points, plot, keys) => {
    const figure = document.getElementById(id);
    // A run without connections has no figures of them.
    if (!figure) return;
    if (points.length === 0) {
      const none = document.createElement("p");
      none.className = "none";
      none.textContent = figure.dataset.none ?? "Nothing to show: no query of this run has this figure.";
      figure.append(none);
      figure.dataset.marks = 0;
      return;
    }
    const wide = figure.classList.contains("wide");
    const size = { width: wide ? 1060 : 520, height: wide ? 260 : 300, marginLeft: 64, marginRight: 18, marginBottom: 44 };
    const svg = Plot.plot({ ...size, ...plot(points) });
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", figure.querySelector("figcaption").textContent);
    if (keys) figure.append(legend(keys));
    figure.append(svg);
    figure.dataset.marks = [...svg.querySelectorAll("g[aria-label]")]
      .filter((group) => !/axis|grid|rule|frame|tip/.test(group.getAttribute("aria-label")))
      .reduce((sum, group) => sum + group.childElementCount, 0);
  };

  const grid = { grid: true, line: true };
  const time = { label: "time since the first query (s)", ...grid, grid: false };

  draw("boxes", data.boxes, (points) => {
    const y = symmetric(points.flatMap((d) => [d.p1, d.p99]), 10);
    const step = points.length > 1 ? d3.min(d3.pairs(points, (a, b) => b.t - a.t)) : 1;
    const half = step * 0.36;
    return {
      x: time,
      y: { type: "symlog", constant: 10, label: "timing error", tickFormat: micros, ...y, ...grid },
      marks: [
        Plot.ruleY([0], { stroke: SOFT }),
        Plot.link(points, { x1: "t", x2: "t", y1: "p1", y2: "p99", stroke: A, strokeWidth: 1 }),
        Plot.rect(points, { x1: (d) => d.t - half, x2: (d) => d.t + half, y1: "p25", y2: "p75", fill: "var(--fill)", stroke: A, title: (d) => `p25 ${micros(d.p25)}, p75 ${micros(d.p75)}` }),
        Plot.link(points, { x1: (d) => d.t - half, x2: (d) => d.t + half, y1: "p50", y2: "p50", stroke: B, strokeWidth: 2 }),
      ],
    };
  }, [["median", B], ["quartiles, 1st and 99th percentile", A]]);

  draw("error_cdf", data.error_cdf, (points) => ({
    x: { type: "symlog", constant: 10, label: "timing error", tickFormat: micros, ...symmetric(points.map((d) => d.x), 10), ...grid },
    y: { label: "queries (%)", domain: [0, 100], ...grid },
    marks: [Plot.ruleX([0], { stroke: SOFT }), Plot.line(points, { x: "x", y: "y", stroke: A, strokeWidth: 2, curve: "step-after" })],
  }));

  draw("gaps", data.gaps, (points) => {
    const [low, high] = d3.extent(points, (d) => d.x);
    return {
      x: { type: "log", label: "gap to the query before", domain: [low, Math.max(high, low * 10)], ticks: within(powers(low, high), [low, high]), tickFormat: seconds, ...grid },
      y: { label: "gaps (%)", domain: [0, 100], ...grid },
      marks: [
        Plot.line(points.filter((d) => d.of === "recorded"), { x: "x", y: "y", stroke: B, strokeWidth: 4, strokeOpacity: 0.55 }),
        Plot.line(points.filter((d) => d.of === "replayed"), { x: "x", y: "y", stroke: A, strokeWidth: 1.5 }),
      ],
    };
  }, [["recorded", B], ["replayed", A]]);

  draw("rate", data.rate, (points) => {
    const far = Math.max(0.15, d3.max(points, (d) => Math.abs(d.percent)) * 1.1);
    return {
      x: time,
      y: { label: "rate difference (%)", domain: [-far, far], ...grid },
      marks: [
        Plot.ruleY([-0.1, 0.1], { stroke: SOFT, strokeDasharray: "5 4" }),
        Plot.ruleY([0], { stroke: SOFT }),
        Plot.dot(points, { x: "t", y: "percent", r: points.length > 200 ? 1.5 : 2.5, fill: A }),
      ],
    };
  });

  draw("rate_cdf", data.rate_cdf, (points) => ({
    x: { type: "symlog", constant: 0.01, label: "rate difference (%)", ...symmetric(points.map((d) => d.x), 0.01), tickFormat: (v) => `${v}`, ...grid },
    y: { label: "windows (%)", domain: [0, 100], ...grid },
    marks: [
      Plot.ruleX([-0.1, 0.1], { stroke: SOFT, strokeDasharray: "5 4" }),
      Plot.line(points.filter((d) => d.of === "0.1 s"), { x: "x", y: "y", stroke: B, strokeWidth: 2, curve: "step-after" }),
      Plot.line(points.filter((d) => d.of === "1 s"), { x: "x", y: "y", stroke: A, strokeWidth: 2, curve: "step-after" }),
    ],
  }), [["1-s windows", A], ["0.1-s windows", B]]);

  draw("throughput", data.throughput, (points) => ({
    x: time,
    y: { label: "per second", domain: [0, (d3.max(points, (d) => d.y) || 1) * 1.05], tickFormat: count, ...grid },
    marks: [
      Plot.line(points.filter((d) => d.of === "queries"), { x: "x", y: "y", stroke: B, strokeWidth: 4, strokeOpacity: 0.55 }),
      Plot.line(points.filter((d) => d.of === "answers"), { x: "x", y: "y", stroke: A, strokeWidth: 1.5 }),
    ],
  }), [["queries sent", B], ["answers", A]]);

  const answeredSlots = data.latency_time.filter((d) => d.p50 !== null);
  draw("latency_time", answeredSlots, (points) => {
    const values = points.flatMap((d) => [d.p50, d.p90, d.p99]).filter((ms) => ms !== null && ms > 0);
    const [low, high] = [10 ** Math.floor(Math.log10(d3.min(values))), 10 ** Math.ceil(Math.log10(d3.max(values)))];
    const curve = (key, color) => Plot.line(points, { x: "t", y: key, stroke: color, strokeWidth: 1.5, defined: (ms) => ms !== null });
    return {
      x: time,
      y: { type: "log", label: "latency", domain: [low, Math.max(high, low * 10)], ticks: powers(low, high), tickFormat: millis, ...grid },
      marks: [curve("p99", B), curve("p90", C), curve("p50", A)],
    };
  }, [["median", A], ["p90", C], ["p99", B]]);

  const named = { "from sent": [A, false], "from due": [B, true] };
  const curves = [...new Set(data.latency_tail.map((d) => d.of))];
  const spare = d3.schemeTableau10;
  const look = (name, at) => named[name] ?? [spare[at % spare.length], false];
  draw("latency_tail", data.latency_tail, (points) => {
    const [least, most] = d3.extent(points, (d) => d.x);
    const [low, high] = [10 ** Math.floor(Math.log10(d3.min(points, (d) => d.y))), 10 ** Math.ceil(Math.log10(d3.max(points, (d) => d.y)))];
    return {
      x: { type: "log", reverse: true, label: "slowest queries (%)", domain: [Math.min(least, most / 10), 100], ticks: within(powers(least, 100), [least, 100]), tickFormat: (v) => `${+v.toPrecision(1)}`, ...grid },
      y: { type: "log", label: "latency", domain: [low, Math.max(high, low * 10)], ticks: powers(low, high), tickFormat: millis, ...grid },
      marks: curves.map((name, at) => {
        const [stroke, dashed] = look(name, at);
        return Plot.line(points.filter((d) => d.of === name), { x: "x", y: "y", stroke, strokeWidth: 2, strokeDasharray: dashed ? "5 4" : undefined });
      }),
    };
  }, curves.map((name, at) => [name, ...look(name, at)]));

  // Cumulative curves of several classes, all over the same axis of time.
  const cumulative = (id, points) => {
    const names = [...new Set(points.map((d) => d.of))];
    draw(id, points, () => {
      const [least, most] = d3.extent(points, (d) => d.x);
      const [low, high] = [10 ** Math.floor(Math.log10(least)), 10 ** Math.ceil(Math.log10(most))];
      return {
        x: { type: "log", label: "latency", domain: [low, Math.max(high, low * 10)], ticks: powers(low, high), tickFormat: millis, ...grid },
        y: { label: "queries (%)", domain: [0, 100], ...grid },
        marks: names.map((name, at) => Plot.line(points.filter((d) => d.of === name), { x: "x", y: "y", stroke: spare[at % spare.length], strokeWidth: 2 })),
      };
    }, names.map((name, at) => [name, spare[at % spare.length]]));
  };
  cumulative("latency_activity", data.latency_activity);
  cumulative("latency_connections", data.latency_connections);

  // Curves over time, each with a colour of its own.
  const overTime = (id, points, label, tickFormat = count, x = time) => {
    const names = [...new Set(points.map((d) => d.of))];
    draw(id, points, () => ({
      x,
      y: { label, domain: [0, (d3.max(points, (d) => d.y) || 1) * 1.05], tickFormat, ...grid },
      marks: names.map((name, at) => Plot.line(points.filter((d) => d.of === name), { x: "x", y: "y", stroke: spare[at % spare.length], strokeWidth: 1.5 })),
    }), names.map((name, at) => [name, spare[at % spare.length]]));
  };
  overTime("compared_time", data.compared_time, "queries per second");
  overTime("connections_time", data.connections_time, "connections");
  overTime("handshakes", data.handshakes, "per second");
  const bytes = inDecades([[1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]]);
  // One axis of time for all of them, so that they can be compared; what was sampled before the first query is left out.
  const used = ["cpu_time", "memory_time", "server_sockets", "client_sockets", "losses_time", "traffic_time", "switches_time"];
  const usedTime = { ...time, domain: [0, d3.max(used.flatMap((id) => data[id]), (d) => d.x) || 1] };
  const overUsedTime = (id, label, tickFormat) => overTime(id, data[id].filter((d) => d.x >= 0), label, tickFormat, usedTime);
  overUsedTime("cpu_time", "cores");
  overUsedTime("memory_time", "memory", bytes);
  overUsedTime("server_sockets", "sockets");
  overUsedTime("client_sockets", "sockets");
  overUsedTime("losses_time", "per second");
  overUsedTime("traffic_time", "bytes per second", bytes);
  overUsedTime("switches_time", "per second");

  const bars = (id, bars, label) => draw(id, bars, (points) => {
    const total = d3.sum(points, (d) => d.n);
    return {
      height: 60 + 26 * points.length,
      marginLeft: 110,
      marginRight: 150,
      x: { label, tickFormat: count, ...grid },
      y: { label: null, domain: points.map((d) => d.name) },
      marks: [
        Plot.barX(points, { x: "n", y: "name", fill: (d) => (d.answered ? A : B) }),
        Plot.text(points, { x: "n", y: "name", text: (d) => `${count(d.n)}  (${((d.n * 100) / total).toFixed(2)} %)`, textAnchor: "start", dx: 6, fill: "currentColor" }),
        Plot.ruleX([0], { stroke: SOFT }),
      ],
    };
  });
  bars("rcodes", data.rcodes, "queries");
  bars("closes", data.closes, "connections");
  document.documentElement.dataset.drawn = "yes";
})();
