// How ranks share the work: the mesh, and what the ranks of a pipeline compute when.

const mostDrawn = 512;  // ranks of a mesh

/// Where rank `r` of a mesh {pp, dp, cp, tp} is.
function placeOf(mesh, r) {
  const tp = r % mesh.tp, cp = Math.floor(r / mesh.tp) % mesh.cp;
  const dp = Math.floor(r / (mesh.tp * mesh.cp)) % mesh.dp;
  return {pp: Math.floor(r / (mesh.tp * mesh.cp * mesh.dp)), dp, cp, tp};
}

/// The mesh in words: only what has several ranks, outermost first, with how far apart its
/// neighbours are.
function dimensions(mesh) {
  const inner = {pp: mesh.dp * mesh.cp * mesh.tp, dp: mesh.cp * mesh.tp, cp: mesh.tp, tp: 1};
  const names =
      {pp: 'pipeline stages', dp: 'see other data', cp: 'share a sequence', tp: 'share a layer'};
  return ['pp', 'dp', 'cp', 'tp'].filter((name) => mesh[name] > 1).map((name) => {
    const apart = inner[name];
    const across = mesh.node > 0 && apart * mesh[name] > mesh.node;
    return [
      names[name], mesh[name], apart,
      mesh.node === 0 ? '–' :
          across      ? 'across nodes' :
                        'in a node'
    ];
  });
}

/// A square a rank, node after node, coloured by pipeline rank; null of one rank or very many.
function meshPicture(row) {
  const mesh = row.mesh;
  if (!mesh) return null;
  const world = mesh.pp * mesh.dp * mesh.cp * mesh.tp;
  const side = 16, gap = 3, node = mesh.node || Math.min(world, 8), perLine = node > 16 ? 1 : 4;
  const parts = [
    element('h3', {}, 'Mesh of ranks'),
    element(
        'div', {class: 'scroll'},
        table(
            'Dimensions of the mesh, outermost first',
            [
              {name: 'ranks that', text: true}, {name: 'how many'}, {name: 'apart'},
              {name: 'their network', text: true}
            ],
            dimensions(mesh).map((line) => line.map(String))))
  ];
  if (world <= mostDrawn) {
    const nodes = Math.ceil(world / node);
    const columns = Math.min(perLine, nodes), lines = Math.ceil(nodes / perLine);
    const box = node * (side + gap) + 3 * gap;
    const picture = drawn('svg', {
      viewBox: `0 0 ${columns * box} ${lines * (side + 3 * gap)}`,
      class: 'mesh',
      width: columns * box,
      role: 'img',
      'aria-label': `${world} ranks in ${nodes} ${nodes > 1 ? 'nodes' : 'node'}, coloured by ` +
          'pipeline rank; the table above has the dimensions.'
    });
    for (let r = 0; r < world; ++r) {
      const at = placeOf(mesh, r), n = Math.floor(r / node);
      picture.append(drawn(
          'rect', {
            class: 'c' + at.pp % 12,
            x: n % perLine * box + r % node * (side + gap),
            y: Math.floor(n / perLine) * (side + 3 * gap),
            width: side,
            height: side,
            rx: 3
          },
          drawn(
              'title', {},
              `rank ${r}: pipeline rank ${at.pp}, data ${at.dp}` +
                  (mesh.cp > 1 ? `, part ${at.cp} of a sequence` : '') +
                  (mesh.tp > 1 ? `, part ${at.tp} of a layer` : ''))));
    }
    parts.push(picture);
  }
  return element('div', {}, ...parts);
}

/// What each rank of a pipeline holds; null of others.
function ranksTable(row) {
  const ranks = row.detail && row.detail.ranks;
  return ranks &&
      element(
             'div', {class: 'scroll'},
             table(
                 'Ranks of the pipeline', ranks.head.map((name, i) => ({name, text: i === 1})),
                 ranks.rows));
}

/// Of a step of several phases what is on the device in each; null of others.
function taskPhasesTable(row) {
  const phases = row.detail && row.detail.task_phases;
  return phases &&
      element(
             'div', {class: 'scroll'}, element('h3', {}, 'Phases of the step'),
             table(
                 'What is on the device in each phase of the step',
                 phases.head.map((name, i) => ({name, text: i === 0})), phases.rows),
             element('p', {}, phases.note.trim()));
}

/// Of a slot by its fourth entry, as profile::PipelinePart counts: its class and its words.
const parts = [
  ['forward', 'forward'], ['backward', 'backward'], ['input', 'backward for inputs'],
  ['weights', 'backward for weights']
];

/// A line a rank: forwards, backwards, and between them nothing.
function pipelinePlot(holder, slots, ranks, end) {
  const unit = end >= 1 ? ['s', 1] : ['ms', 1e3];
  chart(holder, (width) => {
    const line = Math.max(8, Math.min(26, 320 / ranks));
    const box = {left: 52, right: width - 14, top: 22, bottom: 22 + ranks * line};
    const x = {
      at: linear(0, end * unit[1], box.left, box.right),
      ticks: ticks(0, end * unit[1], Math.max(2, width / 130)),
      title: unit[0] + ' from the step’s begin'
    };
    const y = {
      at: (rank) => box.top + (rank + 0.5) * line,
      ticks: ticks(0, ranks - 1, Math.min(ranks, 8)).filter(Number.isInteger),
      title: 'pipeline rank'
    };
    const picture = drawn('svg', {
      viewBox: `0 0 ${width} ${box.bottom + 42}`,
      class: 'plot',
      role: 'img',
      'aria-label': `What ${ranks} ranks of a pipeline compute over ${
          duration(end)}. The figures are in the table below.`
    });
    picture.append(...axes(box, x, y));
    for (const [rank, stage, micro, part, from, to] of slots) {
      const rect = drawn('rect', {
        class: 'slot ' + parts[part][0] + (Math.floor(stage / ranks) % 2 ? ' other' : ''),
        x: x.at(from * unit[1]),
        y: box.top + rank * line + 1,
        width: Math.max(0.5, x.at(to * unit[1]) - x.at(from * unit[1])),
        height: line - 2
      });
      rect.addEventListener(
          'pointermove',
          (event) => showTip(
              event.clientX, event.clientY,
              element('div', {}, `stage ${stage}: ${parts[part][1]} of micro-batch ${micro}`),
              element('div', {}, `${duration(from)} to ${duration(to)}`)));
      rect.addEventListener('pointerleave', hideTip);
      picture.append(rect);
    }
    return picture;
  });
}

/// The heading, the plot's place and its figures; `draw` is called when they are on the page.
function pipelineParts(row) {
  const slots = row.detail && row.detail.pipeline;
  if (!slots) return null;
  const ranks = slots.at(-1)[0] + 1, end = Math.max(...slots.map((slot) => slot[5]));
  const holder = element('div', {});
  const figures = [...Array(ranks).keys()].map((rank) => {
    const own = slots.filter((slot) => slot[0] === rank);
    const busy = (back) => own.filter((slot) => slot[3] > 0 === back)
                               .reduce((sum, slot) => sum + slot[5] - slot[4], 0);
    const stages = [...new Set(own.map((slot) => slot[1]))].sort((a, b) => a - b);
    return [
      String(rank), stages.join(', '), duration(busy(false)), duration(busy(true)),
      duration(end - busy(false) - busy(true)), percent(1 - (busy(false) + busy(true)) / end)
    ];
  });
  const section = element(
      'div', {}, element('h3', {}, 'The pipeline’s schedule'),
      element(
          'p', {class: 'legend'},
          ...parts.filter((_, part) => slots.some((slot) => slot[3] === part))
              .flatMap(
                  ([kind, words]) => [element('span', {class: 'swatch ' + kind}), words + ' ']),
          '(recomputation included); what is empty is waited for (an estimate)'),
      holder,
      behind(
          'What each rank of the pipeline does',
          [
            {name: 'rank'}, {name: 'stages', text: true}, {name: 'forward'}, {name: 'backward'},
            {name: 'waits'}, {name: 'share'}
          ],
          figures));
  return {section, draw: () => pipelinePlot(holder, slots, ranks, end)};
}
