// Bars by phase: launches, traffic, time.

/// One list of bars; `rows` are {name, value, word, mark}.
function bars(title, rows) {
  const most = Math.max(...rows.map((row) => row.value), 0);
  return element(
      'figure', {class: 'bars'}, element('figcaption', {}, title),
      element(
          'table', {}, element('caption', {class: 'unseen'}, title),
          element('tbody', {}, rows.map((row) => {
            const length = most > 0 ? Math.max(0, row.value / most * 100) : 0;
            return element(
                'tr', {}, element('th', {scope: 'row'}, row.swatch ?? null, row.name),
                element(
                    'td', {class: 'bar', 'aria-hidden': 'true'},
                    drawn(
                        'svg', {viewBox: '0 0 100 10', preserveAspectRatio: 'none'},
                        drawn(
                            'rect',
                            {class: 'bar ' + (row.mark || ''), width: length, height: 10}))),
                element('td', {class: 'number'}, row.word));
          }))));
}

function byPhase(title, list, word) {
  return bars(
      title,
      data.phases.map(
          (name, i) => ({name, value: list[i], word: word(list[i]), mark: 'phase' + i})));
}

function phaseCharts(row) {
  const time = {measured: 'Measured time', calibrated: 'Calibrated time'}[row.timeWord] ||
      'Estimated time';
  return element(
      'div', {class: 'three'}, byPhase('Kernel launches', row.launches, whole),
      byPhase('Bytes read and written', row.bytes, (n) => large(n) + 'B'),
      byPhase(time, row.seconds, duration));
}

/// What is live at the peak, largest first.
function peakBars(row) {
  const list = row.atPeak.map((bytes, c) => ({bytes, c}))
                   .filter(({bytes}) => bytes > 0)
                   .sort((a, b) => b.bytes - a.bytes);
  return bars(
      'Live at the peak',
      list.map(({bytes, c}) => ({
                 name: words(data.categories[c]),
                 value: bytes,
                 mark: 'c' + c,
                 word: `${size(bytes)}, ${percent(row.peak > 0 ? bytes / row.peak : NaN)}`
               })));
}
