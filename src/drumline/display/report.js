"use strict";
// Draws each timeline of the page, with zoom: buttons, Ctrl + wheel, drag, and the keys + - 0 and arrows.
for (const place of document.querySelectorAll(".timeline")) {
  const tracks = JSON.parse(place.querySelector("script").textContent).map((track) => {
    let at = 0;
    const slices = track.steps.map((step, i) => {
      const begin = at + step;
      at = begin + track.lengths[i];
      return [begin, at, track.tasks[i]];
    });
    return { name: track.name, noun: track.noun, slices };
  });
  const end = Math.max(1, ...tracks.map((t) => t.slices.length ? t.slices[t.slices.length - 1][1] : 0));
  const canvas = place.querySelector("canvas"), says = place.querySelector("output");
  const pen = canvas.getContext("2d"), ROW = 22, AXIS = 20;
  let from = 0, to = end, dragged = null;

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name);
  const label = () => Math.min(130, canvas.clientWidth / 4);
  const x = (t) => label() + (t - from) / (to - from) * (canvas.clientWidth - label());
  const time = (px) => from + (px - label()) / (canvas.clientWidth - label()) * (to - from);
  const fixed = (value, digits) => value.toFixed(Math.max(0, Math.min(6, digits)));
  const digits = (value) => 3 - Math.floor(Math.log10(value));  // four digits in all
  const words = (us) => us >= 999500 ? fixed(us / 1e6, digits(us / 1e6)) + " s"
    : us >= 1e3 ? fixed(us / 1e3, digits(us / 1e3) - 1) + " ms" : Math.round(us) + " µs";
  // A time of the session, with the digits that tell it from its neighbours in the picture.
  const moment = (us, more = 0) => {
    const step = (to - from) / 4;
    return us >= 1e6 ? fixed(us / 1e6, digits(step / 1e6) - 2 + more) + " s"
      : us >= 1e3 ? fixed(us / 1e3, digits(step / 1e3) - 2 + more) + " ms" : us + " µs";
  };

  // First slice that ends after a time: slices are in order and do not overlap.
  const first = (slices, t) => {
    let low = 0, high = slices.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (slices[middle][1] <= t) low = middle + 1; else high = middle;
    }
    return low;
  };

  const draw = () => {
    const scale = window.devicePixelRatio || 1, width = canvas.clientWidth;
    const height = tracks.length * ROW + AXIS;
    canvas.style.height = height + "px";
    canvas.width = width * scale;
    canvas.height = height * scale;
    pen.scale(scale, scale);
    pen.clearRect(0, 0, width, height);
    pen.font = "12px system-ui, sans-serif";
    pen.textBaseline = "middle";
    tracks.forEach((track, row) => {
      const top = row * ROW + AXIS;
      pen.fillStyle = colour("--slice");
      let right = -1;
      for (let i = first(track.slices, from); i < track.slices.length; i++) {
        const [begin, ends] = track.slices[i];
        if (begin > to) break;
        const left = Math.max(label(), x(begin)), stop = Math.min(width, x(ends));
        if (stop <= right) continue;
        pen.fillRect(left, top + 3, Math.max(0.6, stop - left), ROW - 6);
        right = stop;
      }
      pen.fillStyle = colour("--paper");
      pen.fillRect(0, top, label() - 4, ROW);
      pen.fillStyle = colour("--ink");
      pen.fillText(track.name, 2, top + ROW / 2, label() - 8);
    });
    pen.fillStyle = colour("--quiet");
    for (let i = 0; i < 4; i++) {
      const t = from + (to - from) * i / 4;
      pen.fillText(moment(Math.round(t)), x(t), AXIS / 2);
      pen.fillRect(x(t), AXIS - 4, 1, 4);
    }
    place.dataset.shown = words(Math.round(to - from));
  };

  const show = (low, high) => {
    const length = Math.min(end, Math.max(20, high - low));
    from = Math.max(0, Math.min(end - length, low));
    to = from + length;
    draw();
  };
  const zoom = (factor, around = (from + to) / 2) =>
    show(around - (around - from) * factor, around + (to - around) * factor);
  const move = (share) => show(from + (to - from) * share, to + (to - from) * share);
  const steps = { in: () => zoom(0.5), out: () => zoom(2), all: () => show(0, end),
    left: () => move(-0.25), right: () => move(0.25) };

  for (const button of place.querySelectorAll("button"))
    button.addEventListener("click", () => steps[button.value]());
  const KEYS = { "+": "in", "=": "in", "-": "out", "0": "all", ArrowLeft: "left", ArrowRight: "right" };
  canvas.addEventListener("keydown", (event) => {
    if (!(event.key in KEYS) || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    steps[KEYS[event.key]]();
  });
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return;  // a plain wheel scrolls the page
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, time(event.offsetX));
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    dragged = { at: event.offsetX, from, to };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointerup", () => { dragged = null; });
  canvas.addEventListener("pointermove", (event) => {
    if (dragged) {
      const moved = (dragged.at - event.offsetX) / (canvas.clientWidth - label()) * (to - from);
      show(dragged.from + moved, dragged.to + moved);
      return;
    }
    const track = tracks[Math.floor((event.offsetY - AXIS) / ROW)], t = time(event.offsetX);
    if (!track || event.offsetX < label()) { says.textContent = ""; return; }
    const slice = track.slices[first(track.slices, t)];
    const works = slice && slice[0] <= t;
    const before = track.slices[first(track.slices, t) - 1];
    const begin = works ? slice[0] : before ? before[1] : 0, stop = works ? slice[1] : slice ? slice[0] : end;
    const done = works ? (slice[2] === 1 ? track.noun[0] : slice[2] + " " + track.noun[1]) : "waits";
    says.textContent = `${track.name}: ${done}, ${words(stop - begin)} from ${moment(begin, 2)}`;
  });
  window.addEventListener("resize", draw);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  draw();
}
