"use strict";
// Lays the curves of several runs over one another.
(() => {
  const { color, count, short, bytes } = ldplayer;
  const { dash, grid, logarithmic, up, time, fromZero, slowest, draw, curve } = ldplayer;
  const data = JSON.parse(document.getElementById("data").textContent);
  const name = (run) => data.runs[run].name;
  ldplayer.setAbout(() => ({
    lines: data.runs.map((run) => `${run.name}: ${run.title}; ${run.settings}; ldplayer ${run.ldplayer}`),
    file: "runs",
    columns: [["trace_server_date", (d) => data.runs[d.run].title], ["settings", (d) => data.runs[d.run].settings]],
  }));
  data.runs.forEach((_, at) => document.querySelectorAll(`[data-run="${at}"]`).forEach((swatch) => swatch.style.setProperty("--key", color(at))));
  // A run has the same colour everywhere, also where another has nothing.
  const curves = (id, unit, axes, none) => {
    const points = data[id].map((d) => ({ ...d, run_name: name(d.run) }));
    const runs = [...new Set(points.map((d) => d.run))];
    const known = points.filter((d) => d.y !== null);
    const marks = runs.map((run) => curve(points.filter((d) => d.run === run), { x: "x", y: (d) => d.y ?? NaN, stroke: color(run), strokeWidth: 1.8, strokeDasharray: dash(run) }));
    draw(id, known.length > 0 ? points : [], (_, size) => ({ ...axes(known, size), marks }), {
      keys: runs.map((run) => [name(run), color(run), run >= 10]),
      columns: { run_name: "run", x: unit[0], y: unit[1] },
      none: none ?? "Nothing to show: no run has this figure.",
    });
  };
  const fromStart = (points) => ({ ...time, domain: [0, d3.max(points, (d) => d.x) || 1] });
  const latency = (points, size) => ({ x: fromStart(points), y: logarithmic(points.map((d) => Math.max(d.y, 1e-3)), "latency", up(size)) });
  const rising = (label, tickFormat) => (points) => ({ x: fromStart(points), y: fromZero(label, points, tickFormat) });
  curves("tail", ["slowest_percent", "latency_ms"], (points, size) => ({ x: slowest(points, size), y: logarithmic(points.map((d) => d.y), "latency", up(size)) }));
  curves("p50", ["time_s", "latency_ms"], latency);
  curves("p99", ["time_s", "latency_ms"], latency, "Nothing to show: no run has 500 queries, or all their 99th percentiles fall among unanswered ones.");
  curves("answers", ["time_s", "answers_per_second"], rising("answers per second"));
  curves("timeouts", ["time_s", "timeouts_per_second"], rising("queries per second"), "No query timed out in any run.");
  curves("connections", ["time_s", "connections"], rising("connections"));
  curves("cores", ["time_s", "cores"], rising("cores", short));
  curves("memory", ["time_s", "bytes"], rising("memory", bytes));

  // ---- Shares of response codes: a bar a run.
  const rcodes = data.rcodes.map((d) => ({ ...d, run_name: name(d.run) }));
  const codes = [...new Set(d3.sort(rcodes, (d) => -d.n).map((d) => d.name))];
  const silent = ["timed out", "failed"];
  const order = [...codes.filter((code) => !silent.includes(code)), ...silent.filter((code) => codes.includes(code))];
  const tint = (code) => (code === "timed out" ? "#555" : code === "failed" ? "#999" : color(order.indexOf(code)));
  draw("rcodes", rcodes, (points, size) => {
    const names = data.runs.map((run) => run.name);
    return {
      height: 60 + 34 * names.length,
      marginLeft: Math.min(20 + 7.4 * d3.max(names, (text) => text.length), size.width * 0.4),
      x: { label: "queries sent (%)", domain: [0, 100], ...grid },
      y: { label: null, domain: names, padding: 0.25 },
      marks: [Plot.barX(points, { x: "percent", y: "run_name", fill: (d) => tint(d.name), order: order, z: "name", title: (d) => `${d.run_name}, ${d.name}: ${count(d.n)} (${short(d.percent)} %)` })],
    };
  }, { keys: order.map((code) => [code, tint(code)]), columns: { run_name: "run", name: "what", n: "queries", percent: "percent" } });
  document.documentElement.dataset.drawn = "yes";
})();
