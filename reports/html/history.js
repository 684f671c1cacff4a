// Memory over a recorded history, stacked by category, of which a part is shown.

// From the bottom: what stays through the steps, then what comes and goes.
const historyOrder = () => categoriesOf([
  'parameters', 'gradients', 'held_output', 'reference_parameters', 'optimizer_states',
  'gathered_parameters', 'communication', 'inputs', 'activations', 'recomputed',
  'activation_gradients', 'temporaries', 'loss', 'workspace', 'unknown'
]);

/// The page's curves, undone from their differences: {events, times, reserved, layers, total}.
function historyOf(timeline) {
  const summed = (list, scale = 1) => {
    const out = new Float64Array(list.length);
    let sum = 0;
    for (let i = 0; i < list.length; ++i) out[i] = (sum += list[i]) * scale;
    return out;
  };
  const layers =
      historyOrder()
          .filter((c) => timeline.categories[c])
          .map((c) => ({category: c, bytes: summed(timeline.categories[c], timeline.unit)}));
  const n = timeline.events.length;
  const total = new Float64Array(n);
  for (const layer of layers)
    for (let i = 0; i < n; ++i) total[i] += layer.bytes[i];
  return {
    events: summed(timeline.events),
    times: timeline.times ? summed(timeline.times, 1e-6) : null,
    reserved: summed(timeline.reserved, timeline.unit),
    lowest: summed(timeline.lowest, timeline.unit),
    layers,
    total,
    count: n
  };
}

/// First index whose value is not below `x`.
function lowerBound(list, x) {
  let [low, high] = [0, list.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle] < x)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/// The points of [from, to] that `width` pixels can show: of each pixel the highest.
function thinned(line, axis, from, to, width) {
  const first = Math.max(0, lowerBound(axis, from) - 1);
  const last = Math.min(line.count - 1, lowerBound(axis, to));
  if (last - first <= width) return Array.from({length: last - first + 1}, (_, i) => first + i);
  const list = [];
  let pixel = -1;
  for (let i = first; i <= last; ++i) {
    const at = Math.floor((axis[i] - from) / (to - from || 1) * width);
    if (at !== pixel) {
      list.push(i);
      pixel = at;
    } else if (line.total[i] > line.total[list.at(-1)]) {
      list[list.length - 1] = i;
    }
  }
  return list;
}

/// Stacked areas as paths; a moment lasts until the next one.
function stackedPaths(line, shown, x, y, right) {
  const below = new Float64Array(shown.length);
  return line.layers.map((layer) => {
    const bottom = [];
    const top = [];
    shown.forEach((i, k) => {
      const from = x(i).toFixed(1);
      const to = (k + 1 < shown.length ? x(shown[k + 1]) : right).toFixed(1);
      const low = y(below[k]).toFixed(1);
      below[k] += layer.bytes[i];
      const high = y(below[k]).toFixed(1);
      top.push(`${from},${high}`, `${to},${high}`);
      bottom.push(`${from},${low}`, `${to},${low}`);
    });
    return drawn(
        'path',
        {class: 'area c' + layer.category, d: `M${top.join('L')}L${bottom.reverse().join('L')}Z`});
  });
}

function reservedPath(line, shown, x, y, right) {
  const points = shown.flatMap((i, k) => {
    const at = y(line.reserved[i]).toFixed(1);
    return [
      `${x(i).toFixed(1)},${at}`,
      `${(k + 1 < shown.length ? x(shown[k + 1]) : right).toFixed(1)},${at}`
    ];
  });
  return drawn('path', {class: 'reserved', d: 'M' + points.join('L')});
}

/// The chart. `view` is {from, to, byTime, changed(from, to), chosen(event)}; draw() again after a
/// change of it.
function historyPlot(holder, line, view) {
  let cursor = 0;
  let width = 0;

  function axisOf() {
    return view.byTime ? line.times : line.events;
  }

  function draw() {
    const axis = axisOf();
    const height = Math.round(Math.min(480, Math.max(260, width * 0.4)));
    const box = {left: 52, right: width - 14, top: 40, bottom: height - 42};
    const [from, to] = [view.from, view.to];
    const shown = thinned(line, axis, from, to, box.right - box.left);
    let most = 1;
    for (const i of shown) most = Math.max(most, line.total[i], line.reserved[i]);
    most *= 1.05;
    const scale = sizeScale(most);
    const toX = linear(from, to, box.left, box.right);
    const x = (i) => Math.min(box.right, Math.max(box.left, toX(axis[i])));
    const toY = linear(0, scale.of(most), box.bottom, box.top);
    const y = (bytes) => toY(scale.of(bytes));
    const picture = drawn('svg', {
      viewBox: `0 0 ${width} ${height}`,
      class: 'plot zoom',
      tabindex: 0,
      role: 'img',
      'aria-label':
          `Allocated memory by category over ${view.byTime ? 'time' : 'events'}; the peak is ${
              size(data.peak)}. Arrow keys move, plus and minus zoom, Enter lists what is live.`
    });
    const where = (event) => {
      const i = Math.min(line.count - 1, lowerBound(line.events, event));
      return toX(axis[i]);
    };
    data.steps.forEach(([begin, end], k) => {
      const [left, right] = [Math.max(box.left, where(begin)), Math.min(box.right, where(end))];
      if (right <= left) return;
      picture.append(drawn('rect', {
        class: 'band' + (k % 2 ? ' odd' : ''),
        x: left,
        y: box.top,
        width: right - left,
        height: box.bottom - box.top
      }));
      const name = right - left > 52 ? `step ${k}` : right - left > 18 ? String(k) : '';
      if (name)
        picture.append(
            drawn('text', {class: 'tick middle', x: (left + right) / 2, y: box.top - 6}, name));
    });
    picture.append(...axes(
        box, {
          at: toX,
          ticks: ticks(from, to, Math.max(2, width / 130)),
          title: view.byTime ? 'seconds' : 'event'
        },
        {
          at: toY,
          ticks: ticks(0, scale.of(most), 5),
          title: 'allocated, and reserved as a line, ' + scale.unit
        }));
    picture.append(...stackedPaths(line, shown, x, y, box.right));
    picture.append(reservedPath(line, shown, x, y, box.right));
    for (const event of data.oom) {
      const at = where(event);
      if (at < box.left || at > box.right) continue;
      picture.append(
          drawn('line', {class: 'budget', x1: at, x2: at, y1: box.top, y2: box.bottom}),
          drawn(
              'text', {
                class: 'budget-word ' + (at > width / 2 ? 'end' : ''),
                x: at + (at > width / 2 ? -5 : 5),
                y: box.top + 12
              },
              'out of memory'));
    }
    const peak = where(data.peakEvent);
    if (peak >= box.left && peak <= box.right)
      picture.append(
          drawn('line', {class: 'peak', x1: peak, x2: peak, y1: y(data.peak), y2: box.bottom}),
          drawn('circle', {class: 'peak', cx: peak, cy: y(data.peak), r: 4}));
    const cross =
        drawn('line', {class: 'cross', y1: box.top, y2: box.bottom, visibility: 'hidden'});
    const selection = drawn(
        'rect',
        {class: 'selection', y: box.top, height: box.bottom - box.top, visibility: 'hidden'});
    picture.append(cross, selection);

    const value = (clientX) => {
      const bounds = picture.getBoundingClientRect();
      const px = (clientX - bounds.left) * width / bounds.width;
      const inside = Math.min(box.right, Math.max(box.left, px));
      return from + (inside - box.left) / (box.right - box.left) * (to - from);
    };
    const nearest = (v) => shown[Math.max(0, lowerBound(shown.map((i) => axis[i]), v + 1e-12) - 1)];
    function point(i, clientX, clientY) {
      cursor = i;
      cross.setAttribute('x1', x(i));
      cross.setAttribute('x2', x(i));
      cross.setAttribute('visibility', 'visible');
      const live = line.layers.filter((layer) => layer.bytes[i] > 0).reverse();
      showTip(
          clientX, clientY,
          element('strong', {}, `${size(line.total[i])} at event ${whole(line.events[i])}`),
          line.times ? element('div', {}, duration(line.times[i]) + ' from the begin') : null,
          ...live.map(
              (layer) => element(
                  'div', {class: 'tip-line'}, swatch(layer.category),
                  element('span', {}, words(data.categories[layer.category])),
                  element('span', {}, size(layer.bytes[i])))),
          element(
              'div', {class: 'tip-line'}, element('span', {}), element('span', {}, 'reserved'),
              element('span', {}, size(line.reserved[i]))));
    }
    const leave = () => {
      hideTip();
      cross.setAttribute('visibility', 'hidden');
    };
    let pressed = null;
    picture.addEventListener('pointerdown', (event) => {
      if (event.button !== 0) return;
      pressed = {x: event.clientX, value: value(event.clientX)};
      picture.setPointerCapture(event.pointerId);
    });
    picture.addEventListener('pointermove', (event) => {
      if (pressed && Math.abs(event.clientX - pressed.x) > 4) {
        const [a, b] = [pressed.value, value(event.clientX)].sort((p, q) => p - q);
        selection.setAttribute('x', toX(a));
        selection.setAttribute('width', toX(b) - toX(a));
        selection.setAttribute('visibility', 'visible');
      }
      point(nearest(value(event.clientX)), event.clientX, event.clientY);
    });
    picture.addEventListener('pointerup', (event) => {
      if (!pressed) return;
      const start = pressed;
      pressed = null;
      if (Math.abs(event.clientX - start.x) > 4) {
        const [a, b] = [start.value, value(event.clientX)].sort((p, q) => p - q);
        view.changed(a, b);
      } else {
        view.chosen(nearest(value(event.clientX)));
      }
    });
    picture.addEventListener('pointercancel', () => {
      pressed = null;
      selection.setAttribute('visibility', 'hidden');
    });
    picture.addEventListener('dblclick', () => view.changed(axis[0], axis[line.count - 1]));
    picture.addEventListener('pointerleave', leave);
    picture.addEventListener('blur', leave);
    picture.addEventListener('keydown', (event) => {
      if (event.key === '+' || event.key === '-') {
        const middle = axis[cursor];
        const half = (to - from) * (event.key === '+' ? 0.25 : 1);
        view.changed(middle - half, middle + half, true);
        event.preventDefault();
      }
    });
    picture.addEventListener(
        'keydown', keys(shown.length, () => Math.max(0, shown.indexOf(cursor)), (k) => {
          const i = shown[k];
          point(i, ...onScreen(picture, x(i), y(line.total[i])));
          say(`event ${whole(line.events[i])}, ${size(line.total[i])}`);
        }, () => view.chosen(cursor)));
    return picture;
  }

  chart(holder, (now) => {
    width = now;
    return draw();
  });
  return {
    draw(focus = false) {
      const picture = draw();
      holder.replaceChildren(picture);
      if (focus) picture.focus();
    }
  };
}

/// The whole history in a strip, with what is shown marked in it; a click moves it there.
function historyStrip(holder, line, view) {
  let width = 0;
  function draw() {
    const axis = view.byTime ? line.times : line.events;
    const height = 44;
    const box = {left: 52, right: width - 14};
    const toX = linear(axis[0], axis[line.count - 1], box.left, box.right);
    const most = Math.max(
        ...thinned(line, axis, axis[0], axis[line.count - 1], width).map((i) => line.total[i]), 1);
    const shown = thinned(line, axis, axis[0], axis[line.count - 1], box.right - box.left);
    const points = shown.flatMap((i, k) => {
      const at = (height - 2 - line.total[i] / most * (height - 6)).toFixed(1);
      return [
        `${toX(axis[i]).toFixed(1)},${at}`,
        `${(k + 1 < shown.length ? toX(axis[shown[k + 1]]) : box.right).toFixed(1)},${at}`
      ];
    });
    const picture = drawn(
        'svg', {viewBox: `0 0 ${width} ${height}`, class: 'plot hit', 'aria-hidden': 'true'},
        drawn('path', {
          class: 'area all',
          d: `M${box.left},${height - 2}L${points.join('L')}L${box.right},${height - 2}Z`
        }),
        drawn('rect', {
          class: 'selection',
          x: Math.max(box.left, toX(view.from)),
          width:
              Math.max(2, Math.min(box.right, toX(view.to)) - Math.max(box.left, toX(view.from))),
          y: 1,
          height: height - 2
        }));
    picture.addEventListener('click', (event) => {
      const bounds = picture.getBoundingClientRect();
      const px = (event.clientX - bounds.left) * width / bounds.width;
      const at =
          axis[0] + (px - box.left) / (box.right - box.left) * (axis[line.count - 1] - axis[0]);
      const half = (view.to - view.from) / 2;
      view.changed(at - half, at + half);
    });
    return picture;
  }
  chart(holder, (now) => {
    width = now;
    return draw();
  });
  return {draw: () => holder.replaceChildren(draw())};
}
