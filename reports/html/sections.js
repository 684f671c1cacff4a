// Fills the sections of sections.html with `data`. `state` is all that changes: what is selected
// and what is visible.

function tiles(row, plain) {
  const list = [['Peak memory', size(row.peak), row.where[0]]];
  if (plain && plain !== row && plain.peak > 0 && plain.measured === row.measured) {
    const saves = row.peak <= plain.peak;
    list.push([
      saves ? 'Saves' : 'Adds', size(Math.abs(plain.peak - row.peak)),
      `${signedPercent(row.peak / plain.peak - 1)} against ${plain.label}`
    ]);
    const more = plain.step > 0 ? row.step / plain.step - 1 : NaN;
    if (known(more))
      list.push([
        'Costs', more > 0 ? signedPercent(more) : 'nothing',
        more > 0 ? 'of the step\'s time, against the same' :
                   `${percent(-more)} faster than baseline`
      ]);
  }
  list.push(['Step', duration(row.step), `${timeWord(row)}, ${whole(row.tokens)} tokens/s`]);
  const [required, usable] = row.fit;
  if (known(usable))
    list.push([
      'Fits', row.fits ? 'yes' : 'no', `${size(required)} of ${size(usable)}`,
      row.fits ? 'good' : 'bad', usable > 0 ? required / usable : null
    ]);
  return list.map(
      ([name, value, note, mark, share]) => element(
          'div', {class: 'tile'}, element('dt', {}, name),
          element(
              'dd', {}, element('span', {class: 'big ' + (mark || '')}, value),
              element('span', {class: 'muted'}, note),
              known(share) ?
                  drawn(
                      'svg', {
                        viewBox: '0 0 100 4',
                        preserveAspectRatio: 'none',
                        class: 'meter',
                        'aria-hidden': 'true'
                      },
                      drawn('rect', {class: 'meter-all', width: 100, height: 4}), drawn('rect', {
                        class: 'meter-part ' + mark,
                        width: Math.min(100, share * 100),
                        height: 4
                      })) :
                  null)));
}

function savingsTable(state) {
  const most = Math.max(...data.savings.map((s) => s.peak), 1);
  const rows =
      data.savings
          .map(
              (s, i) =>
                  [s.row === undefined ? s.technique : {
                    node: element(
                        'button', {type: 'button', class: 'row', click: () => state.select(s.row)},
                        s.technique)
                  },
                   gib(s.peak), {
                     node:
                         drawn(
                             'svg', {
                               viewBox: '0 0 100 10',
                               preserveAspectRatio: 'none',
                               class: 'cellbar',
                               'aria-hidden': 'true'
                             },
                             drawn('rect', {
                               class: 'bar',
                               width: Math.max(0, s.peak / most * 100),
                               height: 10
                             }))
                   },
                   i ? gib(s.saved) : '', i ? signedPercent(-s.share) : '', duration(s.step)]);
  const calibrated = data.rows.length && data.rows[0].timeWord === 'calibrated';
  const step = calibrated ? 'Calibrated step' : 'Est. step';
  const file = data.files.length > 1 ? ` (${data.files[0].name})` : '';
  return table(
      'Each row adds one technique to the row above it' + file,
      [
        {name: 'Technique', text: true}, {name: 'Peak GiB'}, {name: '', text: true, rank: 'lesser'},
        {name: 'Saved GiB'}, {name: 'Of baseline'}, {name: step}
      ],
      rows, {class: 'savings'});
}

const sectionsWithData = ['savings', 'configurations', 'selected', 'comparison', 'bars', 'tables'];
const filledParts = [
  'tiles', 'savings-table', 'pareto-options', 'pareto', 'filters', 'count', 'ranking',
  'selected-body', 'comparison-body', 'bars-body', 'tables-body'
];

/// Shows all of `data`, and nothing of what was shown before. `asked` is the row to select, where
/// there is one; `remember` is told of each that is selected.
function showSections(asked, remember) {
  const ranked =
      data.rows.filter((row) => row.ranked || data.rows.length > 1 && !data.savings.length);
  const reveal = (id) => {
    byId(id).hidden = false;
  };
  for (const id of sectionsWithData) byId(id).hidden = true;
  for (const id of filledParts) byId(id).replaceChildren();
  byId('plotted').hidden = false;
  byId('selected').after(byId('comparison'));
  byId('tables-title').textContent = 'Differences';
  const state = {
    selected: data.pair ? data.pair[1] : data.recommended ?? (data.rows.length ? 0 : null),
    visible: new Set(ranked.map((row) => row.index)),
    timeAxis: 'perThousand',
    filtered: () => {}
  };
  let plot = null, ranking = null;

  state.select = (index) => {
    state.selected = index;
    const row = data.rows[index];
    showSelected(byId('selected-body'), row);
    if (ranking) ranking.mark();
    if (plot) plot.update();
    say('selected ' + row.label);
    remember(index);
  };

  if (state.selected !== null) {
    const row = data.rows[state.selected];
    const against = data.pair ? data.pair[0] : data.plain;
    if (data.pair || data.files.length < 2)
      byId('tiles').append(...tiles(row, against === undefined ? null : data.rows[against]));
  }
  if (data.savings.length) {
    reveal('savings');
    byId('savings-table').append(savingsTable(state));
  }
  if (ranked.length > 1) {
    reveal('configurations');
    ranking = rankingTable(byId('ranking'), byId('filters'), byId('count'), ranked, state);
    if (data.pair) byId('configurations').before(byId('comparison'));
    if (ranked.length === 2) byId('plotted').hidden = true;
  }
  if (ranked.length > 2) {
    plot = paretoPlot(byId('pareto'), ranked, state);
    state.filtered = () => plot.update();
    byId('pareto-options')
        .append(choice(
            'Time axis', Object.entries(paretoAxes).map(([name, axis]) => [name, axis.name]),
            state.timeAxis, (name) => {
              state.timeAxis = name;
              plot.again();
            }));
  }
  if (state.selected !== null) {
    reveal('selected');
    const index = data.rows[asked] ? asked : state.selected;
    state.selected = index;
    showSelected(byId('selected-body'), data.rows[index]);
    if (ranking) ranking.mark();
    if (plot) plot.update();
  }
  const measured = data.rows.find((row) => row.measured);
  const predicted =
      measured && data.rows.find((row) => !row.measured && row.command === measured.command);
  const pair = data.pair ||
      (predicted                ? [predicted.index, measured.index] :
           data.rows.length > 1 ? [data.plain ?? (state.selected === 0 ? 1 : 0), state.selected] :
                                  null);
  if (pair) {
    reveal('comparison');
    comparison(byId('comparison-body'), pair);
  }
  if (data.bars.length) {
    reveal('bars');
    byId('bars-body').append(...data.bars.map((list) => bars(list.title, list.rows)));
  }
  if (data.tables.length || data.sentences.length) {
    reveal('tables');
    if (data.traces) byId('tables-title').textContent = 'What the trace tells';
    if (data.sentences.length && !data.traces && data.files.length < 2)
      byId('tables-title').textContent = 'Why';
    byId('tables-body')
        .append(
            ...(data.sentences.length ?
                    [element('ol', {}, data.sentences.map((text) => element('li', {}, text)))] :
                    []),
            ...data.tables.map(
                (t) => element(
                    'div', {class: 'scroll'},
                    table(
                        t.title + (t.leftOut ? ` (${whole(t.leftOut)} others are left out)` : ''),
                        t.head.map((name, i) => ({name, text: i === 0})), t.rows))));
  }
}
