// Memory against time: every configuration a point.

const paretoAxes = {
  perThousand: {name: 'time for 1,000 tokens', of: (row) => row.perThousand},
  step: {name: 'time per step', of: (row) => row.step},
};

function paretoPlot(holder, rows, state) {
  const seen = rows.filter((row) => known(row.perThousand) && known(row.peak));
  if (!seen.length) {
    holder.append(element('p', {class: 'muted'}, 'No configuration has both a peak and a time.'));
    return {update() {}, again() {}};
  }
  let redraw = () => {};

  function draw(width) {
    const axis = paretoAxes[state.timeAxis];
    const height = Math.round(Math.min(600, Math.max(300, width * 0.85)));
    const box = {left: 52, right: width - 14, top: 22, bottom: height - 42};
    const left = Math.max(...seen.map((row) => budget(row) ?? 0), 0);
    const highest = Math.max(...seen.map((row) => row.peak), 1);
    // A few giants must not flatten the rest: the axis ends at three budgets at most. Nor must a
    // budget that is far above all of them.
    const near = left > 0 && left < 4 * highest;
    const most = (near ? Math.max(left * 1.08, Math.min(highest, 3 * left)) : highest) * 1.04;
    const longest = Math.max(...seen.map(axis.of));
    const [unit, second] =
        [['s', 1], ['ms', 1e-3], ['µs', 1e-6]].find(([, n]) => longest >= n) || ['µs', 1e-6];
    const times = seen.map((row) => axis.of(row) / second);
    const [first, last] = [Math.min(...times), Math.max(...times)];
    const pad = (last - first || last || 1) * 0.05;
    const scale = sizeScale(most);
    const y = {
      at: linear(0, scale.of(most), box.bottom, box.top),
      ticks: ticks(0, scale.of(most), 6),
      title: 'peak memory, ' + scale.unit
    };
    const x = {
      at: linear(Math.max(0, first - pad), last + pad, box.left, box.right),
      ticks: ticks(Math.max(0, first - pad), last + pad, Math.max(3, width / 110)),
      title: axis.name + ', ' + unit
    };
    const at = (row) => [x.at(axis.of(row) / second), y.at(scale.of(Math.min(row.peak, most)))];

    const picture = drawn('svg', {
      viewBox: `0 0 ${width} ${height}`,
      class: 'plot',
      tabindex: 0,
      role: 'img',
      'aria-label': 'Plot of peak memory against time. Arrow keys move from point to point, ' +
          'Enter selects. The ranked table has the same figures.'
    });
    picture.append(...axes(box, x, y));
    if (left > 0 && !near)
      picture.append(drawn(
          'text', {class: 'budget-word end', x: box.right - 4, y: box.top - 6},
          `budget ${size(left)}, far above`));
    if (near)
      picture.append(
          drawn('line', {
            class: 'budget',
            x1: box.left,
            x2: box.right,
            y1: y.at(scale.of(left)),
            y2: y.at(scale.of(left))
          }),
          drawn(
              'text', {class: 'budget-word end', x: box.right - 4, y: y.at(scale.of(left)) - 6},
              'budget ' + size(left)));
    const front = seen.filter((row) => row.pareto && row.peak <= most)
                      .sort((a, b) => axis.of(a) - axis.of(b));
    if (front.length > 1 && state.timeAxis === 'perThousand')
      picture.append(drawn(
          'polyline', {class: 'front', points: front.map((row) => at(row).join(',')).join(' ')}));

    const inOrder = seen.slice().sort((a, b) => axis.of(a) - axis.of(b) || a.peak - b.peak);
    const points = new Map();
    // What matters lies on top.
    for (const row of seen.slice().sort((a, b) => (a.pareto || 0) - (b.pareto || 0))) {
      const [cx, cy] = at(row);
      const above = row.peak > most;
      const point = above ?
          drawn('path', {d: `M${cx - 4},${cy + 4}L${cx},${cy - 4}L${cx + 4},${cy + 4}Z`}) :
          drawn('circle', {cx, cy, r: row.pareto ? 5 : 3.5});
      points.set(row, point);
      picture.append(point);
    }
    const ring = drawn('circle', {class: 'ring', r: 9});
    picture.append(ring);
    redraw = () => {
      for (const [row, point] of points) {
        const shown = state.visible.has(row.index);
        point.setAttribute('class', [
          'point', row.pareto ? 'pareto' : '', row.fits ? 'fits' : 'over', shown ? '' : 'faint'
        ].join(' '));
      }
      const row = data.rows[state.selected];
      ring.setAttribute('visibility', points.has(row) ? 'visible' : 'hidden');
      if (points.has(row)) {
        const [cx, cy] = at(row);
        ring.setAttribute('cx', cx);
        ring.setAttribute('cy', cy);
      }
    };
    redraw();

    function nearest(event) {
      const bounds = picture.getBoundingClientRect();
      const [px, py] = [
        (event.clientX - bounds.left) * width / bounds.width,
        (event.clientY - bounds.top) * height / bounds.height
      ];
      let best = null, distance = 24 ** 2;
      for (const row of seen) {
        if (!state.visible.has(row.index)) continue;
        const [cx, cy] = at(row);
        const d = (cx - px) ** 2 + (cy - py) ** 2;
        if (d < distance) [best, distance] = [row, d];
      }
      return best;
    }
    function tip(row, clientX, clientY) {
      showTip(
          clientX, clientY, element('strong', {}, row.label),
          element(
              'div', {}, `peak ${size(row.peak)}, ${timeWord(row)} ${duration(row.step)} a step`),
          element(
              'div', {}, `${whole(row.tokens)} tokens/s; ` + (row.fits ? 'fits' : 'does not fit')),
          row.pareto ? element('div', {}, 'on the Pareto front') : '');
    }
    picture.addEventListener('pointermove', (event) => {
      const row = nearest(event);
      picture.classList.toggle('hit', row !== null);
      if (row)
        tip(row, event.clientX, event.clientY);
      else
        hideTip();
    });
    picture.addEventListener('pointerleave', hideTip);
    picture.addEventListener('click', (event) => {
      const row = nearest(event);
      if (row) state.select(row.index);
    });
    let cursor = Math.max(0, inOrder.findIndex((row) => row.index === state.selected));
    picture.addEventListener('keydown', keys(inOrder.length, () => cursor, (next) => {
                               cursor = next;
                               const row = inOrder[cursor];
                               tip(row, ...onScreen(picture, ...at(row)));
                               say(`${row.label}, ${size(row.peak)}, ${duration(row.step)} a step`);
                             }, () => state.select(inOrder[cursor].index)));
    picture.addEventListener('blur', hideTip);
    return picture;
  }

  const legend = element(
      'ul', {class: 'legend'},
      [['pareto fits', 'fits, on the Pareto front'], ['fits', 'fits'], ['over', 'does not fit']]
          .map(
              ([name, text]) => element(
                  'li', {},
                  drawn(
                      'svg', {viewBox: '0 0 12 12', class: 'key', 'aria-hidden': 'true'},
                      drawn('circle', {class: 'point ' + name, cx: 6, cy: 6, r: 4.5})),
                  text)));
  const again = () => {
    const inner = element('div');
    holder.replaceChildren(inner, legend);
    chart(inner, draw);
  };
  again();
  return {update: () => redraw(), again};
}
