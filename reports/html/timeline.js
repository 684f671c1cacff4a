// Memory over the step of one configuration, stacked by category, with its peak marked.

// From the bottom: what stays through the step, then what comes and goes.
const stackOrder = () => categoriesOf([
  'parameters', 'gradients', 'held_output', 'optimizer_states', 'waiting_worker',
  'gathered_parameters', 'reference_parameters', 'communication', 'inputs', 'activations',
  'recomputed', 'activation_gradients', 'temporaries', 'loss'
]);

/// The detail's points as bytes: {ops, phases, layers: [{category, bytes}], total}.
function timelineOf(detail) {
  const unit = detail.unit;
  const layers = detail.categories ?
      stackOrder()
          .filter((c) => detail.categories[c])
          .map((c) => ({category: c, bytes: detail.categories[c].map((n) => n * unit)})) :
      [{category: null, bytes: detail.total.map((n) => n * unit)}];
  const total = detail.ops.map((_, i) => layers.reduce((sum, layer) => sum + layer.bytes[i], 0));
  return {ops: detail.ops, phases: [...detail.phases].map(Number), layers, total};
}

/// Stretches of one phase: [{phase, from, to}], recompute counted into backward.
function stretches(line) {
  const list = [];
  line.phases.forEach((phase, i) => {
    const name = phase === 3 ? 2 : phase;
    if (list.length && list.at(-1).phase === name)
      list.at(-1).to = i;
    else
      list.push({phase: name, from: i, to: i});
  });
  return list;
}

const highest = (line) => line.total.indexOf(Math.max(...line.total));

function timelinePlot(holder, row, line = timelineOf(row.detail)) {
  const n = line.ops.length;
  if (n === 0) return;
  const peakAt = highest(line);

  chart(holder, (width) => {
    const height = Math.round(Math.min(460, Math.max(280, width * 0.42)));
    const box = {left: 52, right: width - 14, top: 54, bottom: height - 42};
    const most = Math.max(row.peak, line.total[peakAt], 1) * 1.04;
    const scale = sizeScale(most);
    const x = {
      at: linear(line.ops[0], Math.max(line.ops[n - 1], line.ops[0] + 1), box.left, box.right),
      ticks: ticks(line.ops[0], line.ops[n - 1], Math.max(2, width / 130)),
      title: 'op of the schedule'
    };
    const y = {
      at: linear(0, scale.of(most), box.bottom, box.top),
      ticks: ticks(0, scale.of(most), 5),
      title: 'live memory, ' + scale.unit
    };
    const at = (bytes) => y.at(scale.of(bytes));
    const picture = drawn('svg', {
      viewBox: `0 0 ${width} ${height}`,
      class: 'plot',
      tabindex: 0,
      role: 'img',
      'aria-label': `Memory over the step by category; the peak is ${size(row.peak)} in ${
          row.where[0]}. Arrow keys move through the step. The figures are in the table below.`
    });
    for (const {phase, from, to} of stretches(line)) {
      const [left, right] = [x.at(line.ops[from]), to + 1 < n ? x.at(line.ops[to + 1]) : box.right];
      picture.append(drawn('rect', {
        class: 'band' + (phase % 2 ? ' odd' : ''),
        x: left,
        y: box.top,
        width: Math.max(0, right - left),
        height: box.bottom - box.top
      }));
      if (right - left > data.phases[phase].length * 7)
        picture.append(drawn(
            'text', {class: 'tick middle', x: (left + right) / 2, y: box.top - 6},
            data.phases[phase]));
    }
    picture.append(...axes(box, x, y));
    const below = new Array(n).fill(0);
    for (const layer of line.layers) {
      const bottom =
          below.map((bytes, i) => `${x.at(line.ops[i]).toFixed(1)},${at(bytes).toFixed(1)}`);
      layer.bytes.forEach((bytes, i) => {
        below[i] += bytes;
      });
      const top =
          below.map((bytes, i) => `${x.at(line.ops[i]).toFixed(1)},${at(bytes).toFixed(1)}`);
      picture.append(drawn('path', {
        class: 'area ' + (layer.category === null ? 'all' : 'c' + layer.category),
        d: 'M' + top.join('L') + 'L' + bottom.reverse().join('L') + 'Z'
      }));
    }
    const left = budget(row);
    if (left !== null && left < most)
      picture.append(
          drawn('line', {class: 'budget', x1: box.left, x2: box.right, y1: at(left), y2: at(left)}),
          drawn(
              'text', {class: 'budget-word', x: box.left + 6, y: at(left) - 6},
              'budget ' + size(left)));
    // The peak is where the profile says, though a thinned timeline may have missed it.
    const peakOp = row.where[3] >= line.ops[0] && row.where[3] <= line.ops[n - 1] ?
        row.where[3] :
        line.ops[peakAt];
    const [px, py] = [x.at(peakOp), at(row.peak)];
    const side = px > width * 0.7 ? 'end' : px < width * 0.3 ? '' : 'middle';
    picture.append(
        drawn('line', {class: 'peak', x1: px, x2: px, y1: py, y2: box.bottom}),
        drawn('circle', {class: 'peak', cx: px, cy: py, r: 4}),
        drawn('text', {class: 'peak-word ' + side, x: px, y: 29}, 'peak ' + size(row.peak)),
        drawn('line', {class: 'peak', x1: px, x2: px, y1: 33, y2: py}));
    const cross =
        drawn('line', {class: 'cross', y1: box.top, y2: box.bottom, visibility: 'hidden'});
    picture.append(cross);

    let cursor = peakAt;
    function point(i, clientX, clientY) {
      cursor = i;
      const px = x.at(line.ops[i]);
      cross.setAttribute('x1', px);
      cross.setAttribute('x2', px);
      cross.setAttribute('visibility', 'visible');
      const live =
          line.layers.filter((layer) => layer.bytes[i] > 0 && layer.category !== null).reverse();
      showTip(
          clientX, clientY,
          element(
              'strong', {},
              `${size(line.total[i])} in ${data.phases[line.phases[i]]}, op ${line.ops[i]}`),
          ...live.map(
              (layer) => element(
                  'div', {class: 'tip-line'}, swatch(layer.category),
                  element('span', {}, words(data.categories[layer.category])),
                  element('span', {}, size(layer.bytes[i])))));
    }
    const leave = () => {
      hideTip();
      cross.setAttribute('visibility', 'hidden');
    };
    picture.addEventListener('pointermove', (event) => {
      const bounds = picture.getBoundingClientRect();
      const px = (event.clientX - bounds.left) * width / bounds.width;
      let nearest = 0;
      for (let i = 1; i < n; ++i)
        if (Math.abs(x.at(line.ops[i]) - px) < Math.abs(x.at(line.ops[nearest]) - px)) nearest = i;
      point(nearest, event.clientX, event.clientY);
    });
    picture.addEventListener('pointerleave', leave);
    picture.addEventListener('blur', leave);
    picture.addEventListener(
        'keydown', keys(n, () => cursor, (next) => {
          point(next, ...onScreen(picture, x.at(line.ops[next]), at(line.total[next])));
          say(`op ${line.ops[next]}, ${data.phases[line.phases[next]]}, ${size(line.total[next])}`);
        }));
    return picture;
  });
}

/// What stands below the plot: its legend, and its figures as a table.
function belowTimeline(row, line = timelineOf(row.detail)) {
  const n = line.ops.length;
  if (n === 0) return [];
  const peakAt = highest(line);
  const legend =
      line.layers.filter((layer) => layer.category !== null)
          .reverse()
          .map(
              (layer) => element(
                  'li', {}, swatch(layer.category), words(data.categories[layer.category])));
  // Every fifth point and the peak: enough to follow the curve by ear.
  const told = line.ops.map((_, i) => i).filter((i) => i % 5 === 0 || i === peakAt || i === n - 1);
  return [
    element('ul', {class: 'legend'}, legend),
    behind(
        'Memory over the step, GiB',
        [
          {name: 'Op'}, {name: 'Phase', text: true}, {name: 'Live'},
          ...line.layers.filter((layer) => layer.category !== null)
              .map((layer) => ({name: words(data.categories[layer.category])}))
        ],
        told.map(
            (i) =>
                [line.ops[i] + (i === peakAt ? ' (peak)' : ''), data.phases[line.phases[i]],
                 gib(line.total[i]),
                 ...line.layers.filter((layer) => layer.category !== null)
                     .map((layer) => gib(layer.bytes[i]))]))
  ];
}
