// Two configurations beside each other: predictions, or a prediction and its measurement.

function differing(a, b) {
  const names = [...new Set([...Object.keys(a.options), ...Object.keys(b.options)])];
  const list =
      names.filter((name) => a.options[name] !== b.options[name])
          .map((name) => [name, String(a.options[name] ?? ''), String(b.options[name] ?? '')]);
  for (const [name, of] of [
           ['model', (row) => fileOf(row).model], ['device', (row) => fileOf(row).device],
           ['source', (row) => row.source || 'simulated']])
    if (of(a) !== of(b)) list.push([name, String(of(a)), String(of(b))]);
  return list;
}

/// A figure of both; less of it is better, but where `neither`.
function change(name, a, b, word, signedWord, neither = false) {
  const delta = known(a) && known(b) ? b - a : NaN;
  return [
    name, word(a), word(b),
    {text: signedWord(delta),
     mark: neither || !delta ? '' :
         delta > 0           ? 'more' :
                               'less'},
    known(a) && a !== 0 ? signedPercent(delta / a) : '–'
  ];
}

function comparisonTables(a, b, heads) {
  const columns =
      (first) => [{name: first, text: true}, {name: heads[0]}, {name: heads[1]}, {name: heads[2]}, {
        name: '%'
      }];
  const memory = (name, x, y) => change(name, x, y, gib, signedGib);
  const signedWhole = (n) => signed(whole(n), n > 0);
  const signedDuration = (n) =>
      (n === 0 ? '0' : signed(duration(Math.abs(n)), n > 0).replace(/^/, n < 0 ? '−' : ''));
  const lists = [
    [
      'Memory, GiB', '',
      [
        memory('peak allocated', a.peak, b.peak), memory('peak reserved', a.reserved, b.reserved),
        memory('first step', a.first, b.first), memory('between steps', a.resident, b.resident)
      ]
    ],
    [
      'At the peak by category, GiB', 'Category',
      data.categories.map((name, c) => memory(words(name), a.atPeak[c], b.atPeak[c]))
          .filter((_, c) => a.atPeak[c] || b.atPeak[c])
    ],
    [
      'Peak of each phase, GiB', 'Phase',
      data.phases.map((name, i) => memory(name, a.phasePeak[i], b.phasePeak[i]))
    ],
    [
      'Time', '',
      [
        change('step', a.step, b.step, duration, signedDuration),
        ...data.phases.map(
            (name, i) => change(name, a.seconds[i], b.seconds[i], duration, signedDuration)),
        change('tokens/s', a.tokens, b.tokens, whole, signedWhole, true)
      ]
    ],
    [
      'Launches', 'Phase',
      data.phases.map((name, i) => change(name, a.launches[i], b.launches[i], whole, signedWhole))
    ],
  ];
  return lists.map(
      ([caption, first, rows]) =>
          element('div', {class: 'scroll'}, table(caption, columns(first), rows)));
}

/// The categories of both as bars, on one scale.
function comparisonBars(a, b, heads) {
  const rows = [];
  for (const [head, row] of [[heads[0], a], [heads[1], b]]) {
    let from = 0;
    const most = Math.max(a.peak, b.peak, 1);
    const parts = stackOrder().filter((c) => row.atPeak[c] > 0).map((c) => {
      const part = drawn(
          'rect', {class: 'area c' + c, x: from, width: row.atPeak[c] / most * 100, height: 10},
          drawn('title', {}, `${words(data.categories[c])} ${size(row.atPeak[c])}`));
      from += row.atPeak[c] / most * 100;
      return part;
    });
    rows.push(element(
        'div', {class: 'stack'},
        element('span', {class: 'stack-name'}, `${head}: ${size(row.peak)}`),
        drawn(
            'svg', {
              viewBox: '0 0 100 10',
              preserveAspectRatio: 'none',
              role: 'img',
              'aria-label': `${head}, at the peak by category; the figures are in the table below`
            },
            parts)));
  }
  const used = stackOrder().filter((c) => a.atPeak[c] > 0 || b.atPeak[c] > 0);
  return [
    ...rows,
    element(
        'ul', {class: 'legend'},
        used.map((c) => element('li', {}, swatch(c), words(data.categories[c]))))
  ];
}

/// Two configurations of the page to choose from; starts with `pair`.
function comparison(holder, pair) {
  const state = [...pair];
  const body = element('div');
  const names = data.rows.map(
      (row) =>
          [String(row.index),
           (row.rank ? row.rank + '. ' : '') + row.label + (row.measured ? ' (measured)' : '')]);
  function show() {
    const [a, b] = state.map((i) => data.rows[i]);
    const measured = a.measured !== b.measured;
    const heads = measured ?
        [
          a.measured ? 'measured' : 'predicted', b.measured ? 'measured' : 'predicted', 'difference'
        ] :
        ['A', 'B', 'B − A'];
    byId('comparison-title').textContent =
        measured ? 'Predicted against measured' : 'Two configurations compared';
    const fields = differing(a, b);
    body.replaceChildren(
        ...(fields.length ? [element(
                                'div', {class: 'scroll'},
                                table(
                                    'Options that differ',
                                    [
                                      {name: 'Option', text: true}, {name: heads[0], text: true},
                                      {name: heads[1], text: true}
                                    ],
                                    fields))] :
                            [element('p', {class: 'muted'}, 'No option differs.')]),
        ...comparisonBars(a, b, heads),
        element('div', {class: 'two'}, comparisonTables(a, b, heads)));
  }
  const chooser = (i, label) => choice(label, names, String(state[i]), (value) => {
    state[i] = Number(value);
    show();
  });
  holder.replaceChildren(
      element(
          'div', {class: 'filters'}, chooser(0, 'A'), chooser(1, 'B'),
          element(
              'button', {
                type: 'button',
                class: 'quiet',
                click: () => {
                  state.reverse();
                  holder.querySelectorAll('select').forEach((select, i) => {
                    select.value = String(state[i]);
                  });
                  show();
                }
              },
              'Swap')),
      body);
  show();
}
