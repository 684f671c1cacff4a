// Elements are made from names and text: what came from a file is never parsed as markup.

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function')
      node.addEventListener(name, value);
    else if (value === true)
      node.setAttribute(name, '');
    else if (value !== false && value !== null && value !== undefined)
      node.setAttribute(name, value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return node;
}

function element(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

function drawn(name, attributes = {}, ...children) {
  return fill(document.createElementNS('http://www.w3.org/2000/svg', name), attributes, children);
}

const byId = (id) => document.getElementById(id);

/// Tells a screen reader what has changed.
function say(text) {
  byId('said').textContent = text;
}

/// A cell: text, or {text, title, mark, node}. `mark` is a class.
function cell(value, column, head) {
  const given = value !== null && typeof value === 'object' ? value : {text: value};
  const classes =
      [column.text ? '' : 'number', given.mark || '', column.rank || ''].join(' ').trim();
  const attributes = {class: classes || null, title: given.title};
  if (head) attributes.scope = 'row';
  return element(head ? 'th' : 'td', attributes, given.node || String(given.text ?? '–'));
}

/// A table with a caption; columns are {name, text, rank}, the first one heads its row.
function table(caption, columns, rows, attributes = {}) {
  return element(
      'table', attributes, element('caption', {}, caption),
      element(
          'thead', {},
          element(
              'tr', {},
              columns.map(
                  (c) => element(
                      'th', {
                        scope: 'col',
                        class: [c.text ? '' : 'number', c.rank || ''].join(' ').trim() || null
                      },
                      c.name)))),
      element(
          'tbody', {},
          rows.map(
              (row) =>
                  element('tr', {}, row.map((value, i) => cell(value, columns[i], i === 0))))));
}

/// The table behind a chart.
function behind(caption, columns, rows) {
  return element(
      'details', {class: 'behind'}, element('summary', {}, 'The figures as a table'),
      element('div', {class: 'scroll'}, table(caption, columns, rows)));
}

async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // A file:// page may have no clipboard: an old way that needs no permission.
    const area = element('textarea', {class: 'unseen'});
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
  }
}

function copyButton(text, what) {
  const button = element(
      'button', {type: 'button', class: 'quiet copy', 'aria-label': 'Copy ' + what}, 'Copy');
  button.addEventListener('click', async () => {
    await copyText(text);
    button.textContent = 'Copied';
    say(what + ' copied');
    setTimeout(() => {
      button.textContent = 'Copy';
    }, 1500);
  });
  return button;
}

/// Text to paste, with its button.
function snippet(text, what) {
  return element(
      'div', {class: 'snippet'},
      element('pre', {tabindex: 0, 'aria-label': what}, element('code', {}, text)),
      copyButton(text, what));
}

function choice(label, options, value, changed) {
  const select = element(
      'select', {change: (event) => changed(event.target.value)},
      options.map(
          ([name, text]) => element('option', {value: name, selected: name === value}, text)));
  return element('label', {}, element('span', {}, label), select);
}
