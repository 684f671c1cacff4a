// What the plots share: scales, axes, the tooltip, keys, and drawing anew when the width changes.

/// Round values from 0 or below to `most`, about `count` of them.
function ticks(least, most, count) {
  const span = most - least;
  if (!(span > 0)) return [least];
  const rough = span / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((n) => n * power).find((n) => n >= rough) || 10 * power;
  const list = [];
  for (let n = Math.ceil(least / step) * step; n <= most + step / 1e6; n += step) list.push(n);
  return list;
}

/// The same for sizes, in powers of two of a unit that is told once.
function sizeScale(most) {
  const [unit, bytes] =
      [['GiB', gibUnit], ['MiB', 2 ** 20], ['KiB', 2 ** 10]].find(([, n]) => most >= n) || ['B', 1];
  return {unit, of: (n) => n / bytes, bytes: (n) => n * bytes};
}

const plainTick = (n) => new Intl.NumberFormat(locale, {maximumSignificantDigits: 4}).format(n);

function linear(least, most, from, to) {
  const span = most - least || 1;
  return (value) => from + (value - least) / span * (to - from);
}

/// Lines and words of both axes. `box` is {left, right, top, bottom} in pixels.
function axes(box, x, y) {
  const parts = [];
  for (const n of y.ticks) {
    const at = y.at(n);
    parts.push(
        drawn('line', {class: 'grid', x1: box.left, x2: box.right, y1: at, y2: at}),
        drawn('text', {class: 'tick end', x: box.left - 6, y: at + 4}, plainTick(n)));
  }
  for (const n of x.ticks) {
    const at = x.at(n);
    parts.push(
        drawn('line', {class: 'grid', x1: at, x2: at, y1: box.top, y2: box.bottom}),
        drawn('text', {class: 'tick middle', x: at, y: box.bottom + 16}, plainTick(n)));
  }
  parts.push(
      drawn('text', {class: 'axis end', x: box.right, y: box.bottom + 33}, x.title),
      drawn('text', {class: 'axis', x: 4, y: 12}, y.title));
  return parts;
}

/// Calls draw(width) into `holder`, now and whenever its width changes.
function chart(holder, draw) {
  let width = 0;
  const again = () => {
    const now = Math.max(260, Math.round(holder.clientWidth));
    if (now === width) return;
    width = now;
    holder.replaceChildren(draw(width));
  };
  new ResizeObserver(again).observe(holder);
  again();
}

function showTip(x, y, ...lines) {
  const tip = byId('tip');
  tip.replaceChildren(...lines);
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const left = x + 14 + box.width > innerWidth ? Math.max(4, x - box.width - 14) : x + 14;
  tip.style.left = left + 'px';
  tip.style.top = Math.max(4, Math.min(y - box.height / 2, innerHeight - box.height - 4)) + 'px';
}

function hideTip() {
  byId('tip').hidden = true;
}

/// Arrow keys, Home and End move `at` in a list of `length`; Enter and Space choose.
function keys(length, at, moved, chosen = () => {}) {
  const goes = {ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 10, PageDown: -10};
  return (event) => {
    let next = at();
    if (event.key in goes)
      next += goes[event.key];
    else if (event.key === 'Home')
      next = 0;
    else if (event.key === 'End')
      next = length - 1;
    else if (event.key === 'Enter' || event.key === ' ')
      chosen();
    else if (event.key === 'Escape')
      hideTip();
    else
      return;
    event.preventDefault();
    if (event.key !== 'Enter' && event.key !== ' ' && event.key !== 'Escape')
      moved(Math.max(0, Math.min(length - 1, next)));
  };
}

/// Where an element of a chart is on the screen, for a tooltip that a key brings up.
function onScreen(picture, x, y) {
  const box = picture.getBoundingClientRect();
  const scale = box.width / picture.viewBox.baseVal.width;
  return [box.left + x * scale, box.top + y * scale];
}

/// Categories by their names, as data.categories has them.
const categoriesOf = (names) => names.map((name) => data.categories.indexOf(name));

function swatch(category) {
  return element('span', {class: 'swatch c' + category, 'aria-hidden': 'true'});
}
