// Draws the charts of a report from the numbers that lie in the page. Nothing is fetched; without this script the page
// has all its text, bars and tables.
"use strict";
(function () {
  const data = (id) => {
    const at = document.getElementById(id);
    return at ? JSON.parse(at.textContent) : null;
  };
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  const plots = [];

  const clock = (seconds) => {
    const whole = Math.max(0, Math.floor(seconds + 1e-6));
    const two = (n) => String(n).padStart(2, "0");
    const [d, h, m, s] = [Math.floor(whole / 86400), Math.floor(whole / 3600) % 24, Math.floor(whole / 60) % 60, whole % 60];
    const days = d ? d + "d " : "";
    return h || d ? days + h + ":" + two(m) + ":" + two(s) : m + ":" + two(s);
  };
  // Below a second per mark the clock would repeat itself.
  const clocks = (marks) => {
    const fine = marks.length > 1 && marks[1] - marks[0] < 1;
    return marks.map((at) => clock(at) + (fine ? (at % 1).toFixed(2).slice(1) : ""));
  };
  const size = (units, unit) => {
    if (units == null) return "–";
    const bytes = units * unit;
    const steps = [["TiB", 40], ["GiB", 30], ["MiB", 20], ["KiB", 10]];
    for (const [name, shift] of steps) {
      const value = bytes / 2 ** shift;
      if (value >= 1) return value.toFixed(value < 10 ? 2 : value < 1000 ? 1 : 0) + " " + name;
    }
    return bytes + " B";
  };
  // Marks of the memory axis: whole steps of a power of two, so that GiB stay GiB.
  const sizeMarks = (unit) => (plot, axis, low, high) => {
    let step = 2 ** 10 / unit;
    while ((high - low) / step > 6) step *= 2;
    const marks = [];
    for (let at = 0; at <= high; at += step) if (at >= low) marks.push(at);
    return marks;
  };
  const shortSizes = (unit) => (plot, marks) => marks.map((at) => (at ? size(at, unit).replace(/\.0+ /, " ") : "0"));

  const axes = (unit, x) => [
    Object.assign({ stroke: () => colour("dim"), grid: { show: false }, ticks: { stroke: () => colour("line"), size: 4 }, space: 70, size: 32 }, x),
    {
      stroke: () => colour("dim"), grid: { stroke: () => colour("line"), width: 1 }, ticks: { show: false }, size: 68,
      splits: sizeMarks(unit), values: shortSizes(unit),
    },
  ];
  const width = (at) => Math.max(260, Math.floor(at.clientWidth));
  const height = (at) => (width(at) < 500 ? 230 : 290);

  // Upright lines with a label, left out where two would lie on each other.
  const marks = (plot, all, stroke, dash) => {
    const { ctx, bbox } = plot;
    const scale = window.devicePixelRatio || 1;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.font = 11 * scale + "px system-ui, sans-serif";
    ctx.textAlign = "left";
    ctx.textBaseline = "alphabetic";
    ctx.lineWidth = scale;
    ctx.setLineDash(dash.map((n) => n * scale));
    let free = -Infinity;
    for (const mark of all) {
      const left = plot.valToPos(mark.at, "x", true);
      if (left < bbox.left - 1 || left > bbox.left + bbox.width) continue;
      ctx.strokeStyle = ctx.fillStyle = stroke;
      ctx.beginPath();
      ctx.moveTo(left, bbox.top);
      ctx.lineTo(left, bbox.top + bbox.height);
      ctx.stroke();
      const wide = ctx.measureText(mark.label).width;
      if (left > free && left + wide < bbox.left + bbox.width) {
        ctx.fillText(mark.label, left + 4 * scale, bbox.top + (mark.row || 1) * 13 * scale);
        free = left + wide + 10 * scale;
      }
    }
    ctx.restore();
  };

  const shade = (plot, from, to) => {
    const { ctx, bbox } = plot;
    const [left, right] = [from, to].map((at) => Math.min(Math.max(plot.valToPos(at, "x", true), bbox.left), bbox.left + bbox.width));
    ctx.save();
    ctx.fillStyle = colour("soft");
    ctx.fillRect(left, bbox.top, right - left, bbox.height);
    ctx.restore();
  };

  const level = (plot, value, label, stroke) => {
    const { ctx, bbox } = plot;
    const scale = window.devicePixelRatio || 1;
    const top = plot.valToPos(value, "y", true);
    if (!(top >= bbox.top - 1 && top <= bbox.top + bbox.height)) return;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = stroke;
    ctx.lineWidth = scale;
    ctx.setLineDash([6 * scale, 4 * scale]);
    ctx.beginPath();
    ctx.moveTo(bbox.left, top);
    ctx.lineTo(bbox.left + bbox.width, top);
    ctx.stroke();
    ctx.font = 11 * scale + "px system-ui, sans-serif";
    // Above its line no mark of a run or an out-of-memory crosses it; on the left memory is seldom full.
    const above = top - 4 * scale;
    ctx.textAlign = "left";
    ctx.textBaseline = "alphabetic";
    ctx.fillText(label, bbox.left + 6 * scale, above > 11 * scale ? above : top + 13 * scale);
    ctx.restore();
  };

  const line = (label, name, unit, more) =>
    Object.assign({ label, stroke: () => colour(name), width: 1.5, points: { show: false }, value: (plot, v) => size(v, unit) }, more);

  // A value holds until the next one, or until nothing is known. (uPlot's own steps draw a line down the end of a gap.)
  const steps = (plot, number, first, last) => {
    const [x, y, stroke, fill] = [plot.data[0], plot.data[number], new Path2D(), new Path2D()];
    const floor = plot.valToPos(0, "y", true);
    let before = null;
    const end = (left) => {
      stroke.lineTo(left, before);
      fill.lineTo(left, before);
      fill.lineTo(left, floor);
      before = null;
    };
    for (let i = first; i <= last; i++) {
      const left = plot.valToPos(x[i], "x", true);
      if (y[i] == null) {
        if (before != null) end(left);
        continue;
      }
      const top = plot.valToPos(y[i], "y", true);
      if (before == null) {
        stroke.moveTo(left, top);
        fill.moveTo(left, floor);
      } else {
        stroke.lineTo(left, before);
        fill.lineTo(left, before);
      }
      stroke.lineTo(left, top);
      fill.lineTo(left, top);
      before = top;
    }
    if (before != null) end(plot.valToPos(x[last], "x", true));
    return { stroke, fill, clip: null, flags: 0 };
  };

  const memory = data("memory");
  // The time at a place of the axis, which leaves long waits out.
  const real = (at) => memory.waits.reduce((time, wait) => time + (at >= wait.to ? wait.left_out : 0), at);
  const drawMemory = (at) => {
    const device = memory.devices[+at.dataset.device];
    const unit = memory.unit;
    const stepped = { paths: steps };
    const any = (values) => values.some((value) => value != null);
    const columns = [memory.x];
    const series = [{ label: "time", value: (plot, v) => (v == null ? "–" : clock(real(v))) }];
    const add = (values, description) => { columns.push(values); series.push(description); };
    if (any(device.allocated)) {
      add(device.allocated, line("allocated", "allocated", unit, Object.assign({ width: 1.75, fill: () => colour("band-fill") }, stepped)));
      add(device.low, line("lowest", "allocated", unit, Object.assign({ width: 0.5, fill: () => colour("allocated-fill") }, stepped)));
      add(device.reserved, line("reserved", "reserved", unit, stepped));
    }
    if (any(device.used)) add(device.used, line("device (NVML)", "used", unit, Object.assign({ dash: [5, 3] }, stepped)));
    device.ranks.forEach((rank, number) => add(rank.allocated, line(rank.name, "rank" + (number % 4), unit, stepped)));
    const highest = columns.slice(1).reduce((most, values) => values.reduce((m, v) => (v > m ? v : m), most), 1);
    const top = device.capacity && highest > device.capacity * 0.5 ? Math.max(device.capacity * 1.03, highest) : highest * 1.15;
    const ends = memory.runs.map((run) => ({ at: run.from, label: memory.runs.length > 1 ? "run " + run.number : "", row: 3 }));
    const plot = new uPlot({
      width: width(at), height: height(at), legend: { live: true }, cursor: { sync: { key: "memory" }, points: { size: 6 } },
      scales: { x: { time: false }, y: { range: () => [0, top] } },
      padding: [null, 44, null, null], // Room for the last time below the axis.
      series, axes: axes(unit, { values: (plot, all) => clocks(all.map(real)), incrs: [0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400] }),
      hooks: {
        draw: [(plot) => {
          // A row for each kind, below the capacity's: no label lies on another.
          for (const wait of memory.waits) shade(plot, wait.from, wait.to);
          marks(plot, memory.epochs.map((mark) => Object.assign({ row: 5 }, mark)), colour("line"), []);
          marks(plot, memory.waits.map((wait) => ({ at: wait.from, label: wait.label, row: 6 })), colour("dim"), [1, 3]);
          marks(plot, ends, colour("dim"), [3, 3]);
          marks(plot, memory.ooms.map((mark) => Object.assign({ row: 4 }, mark)), colour("bad"), []);
          if (device.capacity) level(plot, device.capacity, "capacity " + size(device.capacity, unit), colour("capacity"));
        }],
        setScale: [(plot, key) => {
          if (key !== "x") return;
          at.dataset.range = plot.scales.x.min + " " + plot.scales.x.max;
          follow(plot);
        }],
      },
    }, columns, at);
    plots.push({ at, plot, kind: "memory" });
  };

  // All devices show the same stretch of time.
  let following = false;
  const follow = (leader) => {
    if (following) return;
    following = true;
    const { min, max } = leader.scales.x;
    for (const { plot, kind } of plots) if (kind === "memory" && plot !== leader) plot.setScale("x", { min, max });
    for (const button of document.querySelectorAll("#ranges button")) {
      const same = Math.abs(button.dataset.from - min) < 0.01 && Math.abs(button.dataset.to - max) < 0.01;
      button.setAttribute("aria-pressed", same);
    }
    following = false;
  };

  const buttons = () => {
    const place = document.getElementById("ranges");
    const last = memory.x[memory.x.length - 1];
    const add = (name, from, to) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = name;
      button.dataset.from = from;
      button.dataset.to = to;
      button.onclick = () => { for (const { plot, kind } of plots) if (kind === "memory") plot.setScale("x", { min: from, max: to }); };
      place.append(button);
    };
    if (memory.runs.length < 2 && !memory.ooms.length) return;
    add("everything", memory.x[0], last);
    if (memory.runs.length > 1) for (const run of memory.runs) add("run " + run.number, Math.max(run.from, memory.x[0]), Math.min(run.to, last));
    memory.ooms.slice(0, 6).forEach((oom, number) => {
      const name = memory.ooms.length > 1 ? "OOM " + (number + 1) : "the OOM";
      // Near enough to see single steps, and never everything.
      const near = Math.min(8, (last - memory.x[0]) * 0.15);
      add(name, Math.max(memory.x[0], oom.at - near), Math.min(last, oom.at + near / 3));
    });
  };

  const drawStep = (at) => {
    const step = data("step" + at.dataset.step);
    const unit = step.unit;
    // Stacked: each curve is the sum of those below it, drawn from the top.
    const sums = [];
    step.parts.forEach((part, number) => sums.push(part.values.map((value, i) => value + (number ? sums[number - 1][i] : 0))));
    const order = step.parts.map((part, number) => number).reverse();
    const series = [{ label: "event", value: (plot, v) => (v == null ? "–" : String(v)) }];
    for (const number of order) {
      const part = step.parts[number];
      series.push({
        label: part.name, stroke: () => colour(part.class), fill: () => colour(part.class), width: 0.5, points: { show: false },
        value: (plot, v, s, i) => (i == null ? "–" : size(part.values[i], unit)),
      });
    }
    const phases = step.phases.map((phase) => ({ at: phase.at, label: phase.label }));
    const highest = sums.length ? Math.max(...sums[sums.length - 1]) : 1;
    const plot = new uPlot({
      width: width(at), height: height(at),
      scales: { x: { time: false }, y: { range: () => [0, highest * 1.12] } },
      series, axes: axes(unit, { values: (plot, all) => all.map(String) }),
      hooks: { draw: [(plot) => marks(plot, phases, colour("text"), [3, 3])] },
    }, [step.x, ...order.map((number) => sums[number])], at);
    plots.push({ at, plot, kind: "step" });
  };

  if (memory) {
    document.querySelectorAll("[data-device]").forEach(drawMemory);
    buttons();
    if (plots.length) follow(plots[0].plot);
  }
  document.querySelectorAll("[data-step]").forEach(drawStep);
  document.documentElement.dataset.charts = plots.length;

  const refit = (fixed) => { for (const { at, plot } of plots) plot.setSize({ width: fixed || width(at), height: height(at) }); };
  let waiting;
  addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(refit, 100); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => refit());
  addEventListener("beforeprint", () => refit(680));
  addEventListener("afterprint", () => refit());
})();
