// A control for each option of the table, made from its row: name, type, words, range, help.

// Where a slider helps beside the number: its highest value.
const sliders = {
  '--batch': 64
};

// A first value for the part of a word that is the user's to say: "grouped:K".
const examples = {
  K: '2',
  N: '2',
  TOKENS: '1024',
  SIZE: '40GiB',
  RANK: '16',
  NORM: '1.0',
  RATIO: '0.01',
  F: '0.5'
};

const placeholder = /([:=])([A-Z]+)$/;

/// "hsdp:N" as {head: "hsdp:", name: "N"}; null for a plain word.
function openWord(word) {
  const found = word.match(placeholder);
  return found && {head: word.slice(0, -found[2].length), name: found[2]};
}

function booleanField(option, id, changed) {
  const box = element('input', {
    id,
    type: 'checkbox',
    'aria-describedby': id + '-hint',
    change: () => changed(
        box.checked    ? ['', option.name] :
            option.off ? ['', option.off] :
                         null)
  });
  return {
    parts: [box],
    show: (text, byHand) => {
      box.checked = text === 'true';
      // A preset's flag that has no opposite stays.
      box.disabled = !option.off && box.checked && !byHand;
    }
  };
}

function textField(option, id, changed, moving, type) {
  const set = (text) => changed(text.trim() === '' ? null : [text.trim(), option.name]);
  const entry = element('input', {
    id,
    type,
    min: option.range && option.range[0],
    max: option.range && option.range[1],
    step: type === 'number' ? '1' : null,
    autocomplete: 'off',
    spellcheck: 'false',
    'aria-describedby': id + '-hint',
    input: () => {
      if (slide) slide.value = entry.value;
      set(entry.value);
    }
  });
  const most = sliders[option.name];
  const slide = most && element('input', {
                  type: 'range',
                  min: 1,
                  max: most,
                  'aria-label': option.name.slice(2) + ', slider',
                  input: () => {
                    moving();
                    entry.value = slide.value;
                    set(slide.value);
                  }
                });
  return {
    parts: slide ? [slide, entry] : [entry],
    show: (text) => {
      // What is being typed stays as it is.
      if (document.activeElement !== entry) entry.value = text;
      if (!slide || document.activeElement === slide) return;
      slide.max = Math.max(most, Number(text) || 0);
      slide.value = text;
    }
  };
}

/// Words to choose from; a word with an open end ("grouped:K") has an entry for it.
function wordField(option, id, changed) {
  const open = new Map(option.words.map((word) => [word, openWord(word)]).filter(([, o]) => o));
  const entry = element('input', {
    type: 'text',
    autocomplete: 'off',
    'aria-describedby': id + '-hint',
    hidden: true,
    input: () => tell()
  });
  const select = element(
      'select', {
        id,
        'aria-describedby': id + '-hint',
        change: () => {
          const end = open.get(select.value);
          if (end) entry.value = examples[end.name] || '';
          showEntry();
          tell();
        }
      },
      option.words.map((word) => element('option', {value: word}, word)));
  function showEntry() {
    const end = open.get(select.value);
    entry.hidden = !end;
    entry.setAttribute('aria-label', `${option.name.slice(2)}: ${end ? end.name : 'its value'}`);
  }
  function tell() {
    const end = open.get(select.value);
    changed([end ? end.head + entry.value.trim() : select.value, option.name]);
  }
  return {
    parts: [select, entry],
    show: (text) => {
      const word = option.words.find((w) => w === text) ||
          [...open].find(([, end]) => text.startsWith(end.head))?.[0];
      if (!word && ![...select.options].some((o) => o.value === text))
        select.append(element('option', {value: text}, text));
      select.value = word || text;
      const end = open.get(word);
      if (end && document.activeElement !== entry) entry.value = text.slice(end.head.length);
      showEntry();
    }
  };
}

function fieldOf(option, id, changed, moving) {
  if (option.type === 'boolean') return booleanField(option, id, changed);
  if (option.words.length) return wordField(option, id, changed);
  return textField(option, id, changed, moving, option.type === 'integer' ? 'number' : 'text');
}

/// `changed(option, [text, name])` is told what was set by hand, null where it goes back to the
/// default.
function control(option, changed, moving) {
  const id = 'option' + option.name;
  const label = option.name.slice(2).replaceAll('-', ' ');
  const field = fieldOf(option, id, (given) => changed(option, given), moving);
  const node = element(
      'div', {class: 'control', title: option.help},
      element(
          'label',
          {for: id
          },
          label, ' ', element('code', {}, option.metavar)),
      element(
          'button', {
            type: 'button',
            class: 'quiet undo',
            'aria-label': `${label}: back to the default`,
            click: () => changed(option, null)
          },
          '↺'),
      element('div', {class: 'field'}, field.parts),
      element('p', {id: id + '-hint', class: 'hint'}, `${option.name}: ${option.help}`));
  return {
    node,
    show: (text, byHand) => {
      node.classList.toggle('by-hand', byHand);
      field.show(text, byHand);
    },
    wrong: (is) => {
      node.classList.toggle('wrong', is);
      byId(id).setAttribute('aria-invalid', String(is));
    }
  };
}

/// A group of what most people need, in that order, before those of the table without it.
function neededFirst(groups, needed) {
  const all = new Map(groups.flatMap(({options}) => options.map((o) => [o.name, o])));
  const rest = groups.map(
      ({title, options}) => ({title, options: options.filter((o) => !needed.includes(o.name))}));
  return [{title: 'Step', options: needed.map((name) => all.get(name))}, ...rest];
}

/// All groups of the table, the first of them open. `options` is the list of what was set by hand:
/// [["--ac", "full"], …].
function controlGroups(holder, groups, changed, moving) {
  const controls = new Map();
  const counts = [];
  holder.replaceChildren(...groups.map((group, i) => {
    const count = element('span', {class: 'muted'});
    counts.push([group, count]);
    return element(
        'details', {class: 'group', open: i === 0}, element('summary', {}, group.title, ' ', count),
        element('div', {class: 'controls'}, group.options.map((option) => {
          controls.set(option.name, control(option, changed, moving));
          return controls.get(option.name).node;
        })));
  }));
  const own = (option, options) =>
      options.find(([name]) => name === option.name || option.off && name === option.off);
  return {
    /// `settled` is the text of each option as the core has settled it.
    show: (settled, options) => {
      for (const [group, count] of counts) {
        const changes = group.options.filter((option) => own(option, options)).length;
        count.textContent = changes ? `(${changes} set)` : '';
        for (const option of group.options)
          controls.get(option.name)
              .show(
                  settled[option.name] ?? own(option, options)?.[1] ?? '',
                  Boolean(own(option, options)));
      }
    },
    /// An error of the command line begins with the option that it is about.
    refuse: (error) => {
      const blamed = error ? (error.match(/^--[a-z0-9-]+/) || [''])[0] : '';
      for (const [name, one] of controls) one.wrong(name === blamed);
    }
  };
}
