// The page: what is set, what is asked of the core, and what is shown of its answer.

const given = JSON.parse(byId('given').textContent);  // by `ac-advisor serve` and the Python module
const files = (given.files || []).map(({name, text}) => fileModel(name, text));
const first = {
  sample: described.models.find((name) => name === 'llama-3.2-1b') || described.models[0]
};
const state = {
  step: {model: first, as: '', options: []},
  pinned: null,
  view: 'plan'
};
let selectedRow = null;
let shownAt = 0;  // milliseconds, for who measures

/// A file as the command line names its model: a config.json by its folder.
function fileModel(path, text) {
  const parts = path.split('/');
  const file = parts.at(-1);
  const name = file === 'config.json' ? parts.at(-2) || 'config' : file.replace(/\.[^.]*$/, '');
  return {text, origin: path, name};
}

const planner = asker(shown);
const sweeper = asker(shown, (done, of) => {
  byId('progress').max = of;
  byId('progress').value = done;
  byId('swept').textContent = `${whole(done)} of ${whole(of)} simulations`;
});

function refused(error) {
  byId('error').hidden = !error;
  byId('error').textContent = error || '';
  groups.refuse(error);
}

/// Shows the sections anew; what a reader has opened stays open, and the page does not jump.
function redraw() {
  const results = byId('results');
  const summaries = () => [...results.querySelectorAll('details > summary')];
  const open = new Set(summaries().filter((s) => s.parentNode.open).map((s) => s.textContent));
  const tab = results.querySelector('[role=tab][aria-selected=true]')?.textContent;
  results.style.minHeight = results.offsetHeight + 'px';
  showSections(NaN, (index) => {
    selectedRow = index;
  });
  for (const summary of summaries()) summary.parentNode.open = open.has(summary.textContent);
  const tabs = [...results.querySelectorAll('[role=tab]')];
  const chosen = tabs.find((one) => one.textContent === tab);
  if (chosen && tab !== lastOwnTab) chosen.click();
  lastOwnTab = chosen && tab !== lastOwnTab ?
      lastOwnTab :
      tabs.find((t) => t.ariaSelected === 'true')?.textContent;
  requestAnimationFrame(() => {
    results.style.minHeight = '';
  });
}
// The tab that was shown because the configuration is of its framework, not because a reader chose
// it.
let lastOwnTab;

/// The figures that a reader follows while a slider moves: cheap enough for each frame. The rest
/// comes when the slider rests.
function redrawLightly() {
  const row = data.rows[data.pair ? data.pair[1] : 0];
  byId('tiles').replaceChildren(...tiles(row, data.pair ? data.rows[data.pair[0]] : null));
  const old = byId('selected-body').querySelector('.timeline');
  if (!old || !row.detail) return;
  const plot = element('div', {class: 'timeline'});
  old.replaceWith(plot);
  timelinePlot(plot, row);
}

let restAt = 0;  // when a slider that moves will be taken to rest
function moving() {
  restAt = performance.now() + 200;
}

function shown(answer, question) {
  if (question.do === 'sweep') byId('sweeping').hidden = true;
  byId('results').setAttribute('aria-busy', String(!planner.idle()));
  refused(answer.error);
  byId('results').classList.toggle('stale', Boolean(answer.error));
  if (answer.error) return;
  // A plan that was asked for before the view changed is no longer wanted.
  if ((question.do === 'sweep') !== (state.view === 'sweep')) return;
  take(answer.data);
  selectedRow = data.recommended ?? 0;
  byId('title').textContent = answer.title;
  document.title = answer.title + ': ac-advisor';
  document.querySelector('.verdict').textContent = answer.verdict;
  byId('swept-actions').hidden = question.do !== 'sweep';
  groups.show(answer.options, state.step.options);
  if (performance.now() < restAt && byId('selected-body').firstChild) {
    redrawLightly();
    clearTimeout(rest.timer);
    rest.timer = setTimeout(rest, restAt - performance.now());
  } else {
    redraw();
  }
  shownAt = performance.now();
  document.documentElement.dataset.shown =
      String(Number(document.documentElement.dataset.shown || 0) + 1);
  document.documentElement.dataset.ready ??= String(Math.round(performance.now()));
}

/// The whole, once a slider has come to rest.
function rest() {
  const left = restAt - performance.now();
  if (left > 0)
    rest.timer = setTimeout(rest, left);
  else
    redraw();
}

function remember() {
  clearTimeout(remember.timer);
  remember.timer = setTimeout(async () => {
    try {
      history.replaceState(null, '', '#' + await stateText(state));
    } catch {
      // A page within another's text has no address of its own.
    }
  }, 250);
}

/// Plans what is set, beside what is pinned.
function plan() {
  if (state.view === 'sweep') {
    sweeper.stop();
    byId('sweeping').hidden = true;
  }
  state.view = 'plan';
  byId('results').setAttribute('aria-busy', 'true');
  planner.ask(
      state.pinned ? {do: 'compare', a: state.pinned, b: state.step} : {do: 'plan', ...state.step});
  remember();
}

function sweep() {
  state.view = 'sweep';
  byId('sweeping').hidden = false;
  byId('progress').value = 0;
  byId('swept').textContent =
      'Planning every combination of checkpointing, loss, kernels and sharding';
  sweeper.stop();
  sweeper.ask({do: 'sweep', ...state.step});
  remember();
}

function setOption(option, chosen) {
  const options =
      state.step.options.filter(([name]) => name !== option.name && name !== (option.off ?? ''));
  if (chosen) options.push([chosen[1], chosen[0]]);
  state.step = {...state.step, options};
  if (!chosen && document.activeElement?.blur) document.activeElement.blur();
  plan();
}

function setModel(model) {
  state.step = {...state.step, model, as: model.sample ? '' : state.step.as};
  showModel();
  plan();
}

async function readFile(file) {
  // What no configuration is, is not read: a file of weights is gigabytes.
  if (file.size > 16 * 2 ** 20) {
    refused(`${file.name}: larger than 16 MiB; a model's config.json has a few KiB`);
    return;
  }
  const model = fileModel(file.name, await file.text());
  files.push(model);
  setModel(model);
}

function showModel() {
  const {model, as} = state.step;
  const option = (value, text, selected) => element('option', {value, selected}, text);
  const select = element(
      'select', {
        id: 'model-name',
        change: () => {
          const [kind, at] = [select.value.slice(0, 1), select.value.slice(1)];
          setModel(kind === 's' ? {sample: at} : files[Number(at)]);
        }
      },
      element(
          'optgroup', {label: 'Samples'},
          described.models.map((name) => option('s' + name, name, model.sample === name))),
      element(
          'optgroup', {label: 'Ids of the Hub, built in'},
          described.hub.map((name) => option('s' + name, name, model.sample === name))),
      files.length ? element(
                         'optgroup', {label: 'Files'},
                         files.map((file, i) => option('f' + i, file.origin, model === file))) :
                     null);
  const opener = element('input', {
    id: 'model-file',
    type: 'file',
    accept: '.json,application/json',
    class: 'unseen',
    change: () => opener.files[0] && readFile(opener.files[0])
  });
  const family = element(
      'select', {
        id: 'model-as',
        change: () => {
          state.step = {...state.step, as: family.value};
          plan();
        }
      },
      element('option', {value: ''}, 'its own family'),
      described.families.map((name) => option(name, name, name === as)));
  byId('model').replaceChildren(
      element(
          'div', {class: 'control'}, element('label', {for: 'model-name'}, 'model'),
          element('div', {class: 'field'}, select)),
      element(
          'div', {class: 'field'},
          element('label', {class: 'quiet opener', for: 'model-file'}, 'Open a config.json', opener),
          element('span', {class: 'muted'}, 'or drop one. It stays in this browser.')),
      ...(model.sample ? [] : [element(
                                 'div', {class: 'control'},
                                 element('label', {for: 'model-as'}, 'read as'),
                                 element('div', {class: 'field'}, family))]));
}

function showPinned() {
    const {pinned} = state;
    byId('pin').setAttribute('aria-pressed', String(Boolean(pinned)));
    byId('pin').textContent = pinned ? 'Unpin' : 'Pin to compare';
    byId('pinned').hidden = !pinned;
    if (pinned)
      byId('pinned').textContent = 'A is pinned: ' +
          [pinned.model.sample || pinned.model.origin, ...pinned.options.flat()].join(' ').trim() +
          '. B is what is set below.';
}

/// A shell's words, as the command line of a row quotes them.
function shellWords(text) {
    return [...text.matchAll(/(?:'[^']*'|\\.|[^\s'\\])+/g)].map(
        ([word]) => word.replace(/'([^']*)'|\\(.)/g, (_, quoted, escaped) => quoted ?? escaped));
}

/// "--batch 8 --hold-output" as a list of options with their texts.
function optionsOf(command) {
    const options = [];
    for (const word of shellWords(command)) {
      if (word.startsWith('--'))
        options.push([word, '']);
      else
        options.at(-1)[1] = word;
    }
    return options;
}

async function load(fragment) {
    let wanted = null;
    try {
      wanted = await stateOf(fragment);
    } catch {
      refused('the link holds no configuration that can be read');
      return false;
    }
    if (!wanted) return false;
    Object.assign(state, wanted);
    const {model} = state.step;
    if (!model.sample) files.push(model);
    showModel();
    showPinned();
    (state.view === 'sweep' ? sweep : plan)();
    return true;
}

function connect() {
    byId('best').addEventListener('click', sweep);
    byId('stop').addEventListener('click', () => {
      sweeper.stop();
      plan();
    });
    byId('back').addEventListener('click', plan);
    byId('use').addEventListener('click', () => {
      const row = data.rows[selectedRow];
      if (!row?.command) return;
      state.step = {...state.step, options: optionsOf(row.command)};
      plan();
    });
    byId('pin').addEventListener('click', () => {
      state.pinned = state.pinned ? null : state.step;
      showPinned();
      plan();
    });
    byId('link').addEventListener('click', async () => {
      await copyText(location.href.replace(/#.*/, '') + '#' + await stateText(state));
      say('link copied');
      byId('link').textContent = 'Copied';
      setTimeout(() => {
        byId('link').textContent = 'Copy link';
      }, 1500);
    });
    byId('step').addEventListener('reset', (event) => {
      event.preventDefault();
      state.step = {...state.step, as: '', options: []};
      plan();
    });
    byId('step').addEventListener('submit', (event) => event.preventDefault());
    addEventListener('dragover', (event) => {
      event.preventDefault();
      document.body.classList.add('dropping');
    });
    addEventListener('dragleave', (event) => {
      if (!event.relatedTarget) document.body.classList.remove('dropping');
    });
    addEventListener('drop', (event) => {
      event.preventDefault();
      document.body.classList.remove('dropping');
      if (event.dataTransfer.files[0]) readFile(event.dataTransfer.files[0]);
    });
    addEventListener('hashchange', () => load(location.hash.slice(1)));
}

const groups = controlGroups(
    byId('groups'), neededFirst(described.groups, described.needed), setOption, moving);

async function start() {
    theme();
    connect();
    groups.show(described.settled, []);
    byId('foot').textContent = `ac-advisor ${described.version}. Nothing leaves this browser.`;
    if (location.hash.length > 1 && await load(location.hash.slice(1))) return;
    if (given.start) {
      state.step = {...state.step, ...given.start};
      if (!state.step.model.sample) files.push(state.step.model);
    } else if (files.length) {
      state.step.model = files[0];
    }
    showModel();
    showPinned();
    plan();
}

start();
