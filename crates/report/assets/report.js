"use strict";
// Draws the figures of a run from the points embedded in the page.
(() => {
  const { SOFT, color, count, short, seconds, micros, millis, bytes } = ldplayer;
  const { grid, powers, within, fitting, logarithmic, symmetric, across, up, time, fromZero, slowest, draw, lines, keysOf } = ldplayer;
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const [data, run] = [read("data"), read("about")];
  ldplayer.setAbout(() => ({
    lines: [run.title, `${run.settings} · ldplayer ${run.ldplayer}`],
    file: run.file,
    columns: [["run", () => run.title], ["settings", () => run.settings]],
  }));
  const A = "var(--a)", B = "var(--b)", C = "var(--c)";
  const of = (d) => d.of;
  const only = (points, name) => points.filter((d) => d.of === name);
  const curve = (points, name, look) => Plot.line(only(points, name), { x: "x", y: "y", ...look });
  const cumulative = { label: "queries (%)", domain: [0, 100], ...grid };

  // Says below its caption how the slices of a figure were made.
  const say = (id, text) => {
    const caption = document.querySelector(`#${id} figcaption`);
    if (caption && text) caption.append(` ${text}`);
  };
  const queries = (n) => `${count(n)} ${n === 1 ? "query" : "queries"}`;
  const length = ([low, high]) => (seconds(low) === seconds(high) ? seconds(low) : `${seconds(low)} to ${seconds(high)}`);

  // ---- The server.
  const perSecond = (id, label, tickFormat = count, looks) => {
    const points = data[id];
    const keys = looks ? looks.map(([name, key, , words]) => [words ?? name, key]) : keysOf(points, of);
    const marks = () => (looks ? looks.map(([name, stroke, look]) => curve(points, name, { stroke, strokeWidth: 1.6, ...look })) : lines(points, of));
    draw(id, points, () => ({ x: time, y: fromZero(label, points, tickFormat), marks: marks() }), { keys, columns: { x: "time_s", y: label.replaceAll(" ", "_").replace("/", "_per_"), of: "curve" } });
  };
  perSecond("throughput", "per second", count, [["queries", B, { strokeWidth: 4, strokeOpacity: 0.5 }, "queries sent"], ["answers", A]]);
  perSecond("rcodes_time", "answers per second");
  perSecond("without_time", "queries per second");
  perSecond("mbps_time", "Mbit/s", short);
  perSecond("compared_time", "queries per second");

  const percentiles = [["median", A], ["90th percentile", C], ["99th percentile", B]];
  const drawn = data.latency_slices.filter((d) => d.slices > 0);
  const missing = data.latency_slices.filter((d) => d.slices === 0);
  const widths = drawn.map((d) => `${d.of}: ${queries(d.least)} or more in ${count(d.slices)} ${d.slices === 1 ? "slice" : "slices"} of ${length([d.narrowest_s, d.widest_s])}`);
  say("latency_time", widths.length > 0 ? `Slices are widened until five queries lie beyond their percentile: ${widths.join("; ")}.` : "");
  say("latency_time", missing.length > 0 && drawn.length > 0 ? `Not drawn for want of queries: ${missing.map((d) => `${d.of} (needs ${count(d.least)})`).join(", ")}.` : "");
  const known = data.latency_time.filter((d) => d.ms !== null);
  draw("latency_time", known.length > 0 ? data.latency_time : [], (points, size) => ({
    x: { ...time, domain: [0, d3.max(points, (d) => d.to) || 1] },
    y: logarithmic(known.map((d) => Math.max(d.ms, 1e-3)), "latency", up(size)),
    marks: percentiles.toReversed().flatMap(([name, stroke]) => {
      const slices = only(points, name);
      const look = { x: "t", y: (d) => (d.ms === null ? NaN : Math.max(d.ms, 1e-3)) };
      // What has no neighbour on either side would not be seen as a line.
      const alone = slices.filter((d, at) => d.ms !== null && (slices[at - 1]?.ms ?? null) === null && (slices[at + 1]?.ms ?? null) === null);
      return [Plot.line(slices, { ...look, stroke, strokeWidth: 1.6 }), Plot.dot(alone, { ...look, fill: stroke, r: 2.5 })];
    }),
  }), {
    keys: percentiles.filter(([name]) => only(known, name).length > 0),
    columns: { from: "from_s", to: "to_s", queries: "queries", of: "percentile", ms: "latency_ms" },
    none: data.latency_time.length > 0 ? "Nothing to show: every percentile falls among unanswered queries." : `Nothing to show: a median needs ${queries(10)} sent.`,
  });

  const named = { "from sent": [A, false], "from due": [B, true] };
  const tails = [...new Set(data.latency_tail.map(of))];
  const look = (name, at) => named[name] ?? [color(at + 1), false];
  draw("latency_tail", data.latency_tail, (points, size) => ({
    x: slowest(points, size),
    y: logarithmic(points.map((d) => d.y), "latency", up(size)),
    marks: tails.map((name, at) => {
      const [stroke, dashed] = look(name, at);
      return curve(points, name, { stroke, strokeWidth: 2, strokeDasharray: dashed ? "5 4" : undefined });
    }),
  }), { keys: tails.map((name, at) => [name, ...look(name, at)]), columns: { x: "slowest_percent", y: "latency_ms", of: "curve" } });

  const unanswered = data.rcodes.filter((d) => !d.answered && d.name !== "not sent").reduce((sum, d) => sum + d.n, 0);
  say("latency_histogram", unanswered > 0 ? `${queries(unanswered)} without an answer ${unanswered === 1 ? "is" : "are"} not in it.` : "");
  draw("latency_histogram", data.latency_histogram, (points, size) => {
    const [low, high] = [points[0].from, points[points.length - 1].to];
    const domain = high / low < 10 ? [low / 2, high * 2] : [low, high];
    const finer = within(powers(...domain).flatMap((power) => [power, power * 2, power * 5]), domain);
    const ticks = finer.length <= across(size) ? finer : within(powers(...domain), domain);
    return {
      x: { type: "log", label: "latency", domain, ticks: fitting(ticks, across(size)), tickFormat: millis, line: true },
      y: { label: "queries", domain: [0, d3.max(points, (d) => d.n) * 1.05], tickFormat: count, ...grid },
      marks: [Plot.rect(points.filter((d) => d.n > 0), { x1: "from", x2: "to", y1: 0, y2: "n", fill: A, insetLeft: 0.5, insetRight: 0.5, title: (d) => `${millis(d.from)} to ${millis(d.to)}: ${queries(d.n)}` })],
    };
  }, { columns: { from: "from_ms", to: "to_ms", n: "queries" } });

  const within_ms = (id) => {
    const points = data[id];
    draw(id, points, (shown, size) => ({
      x: logarithmic(shown.map((d) => d.x), "latency", across(size)),
      y: cumulative,
      marks: lines(shown, of, { strokeWidth: 2 }),
    }), { keys: keysOf(points, of), columns: { x: "latency_ms", y: "queries_percent", of: "curve" } });
  };
  within_ms("latency_activity");
  within_ms("latency_connections");

  const bars = (id, label) => draw(id, data[id], (points, size) => {
    const total = d3.sum(points, (d) => d.n);
    const narrow = size.width < 600;
    const text = (d) => `${count(d.n)}${narrow ? "" : `  (${((d.n * 100) / total).toFixed(2)} %)`}`;
    const long = d3.max(points, (d) => d.name.length);
    return {
      height: 56 + 26 * points.length,
      marginLeft: Math.min(20 + 7.4 * long, size.width * 0.42),
      marginRight: narrow ? 70 : 150,
      x: { label, ticks: Math.max(2, Math.floor(across(size) / 2)), tickFormat: count, ...grid },
      y: { label: null, domain: points.map((d) => d.name) },
      marks: [
        Plot.barX(points, { x: "n", y: "name", fill: (d) => (d.answered ? A : B) }),
        Plot.text(points, { x: "n", y: "name", text, textAnchor: "start", dx: 6, fill: "currentColor" }),
        Plot.ruleX([0], { stroke: SOFT }),
      ],
    };
  }, { columns: { name: "what", n: label } });
  bars("rcodes", "queries");

  // ---- Connections and what both ends used.
  perSecond("connections_time", "connections");
  perSecond("handshakes", "connections per second");
  bars("closes", "connections");
  // One axis of time for all of them, so that they can be compared; what was sampled before the first query is left out.
  const used = ["cpu_time", "memory_time", "server_sockets", "client_sockets", "losses_time", "traffic_time", "switches_time"];
  const usedTime = { ...time, domain: [0, d3.max(used.flatMap((id) => data[id]), (d) => d.x) || 1] };
  const overUsedTime = (id, label, unit, tickFormat) => {
    const points = data[id].filter((d) => d.x >= 0);
    draw(id, points, () => ({ x: usedTime, y: fromZero(label, points, tickFormat), marks: lines(points, of) }), { keys: keysOf(points, of), columns: { x: "time_s", y: unit, of: "curve" } });
  };
  overUsedTime("cpu_time", "cores", "cores", short);
  overUsedTime("memory_time", "memory", "bytes", bytes);
  overUsedTime("server_sockets", "sockets", "sockets");
  overUsedTime("client_sockets", "sockets", "sockets");
  overUsedTime("losses_time", "per second", "per_second");
  overUsedTime("traffic_time", "bytes per second", "bytes_per_second", bytes);
  overUsedTime("switches_time", "per second", "switches_per_second");

  // ---- The replay.
  const whiskers = data.boxes.length > 0 && data.boxes[0].p99 !== null;
  const boxWidths = d3.extent(data.boxes, (d) => d.to - d.from);
  say("boxes", data.boxes.length > 0 ? `Slices hold ${queries(d3.min(data.boxes, (d) => d.queries))} or more, in ${length(boxWidths)}.` : "");
  say("boxes", data.boxes.length > 0 && !whiskers ? "There are too few queries for whiskers." : "");
  draw("boxes", data.boxes, (points, size) => {
    const edge = (d) => (d.to - d.from) * 0.14;
    const box = { x1: (d) => d.from + edge(d), x2: (d) => d.to - edge(d) };
    const middle = (d) => (d.from + d.to) / 2;
    return {
      x: { ...time, domain: [0, d3.max(points, (d) => d.to) || 1] },
      y: { type: "symlog", constant: 10, label: "timing error", tickFormat: micros, ...symmetric(points.flatMap((d) => [d.p1 ?? d.p25, d.p99 ?? d.p75]), 10, up(size)), ...grid },
      marks: [
        Plot.ruleY([0], { stroke: SOFT }),
        ...(whiskers ? [Plot.link(points, { x1: middle, x2: middle, y1: "p1", y2: "p99", stroke: A, strokeWidth: 1 })] : []),
        Plot.rect(points, { ...box, y1: "p25", y2: "p75", fill: "var(--fill)", stroke: A, title: (d) => `quartiles ${micros(d.p25)} and ${micros(d.p75)}` }),
        Plot.link(points, { ...box, y1: "p50", y2: "p50", stroke: B, strokeWidth: 2 }),
      ],
    };
  }, {
    keys: [["median", B], [whiskers ? "quartiles, 1st and 99th percentile" : "quartiles", A]],
    columns: { from: "from_s", to: "to_s", queries: "queries", p1: "p1_us", p25: "p25_us", p50: "p50_us", p75: "p75_us", p99: "p99_us" },
    none: `Nothing to show: quartiles need ${queries(20)} sent.`,
  });

  draw("error_cdf", data.error_cdf, (points, size) => ({
    x: { type: "symlog", constant: 10, label: "timing error", tickFormat: micros, ...symmetric(points.map((d) => d.x), 10, across(size)), ...grid },
    y: cumulative,
    marks: [Plot.ruleX([0], { stroke: SOFT }), Plot.line(points, { x: "x", y: "y", stroke: A, strokeWidth: 2, curve: "step-after" })],
  }), { columns: { x: "timing_error_us", y: "queries_percent" } });

  draw("gaps", data.gaps, (points, size) => ({
    x: logarithmic(points.map((d) => d.x), "gap to the query before", across(size), seconds),
    y: { label: "gaps (%)", domain: [0, 100], ...grid },
    marks: [
      curve(points, "recorded", { stroke: B, strokeWidth: 4, strokeOpacity: 0.55 }),
      curve(points, "replayed", { stroke: A, strokeWidth: 1.5 }),
    ],
  }), { keys: [["recorded", B], ["replayed", A]], columns: { x: "gap_s", y: "gaps_percent", of: "curve" } });

  draw("rate", data.rate, (points) => {
    const far = Math.max(0.15, d3.max(points, (d) => Math.abs(d.percent)) * 1.1);
    return {
      x: time,
      y: { label: "rate difference (%)", domain: [-far, far], tickFormat: short, ...grid },
      marks: [
        Plot.ruleY([-0.1, 0.1], { stroke: SOFT, strokeDasharray: "5 4" }),
        Plot.ruleY([0], { stroke: SOFT }),
        Plot.dot(points, { x: "t", y: "percent", r: points.length > 200 ? 1.5 : 2.5, fill: A }),
      ],
    };
  }, { columns: { t: "time_s", percent: "rate_difference_percent" } });

  draw("rate_cdf", data.rate_cdf, (points, size) => ({
    x: { type: "symlog", constant: 0.01, label: "rate difference (%)", ...symmetric(points.map((d) => d.x), 0.01, across(size)), tickFormat: short, ...grid },
    y: { label: "windows (%)", domain: [0, 100], ...grid },
    marks: [
      Plot.ruleX([-0.1, 0.1], { stroke: SOFT, strokeDasharray: "5 4" }),
      curve(points, "0.1 s", { stroke: B, strokeWidth: 2, curve: "step-after" }),
      curve(points, "1 s", { stroke: A, strokeWidth: 2, curve: "step-after" }),
    ],
  }), { keys: [["1-s windows", A], ["0.1-s windows", B]], columns: { x: "rate_difference_percent", y: "windows_percent", of: "window" } });

  document.documentElement.dataset.drawn = "yes";
})();
