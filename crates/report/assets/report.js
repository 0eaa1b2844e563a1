"use strict";
// Draws the figures of a run from the points embedded in the page.
(() => {
  const { SOFT, color, dash, count, short, seconds, micros, millis } = ldplayer;
  const { grid, powers, within, fitting, logarithmic, across, up, time, axes, draw } = ldplayer;
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const [{ figures, data, legends, latency_slices: slices }, run] = [read("data"), read("about")];
  // Of a point: `key` for the script, and what people read.
  for (const d of Object.values(data).flat().concat(slices)) if (d.of) [d.key, d.of] = [d.of, legends[d.of] ?? d.of];
  ldplayer.setAbout(() => ({
    lines: [run.title, `${run.settings} · ${run.verdict} · ldplayer ${run.ldplayer}`],
    file: run.file,
    columns: [["run", () => run.title], ["settings", () => run.settings]],
  }));
  const A = "var(--a)", B = "var(--b)", C = "var(--c)";
  const only = (points, key) => points.filter((d) => d.key === key);

  // Says below its caption how the slices of a figure were made.
  const say = (id, text) => {
    const caption = document.querySelector(`#${id} figcaption`);
    if (caption && text) caption.append(` ${text}`);
  };
  const queries = (n) => `${count(n)} ${n === 1 ? "query" : "queries"}`;
  const length = ([low, high]) => (seconds(low) === seconds(high) ? seconds(low) : `${seconds(low)} to ${seconds(high)}`);

  // ---- Figures of curves and of bars. A curve has a colour in its turn, unless it has a look of its own here.
  const LOOKS = {
    throughput: { sent: { stroke: B, strokeWidth: 4, strokeOpacity: 0.5 }, answers: { stroke: A } },
    latency_tail: { from_sent: { stroke: A }, from_due: { stroke: B, strokeDasharray: "5 4" } },
    error_cdf: { error: { stroke: A, strokeWidth: 2 } },
    gaps: { recorded: { stroke: B, strokeWidth: 4, strokeOpacity: 0.55 }, replayed: { stroke: A } },
    rate_cdf: { "1_s": { stroke: A, strokeWidth: 2 }, "0_1_s": { stroke: B, strokeWidth: 2 } },
  };
  const looks = (id, points) => [...new Map(points.map((d) => [d.key, d.of]))].map(([key, name], at) => {
    const look = { stroke: color(at), strokeDasharray: dash(at), ...LOOKS[id]?.[key] };
    return { key, name, look: { strokeWidth: 1.6, ...look }, legend: [name, look.stroke, Boolean(look.strokeDasharray)] };
  });
  // Where values are as they should be, on axes to both sides of zero; there a curve keeps its value up to the next point.
  const RULES = {
    error: () => Plot.ruleX([0], { stroke: SOFT }),
    difference: () => Plot.ruleX([-0.1, 0.1], { stroke: SOFT, strokeDasharray: "5 4" }),
  };
  // What both ends used has one axis of time, so that it can be compared; what was sampled before the first query is left out.
  const used = figures.filter((row) => row.look.x?.scale === "usage_time").map((row) => row.id);
  used.forEach((id) => { data[id] = data[id].filter((d) => d.x >= 0); });
  const usedTime = [0, d3.max(used.flatMap((id) => data[id]), (d) => d.x) || 1];
  const curves = ({ id, look }) => {
    const points = data[id];
    const all = looks(id, points);
    draw(id, points, (_, size) => {
      const { x, y } = axes(look, points, size);
      const rule = RULES[look.x.scale];
      const steps = rule ? { curve: "step-after" } : {};
      const marks = all.map((one) => ldplayer.curve(only(points, one.key), { x: "x", y: "y", ...steps, ...one.look }));
      return { x: look.x.scale === "usage_time" ? { ...x, domain: usedTime } : x, y, marks: rule ? [rule(), ...marks] : marks };
    }, { keys: all.map((one) => one.legend), columns: { x: look.x.column, y: look.y.column, of: "curve" } });
  };
  const bars = ({ id, look: { label } }) => draw(id, data[id], (points, size) => {
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
  const KINDS = { curves, bars };
  figures.forEach((row) => KINDS[row.look.kind]?.(row));

  // ---- Figures that are drawn in a way of their own. The server.
  const percentiles = [["p50", A], ["p90", C], ["p99", B]];
  const drawn = slices.filter((d) => d.slices > 0);
  const missing = slices.filter((d) => d.slices === 0);
  const widths = drawn.map((d) => `${d.of}: ${queries(d.least)} or more in ${count(d.slices)} ${d.slices === 1 ? "slice" : "slices"} of ${length([d.narrowest_s, d.widest_s])}`);
  say("latency_time", widths.length > 0 ? `Slices are widened until five queries lie beyond their percentile: ${widths.join("; ")}.` : "");
  say("latency_time", missing.length > 0 && drawn.length > 0 ? `Not drawn for want of queries: ${missing.map((d) => `${d.of} (needs ${count(d.least)})`).join(", ")}.` : "");
  const known = data.latency_time.filter((d) => d.ms !== null);
  draw("latency_time", known.length > 0 ? data.latency_time : [], (points, size) => ({
    x: { ...time, domain: [0, d3.max(points, (d) => d.to) || 1] },
    y: logarithmic(known.map((d) => Math.max(d.ms, 1e-3)), "latency", up(size)),
    marks: percentiles.toReversed().flatMap(([name, stroke]) => {
      const part = only(points, name);
      const look = { x: "t", y: (d) => (d.ms === null ? NaN : Math.max(d.ms, 1e-3)) };
      // What has no neighbour on either side would not be seen as a line.
      const alone = part.filter((d, at) => d.ms !== null && (part[at - 1]?.ms ?? null) === null && (part[at + 1]?.ms ?? null) === null);
      return [Plot.line(part, { ...look, stroke, strokeWidth: 1.6 }), Plot.dot(alone, { ...look, fill: stroke, r: 2.5 })];
    }),
  }), {
    keys: percentiles.filter(([key]) => only(known, key).length > 0).map(([key, stroke]) => [legends[key], stroke]),
    columns: { from: "from_s", to: "to_s", queries: "queries", of: "percentile", ms: "latency_ms" },
    none: data.latency_time.length > 0 ? "Nothing to show: every percentile falls among unanswered queries." : `Nothing to show: a median needs ${queries(10)} sent.`,
  });

  const unanswered = data.rcodes.filter((d) => !d.answered && d.key !== "not_sent").reduce((sum, d) => sum + d.n, 0);
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

  // The replay.
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
      y: ldplayer.axis({ label: "timing error", scale: "error" }, points.flatMap((d) => [d.p1 ?? d.p25, d.p99 ?? d.p75]), up(size)),
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

  document.documentElement.dataset.drawn = "yes";
})();
