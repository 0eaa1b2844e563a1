"use strict";
// Lays the curves of several runs over one another.
(() => {
  const { color, count, short, grid, draw, compared } = ldplayer;
  const data = JSON.parse(document.getElementById("data").textContent);
  const name = (run) => data.runs[run].name;
  ldplayer.setAbout(() => ({
    lines: data.runs.map((run) => `${run.name}: ${run.title}; ${run.settings}; ldplayer ${run.ldplayer}`),
    file: "runs",
    columns: [["trace_server_date", (d) => data.runs[d.run].title], ["settings", (d) => data.runs[d.run].settings]],
  }));
  data.runs.forEach((_, at) => document.querySelectorAll(`[data-run="${at}"]`).forEach((swatch) => swatch.style.setProperty("--key", color(at))));
  data.figures.forEach((row) => compared(row, data.curves[row.id], "run", name, "Nothing to show: no run has this figure."));

  // ---- Shares of response codes: a bar a run.
  const rcodes = data.rcodes.map((d) => ({ ...d, run_name: name(d.run) }));
  const codes = [...new Map(d3.sort(rcodes, (d) => -d.n).map((d) => [d.key, d.name])).keys()];
  const silent = { timed_out: "#555", failed: "#999" };
  const order = [...codes.filter((code) => !silent[code]), ...Object.keys(silent).filter((code) => codes.includes(code))];
  const tint = (code) => silent[code] ?? color(order.indexOf(code));
  const words = Object.fromEntries(rcodes.map((d) => [d.key, d.name]));
  draw("rcodes", rcodes, (points, size) => {
    const names = data.runs.map((run) => run.name);
    return {
      height: 60 + 34 * names.length,
      marginLeft: Math.min(20 + 7.4 * d3.max(names, (text) => text.length), size.width * 0.4),
      x: { label: "queries sent (%)", domain: [0, 100], ...grid },
      y: { label: null, domain: names, padding: 0.25 },
      marks: [Plot.barX(points, { x: "percent", y: "run_name", fill: (d) => tint(d.key), order: order, z: "key", title: (d) => `${d.run_name}, ${d.name}: ${count(d.n)} (${short(d.percent)} %)` })],
    };
  }, { keys: order.map((code) => [words[code], tint(code)]), columns: { run_name: "run", name: "what", n: "queries", percent: "percent" } });
  document.documentElement.dataset.drawn = "yes";
})();
