// The page's state as the address's fragment, which no browser sends anywhere.

async function through(stream, bytes) {
  return new Uint8Array(
      await new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer());
}

async function packed(text) {
  const bytes = await through(new CompressionStream('deflate-raw'), new TextEncoder().encode(text));
  return btoa(Array.from(bytes, (b) => String.fromCharCode(b)).join(''))
      .replaceAll('+', '-')
      .replaceAll('/', '_')
      .replaceAll('=', '');
}

async function unpackedText(text) {
  const bytes =
      Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), (c) => c.charCodeAt(0));
  return new TextDecoder().decode(await through(new DecompressionStream('deflate-raw'), bytes));
}

/// A step as "model=llama-3.2-1b&--ac=full". A file of the user's is in it whole.
async function stepText(step) {
  const words = new URLSearchParams();
  if (step.model.sample) {
    words.set('model', step.model.sample);
  } else {
    words.set('name', step.model.name);
    words.set('origin', step.model.origin);
    words.set('config', await packed(step.model.text));
  }
  if (step.as) words.set('as', step.as);
  for (const [name, text] of step.options) words.append(name, text);
  return words.toString();
}

/// Null where the text names no model.
async function stepOf(text) {
  const words = new URLSearchParams(text);
  const step = {model: null, as: words.get('as') || '', options: []};
  if (words.has('model')) step.model = {sample: words.get('model')};
  if (words.has('config'))
    step.model = {
      text: await unpackedText(words.get('config')),
      origin: words.get('origin') || 'config.json',
      name: words.get('name') || 'config'
    };
  for (const [name, value] of words)
    if (name.startsWith('--')) step.options.push([name, value]);
  return step.model && step;
}

async function stateText(state) {
  const words = new URLSearchParams(await stepText(state.step));
  if (state.pinned) words.set('pinned', await stepText(state.pinned));
  if (state.view === 'sweep') words.set('view', 'sweep');
  return words.toString();
}

async function stateOf(text) {
  const words = new URLSearchParams(text);
  const step = await stepOf(text);
  return step && {
    step,
    pinned: words.has('pinned') ? await stepOf(words.get('pinned')) : null,
    view: words.get('view') === 'sweep' ? 'sweep' : 'plan'
  };
}
