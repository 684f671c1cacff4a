// The page of a memory snapshot.

function snapshotTiles() {
  const largest = data.atPeak.map((bytes, c) => [bytes, c]).sort((a, b) => b[0] - a[0])[0];
  return [
    [
      'Peak allocated', size(data.peak), data.peakPhase ? 'in ' + data.peakPhase : 'at the snapshot'
    ],
    [
      'Peak reserved', size(data.peakReserved),
      `${size(data.free)} of it free, ${percent(data.free / Math.max(1, data.peakReserved))}`
    ],
    [
      'Most of the peak', words(data.categories[largest[1]]),
      `${size(largest[0])}, ${percent(largest[0] / Math.max(1, data.peak))}`
    ],
    ['Steps', whole(data.complete), 'complete in the history'],
    ['Events', whole(data.count), data.seconds ? 'in ' + duration(data.seconds) : 'without times']
  ]
      .map(
          ([name, value, note]) => element(
              'div', {class: 'tile'}, element('dt', {}, name),
              element(
                  'dd', {}, element('span', {class: 'big'}, value),
                  element('span', {class: 'muted'}, note))));
}

/// Where an allocation was made; behind it all frames of its stack, the innermost first.
function placeOf(site, stack) {
  const name = data.bars.sites[site] || '(no frames)';
  const frames = data.bars.stacks[stack].map((frame) => data.bars.frames[frame]);
  if (frames.length < 2) return name;
  return {
    node: [element(
        'details', {}, element('summary', {}, name),
        element('ol', {class: 'frames'}, ...frames.map((frame) => element('li', {}, frame))))]
  };
}

/// What is live after an event, of the largest allocations of the history.
function liveTable(line, i) {
  const event = line.events[i];
  const live = data.bars.list.filter(([born, freed]) => born <= event && freed > event);
  const unit = data.timeline.unit;
  const sum = live.reduce((total, bar) => total + bar[2] * unit, 0);
  const rows = live.slice(0, 100).map(
      ([born, freed, bytes, category, where, stack]) =>
          [{node: [swatch(category), words(data.categories[category])]}, placeOf(where, stack),
           size(bytes * unit), born < 0 ? 'before' : whole(born),
           freed >= data.count ? 'never' : whole(freed)]);
  const told = `Event ${whole(event)}: ${size(line.total[i])} allocated, ${
      size(line.reserved[i])} reserved. Of the ${
      whole(data.bars.list.length)} largest allocations of the history, ${
      whole(live.length)} are live, ${size(sum)}${
      live.length > 100 ? '; the first 100 are below' : ''}.`;
  return [
    element('p', {class: 'muted'}, told),
    element(
        'div',
        {class: 'scroll tall', tabindex: 0, role: 'region', 'aria-label': 'Live allocations'},
        table(
            'Largest first',
            [
              {name: 'Category', text: true}, {name: 'Allocated at', text: true}, {name: 'Size'},
              {name: 'Born at'}, {name: 'Freed at'}
            ],
            rows))
  ];
}

function showHistory() {
  const line = historyOf(data.timeline);
  if (line.count < 2) return;
  byId('history').hidden = false;
  const view = {byTime: false, from: line.events[0], to: line.events[line.count - 1]};
  const axis = () => (view.byTime ? line.times : line.events);
  const whole_ = () => [axis()[0], axis()[line.count - 1]];
  let plot = null;
  let strip = null;
  view.changed = (from, to, focus = false) => {
    const [least, most] = whole_();
    const span =
        Math.min(most - least, Math.max(to - from, (most - least) / 1e6, view.byTime ? 1e-6 : 4));
    view.from = Math.max(least, Math.min(from, most - span));
    view.to = view.from + span;
    plot.draw(focus);
    strip.draw();
    hideTip();
  };
  view.chosen = (i) => {
    byId('moment').hidden = false;
    byId('moment-body').replaceChildren(...liveTable(line, i));
    say(`Live at event ${whole(line.events[i])}, listed below`);
  };
  const zoom = (factor) => {
    const middle = (view.from + view.to) / 2;
    const half = (view.to - view.from) / 2 * factor;
    view.changed(middle - half, middle + half);
  };
  const at = (event) => axis()[Math.min(line.count - 1, lowerBound(line.events, event))];
  const button = (text, label, click) =>
      element('button', {type: 'button', class: 'quiet', 'aria-label': label, click}, text);
  const aroundPeak = () => {
    const [least, most] = whole_();
    const half = Math.min((view.to - view.from) / 4, (most - least) / 20);
    view.changed(at(data.peakEvent) - half, at(data.peakEvent) + half);
  };
  byId('history-options')
      .append(
          button('Whole', 'Show the whole history', () => view.changed(...whole_())),
          button('+', 'Zoom in', () => zoom(0.5)), button('−', 'Zoom out', () => zoom(2)),
          button(
              '◀', 'Move to the left',
              () => view.changed(
                  view.from - (view.to - view.from) / 2, view.to - (view.to - view.from) / 2)),
          button(
              '▶', 'Move to the right',
              () => view.changed(
                  view.from + (view.to - view.from) / 2, view.to + (view.to - view.from) / 2)),
          button('Peak', 'Zoom to the peak', aroundPeak));
  if (data.steps.length > 1)
    byId('history-options')
        .append(choice(
            'Step',
            [
              ['', 'all'],
              ...data.steps.slice(0, 500).map(
                  ([, , complete], k) => [String(k), `${k}${complete ? '' : ' (part)'}`])
            ],
            '',
            (k) =>
                (k === '' ? view.changed(...whole_()) :
                            view.changed(at(data.steps[k][0]), at(data.steps[k][1])))));
  if (line.times)
    byId('history-options')
        .append(choice('By', [['events', 'events'], ['time', 'time']], 'events', (by) => {
          view.byTime = by === 'time';
          view.changed(...whole_());
        }));
  plot = historyPlot(byId('history-plot'), line, view);
  strip = historyStrip(byId('history-strip'), line, view);
  const told = Array.from(
      {length: Math.min(40, line.count)},
      (_, k) => Math.floor(k * (line.count - 1) / Math.max(1, Math.min(40, line.count) - 1)));
  byId('history-rest')
      .append(
          element(
              'ul', {class: 'legend'},
              [...line.layers].reverse().map(
                  (layer) => element(
                      'li', {}, swatch(layer.category), words(data.categories[layer.category])))),
          behind(
              'Memory over the history, GiB',
              [
                {name: 'Event'}, {name: 'Allocated'}, {name: 'Reserved'},
                ...line.layers.map((layer) => ({name: words(data.categories[layer.category])}))
              ],
              told.map(
                  (i) =>
                      [whole(line.events[i]), gib(line.total[i]), gib(line.reserved[i]),
                       ...line.layers.map((layer) => gib(layer.bytes[i]))])));
  let highest = 0;
  for (let i = 1; i < line.count; ++i)
    if (line.total[i] > line.total[highest]) highest = i;
  view.chosen(highest);
}

/// A table of the program's own: numbers to the right, words to the left.
function given({title, head, rows}) {
  const number = (text) => /^[-+−]?[\d,.]+( %)?$/.test(text) || text === '-';
  const columns = head.map(
      (name, i) =>
          ({name, text: i === 0 || !rows.every((row) => number(row[i]) || row[i] === '')}));
  return element(
      'section', {class: 'card'}, element('h2', {}, title),
      element(
          'div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': title},
          table('', columns, rows)));
}

take(JSON.parse(byId('data').textContent));
theme();
byId('about').textContent = `Device ${data.device}${data.plan ? ', beside ' + data.plan : ''}`;
if (data.timeline) {
  byId('tiles').append(...snapshotTiles());
  showHistory();
}
byId('tables-body').append(...data.tables.map(given));
if (data.notes.length)
  byId('notes').append(
      element('h3', {}, 'Notes'),
      element('ul', {class: 'muted'}, data.notes.map((n) => element('li', {}, n))));
byId('foot').textContent = 'Made by ac-advisor ' + data.version;
