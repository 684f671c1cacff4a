// Everything about one configuration.

function facts(row) {
  const [required, usable, context, communication, margin, engine] = row.fit;
  const [phase, op, module, step] = row.where;
  const list = [
    [
      'Peak allocated',
      `${size(row.peak)} in ${phase}` + (op ? `, ${op} of ${module} (op ${step})` : '')
    ],
    ['Peak reserved', size(row.reserved)],
    ['Without workspaces', size(row.bare)],
    ['First step', size(row.first)],
    ['Between steps', size(row.resident)],
    known(usable) ?
        [
          'Needed',
          row.phase ?
              `${size(required)} of ${size(usable)}: in ${row.phase}, margin ${size(margin)}` :
              `${size(required)} of ${size(usable)}: reserved, context ${
                  size(context)}, communication ${size(communication)}, margin ${size(margin)}` +
                  (engine > 0 ? `, vLLM ${size(engine)}` : '')
        ] :
        ['Needed', 'not measured'],
    [
      'Step',
      `${timeWord(row)} ${duration(row.step)}, ${whole(row.tokens)} tokens/s, ${
          percent(row.mfu)} of peak FLOP/s`
    ],
    [
      'Of it',
      `recomputation ${duration(row.waits[2])}, waiting for launches ${
          duration(row.waits[0])}, exposed communication ${duration(row.waits[1])}`
    ],
  ];
  if (row.budget)
    list.push([
      'Budget',
      `${size(row.budget[0])}: ${row.budget[1]} (optimality gap ${percent(row.budget[2])})`
    ]);
  if (row.mostBatch) {
    const least = row.mostAtLeast ? 'at least ' : '';
    list.push(['Largest batch', least + whole(row.mostBatch) + ' sequences per micro-batch fit']);
  }
  if (row.why) {
    const place = row.rank ? `${row.rank}: ` : row.unavailable ? '' : 'not: ';
    list.push(['Ranked', place + row.why]);
  }
  return element(
      'dl', {class: 'facts'},
      list.map(([name, text]) => [element('dt', {}, name), element('dd', {}, text)]));
}

function largestTable(row) {
  const {largest, modules} = row.detail;
  if (!largest.length) return null;
  return element(
      'div', {class: 'two'},
      element(
          'div', {class: 'scroll'},
          table(
              'Largest tensors at the peak',
              [
                {name: 'Made by', text: true}, {name: 'Category', text: true},
                {name: 'Shape', text: true, rank: 'lesser'}, {name: 'Size'}
              ],
              largest.map(
                  ([made, op, shape, category, bytes]) =>
                      [op ? `${made} ${op}` : made, {
                        node:
                            element('span', {}, swatch(category), words(data.categories[category]))
                      },
                       shape, size(bytes)]))),
      modules.length ?
          element(
              'div', {class: 'scroll'},
              table(
                  'At the peak by module',
                  [{name: 'Module', text: true}, {name: 'Size'}, {name: 'Share'}],
                  modules.map(
                      ([
                        name, bytes
                      ]) => [name, size(bytes), percent(row.peak > 0 ? bytes / row.peak : NaN)]))) :
          null);
}

/// The export target of the framework that was planned for; liger patches transformers' models.
const ownTarget = (row) => (row.options.framework === 'liger' ? 'hf' : row.options.framework);

/// The settings of all frameworks as tabs; the one that was planned for first.
function settings(row) {
  if (!row.settings) {
    const text = command(row, 'export', '--to ' + ownTarget(row));
    return text ?
        [
          element(
              'p', {class: 'muted'}, 'For this configuration the settings are one command away:'),
          snippet(text, 'export command')
        ] :
        [];
  }
  const panel = element('div', {role: 'tabpanel', tabindex: -1});
  const own = Math.max(0, row.settings.findIndex((s) => s.target === ownTarget(row)));
  const tabs = row.settings.map(
      (setting, i) => element(
          'button', {type: 'button', role: 'tab', class: 'tab', click: () => open(i)},
          setting.target));
  function open(i) {
    const setting = row.settings[i];
    tabs.forEach((tab, j) => {
      tab.setAttribute('aria-selected', String(i === j));
      tab.tabIndex = i === j ? 0 : -1;
    });
    panel.replaceChildren(...(setting.refused ? [element('p', {}, setting.refused)] : [
      element('p', {class: 'muted'}, 'For ' + setting.version),
      snippet(setting.text, setting.target + ' setting'),
      setting.notes.length ?
          element('ul', {class: 'muted'}, setting.notes.map((note) => element('li', {}, note))) :
          ''
    ]));
  }
  const list = element(
      'div', {
        role: 'tablist',
        'aria-label': 'Framework',
        class: 'tabs',
        keydown: (event) => {
          const at = tabs.indexOf(document.activeElement);
          const to =
              {ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1}[event.key];
          if (to === undefined || at < 0 || !tabs[to]) return;
          event.preventDefault();
          open(to);
          tabs[to].focus();
        }
      },
      tabs);
  open(own);
  return [list, panel];
}

function optionList(row) {
  return element(
      'details', {}, element('summary', {}, 'All options of this configuration'),
      element(
          'div', {class: 'scroll'},
          table(
              'Options', [{name: 'Option', text: true}, {name: 'Value', text: true}],
              Object.entries(row.options).map(([name,
                                                value]) => [name, String(value) || '(none)']))));
}

function showSelected(holder, row) {
  const parts = [element(
      'p', {class: 'chosen-label'}, element('strong', {}, row.label), ' ',
      element(
          'span', {class: 'badge ' + (row.fits ? 'good' : 'bad')},
          row.fits ? 'fits' : 'does not fit'),
      row.pareto ? element('span', {class: 'badge'}, '★ Pareto front') : '',
      row.measured ? element('span', {class: 'badge'}, 'measured') : '')];
  const plan = command(row, 'plan');
  const plot = element('div', {class: 'timeline'});
  const left = element('div', {}, element('h3', {}, 'Memory over the step'));
  if (row.detail && row.detail.ops.length) {
    left.append(plot);
    if (!row.detail.categories)
      left.append(
          element(
              'p', {class: 'muted'},
              'A saved file knows the sum after each op only; the peak is within one. ' +
                  (plan ? 'By category:' : '')),
          ...(plan ? [snippet(plan + ' --format html --output report.html', 'plan command')] : []));
  } else {
    left.append(
        element(
            'p', {class: 'muted'},
            'This page holds the memory over the step of the most important configurations only. ' +
                (plan ? 'For this one, run:' : '')),
        ...(plan ? [snippet(plan + ' --format html --output report.html', 'plan command')] : []));
  }
  parts.push(element(
      'div', {class: 'wide-left'}, left,
      element('div', {}, element('h3', {}, 'Figures'), facts(row), peakBars(row))));
  if (row.detail) parts.push(largestTable(row));
  const pipeline = pipelineParts(row);
  parts.push(
      taskPhasesTable(row), element('h3', {}, 'By phase'), phaseCharts(row), meshPicture(row),
      ranksTable(row), pipeline && pipeline.section, element('h3', {}, 'Settings to copy'),
      ...settings(row));
  if (plan)
    parts.push(element('p', {class: 'muted'}, 'To plan it again:'), snippet(plan, 'plan command'));
  parts.push(optionList(row));
  if (row.notes.length)
    parts.push(
        element('ul', {class: 'muted'}, row.notes.map((i) => element('li', {}, data.notes[i]))));
  holder.replaceChildren(...parts.filter(Boolean));
  if (pipeline) pipeline.draw();
  if (!row.detail || !row.detail.ops.length) return;
  timelinePlot(plot, row);
  plot.after(...belowTimeline(row));
}
