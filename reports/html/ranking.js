// The ranked table: sort, filter, search, select.

const rankingColumns = [
  {name: 'Configuration', of: (row) => row.label, text: true},
  {
    name: 'Rank',
    of: (row) => row.rank ?? Infinity,
    show: (row) =>
        (row.rank            ? String(row.rank) :
             row.unavailable ? 'n/a' :
                               '–')
  },
  {name: 'Peak GiB', of: (row) => row.peak, show: (row) => gib(row.peak)},
  {
    name: 'Reserved GiB',
    of: (row) => row.reserved,
    show: (row) => gib(row.reserved),
    rank: 'lesser'
  },
  {
    name: 'ms/step',
    of: (row) => row.step,
    show: (row) => (known(row.step) ? plainTick(Number((row.step * 1e3).toPrecision(3))) : '–')
  },
  {name: 'Tokens/s', of: (row) => row.tokens, show: (row) => whole(row.tokens), down: true},
  {
    name: 'Launches',
    of: (row) => row.allLaunches,
    show: (row) => whole(row.allLaunches),
    rank: 'lesser'
  },
  {
    name: 'Recompute',
    of: (row) => row.waits[2],
    show: (row) => duration(row.waits[2]),
    rank: 'lesser'
  },
  {
    name: 'Most batch',
    of: (row) => row.mostBatch ?? -1,
    show: (row) => (row.mostBatch ? whole(row.mostBatch) + (row.mostAtLeast ? '+' : '') : '–'),
    rank: 'lesser',
    down: true
  },
  {
    name: 'Fits',
    of: (row) => (row.fits ? 0 : 1),
    show: (row) => ({text: row.fits ? 'yes' : 'no', mark: row.fits ? 'good' : 'bad'})
  },
];

const filterNames = [
  ['ac', 'Checkpointing'], ['loss', 'Loss'], ['kernels', 'Kernels'], ['shard', 'Sharding'],
  ['batch', 'Batch']
];

function rankingTable(holder, form, counted, rows, state) {
  const wanted = {text: '', fits: false, pareto: false};
  let order = {column: rankingColumns[rows.some((row) => row.rank) ? 1 : 2], down: false};

  const lines = new Map(rows.map((row) => {
    const button = element(
        'button', {
          type: 'button',
          class: 'row',
          tabindex: -1,
          click: (event) => {
            event.stopPropagation();
            state.select(row.index);
          }
        },
        row.label);
    const line = element(
        'tr', {
          'data-row': row.index,
          class: row.pareto ? 'pareto' : null,
          click: () => state.select(row.index)
        },
        element(
            'th', {scope: 'row'},
            element(
                'span', {class: 'star', title: row.pareto ? 'on the Pareto front' : null},
                row.pareto ? '★' : ''),
            button),
        rankingColumns.slice(1).map((column) => cell(column.show(row), column, false)));
    line.title = row.why || '';
    return [row, line];
  }));
  const body = element('tbody');
  const heads = rankingColumns.map(
      (column) => element(
          'th', {
            scope: 'col',
            class: [column.text ? '' : 'number', column.rank || ''].join(' ').trim() || null
          },
          element(
              'button', {type: 'button', class: 'sort', click: () => sort(column)}, column.name)));
  holder.append(element(
      'table', {class: 'ranking'}, element('caption', {class: 'unseen'}, 'Ranked configurations'),
      element('thead', {}, element('tr', {}, heads)), body));

  function sort(column) {
    order = {column, down: order.column === column ? !order.down : Boolean(column.down)};
    show();
    say(`sorted by ${column.name}, ${order.down ? 'descending' : 'ascending'}`);
  }

  function show() {
    const list = rows.filter((row) => state.visible.has(row.index));
    const {of} = order.column;
    list.sort((a, b) => {
      const [x, y] = [of(a), of(b)];
      const less = typeof x === 'string' ? x.localeCompare(y, 'en', {numeric: true}) :
                                           (x ?? Infinity) - (y ?? Infinity);
      return (order.down ? -less : less) || a.index - b.index;
    });
    body.replaceChildren(...list.map((row) => lines.get(row)));
    heads.forEach((head, i) => {
      const sorted = rankingColumns[i] === order.column;
      if (sorted)
        head.setAttribute('aria-sort', order.down ? 'descending' : 'ascending');
      else
        head.removeAttribute('aria-sort');
    });
    counted.textContent = list.length === rows.length ?
        `${whole(rows.length)} configurations` + leftOut() :
        `${whole(list.length)} of ${whole(rows.length)} configurations`;
    mark();
  }

  const leftOut = () => (
      data.leftOut ? `; ${whole(data.leftOut)} others are not on this page (--format csv has all)` :
                     '');

  function filter() {
    const search = wanted.text.toLowerCase().split(/\s+/).filter(Boolean);
    state.visible =
        new Set(rows.filter(
                        (row) => filterNames.every(
                                     ([name]) => !wanted[name] ||
                                         String(row.options[name]) === wanted[name]) &&
                            (!wanted.file || String(row.file) === wanted.file) &&
                            (!wanted.fits || row.fits) && (!wanted.pareto || row.pareto) &&
                            search.every((word) => row.label.toLowerCase().includes(word)))
                    .map((row) => row.index));
    show();
    state.filtered();
  }

  /// Of all rows one is in the order of Tab: the selected one, or the first.
  function mark() {
    let stop = null;
    for (const [row, line] of lines) {
      const chosen = row.index === state.selected;
      line.classList.toggle('chosen', chosen);
      const button = line.querySelector('button');
      button.tabIndex = -1;
      if (chosen)
        button.setAttribute('aria-current', 'true');
      else
        button.removeAttribute('aria-current');
      if (chosen && line.isConnected) stop = button;
    }
    stop ??= body.querySelector('button');
    if (stop) stop.tabIndex = 0;
  }

  body.addEventListener('keydown', (event) => {
    const line = event.target.closest('tr');
    const to = {
      ArrowDown: line.nextElementSibling,
      ArrowUp: line.previousElementSibling,
      Home: body.firstElementChild,
      End: body.lastElementChild
    }[event.key];
    if (!to) return;
    event.preventDefault();
    to.querySelector('button').focus();
  });

  form.addEventListener('submit', (event) => event.preventDefault());
  form.append(element('label', {class: 'grow'}, element('span', {}, 'Search'), element('input', {
                        type: 'search',
                        placeholder: 'full lc-ce fsdp2',
                        input: (event) => {
                          wanted.text = event.target.value;
                          filter();
                        }
                      })));
  const distinct =
      (of) => [...new Set(rows.map(of))].sort((a, b) => a.localeCompare(b, 'en', {numeric: true}));
  for (const [name, label] of filterNames) {
    const values = distinct((row) => String(row.options[name]));
    if (values.length > 1)
      form.append(choice(label, [['', 'all'], ...values.map((v) => [v, v])], '', (v) => {
        wanted[name] = v;
        filter();
      }));
  }
  if (data.files.length > 1)
    form.append(choice(
        'File', [['', 'all'], ...data.files.map((file, i) => [String(i), file.name || String(i)])],
        '', (v) => {
          wanted.file = v;
          filter();
        }));
  for (const [name, label] of [['fits', 'fits'], ['pareto', 'Pareto front']])
    form.append(element(
        'label', {class: 'check'}, element('input', {
          type: 'checkbox',
          change: (event) => {
            wanted[name] = event.target.checked;
            filter();
          }
        }),
        label));

  state.visible = new Set(rows.map((row) => row.index));
  show();
  return {mark};
}
