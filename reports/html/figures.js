// The page's data, and how its figures are told.

let data = null;

/// What the page shows from now on.
function take(given) {
  data = given;
  for (const [index, row] of data.rows.entries()) {
    row.index = index;
    row.options = {...data.base, ...row.options};
    row.perThousand = row.tokens > 0 ? 1000 / row.tokens : null;
    row.allLaunches = row.launches.reduce((sum, n) => sum + n, 0);
    row.measured = row.source === 'measured';
  }
}

const gibUnit = 2 ** 30;
const locale = 'en-US';
const decimals = [0, 1, 2, 3].map(
    (n) => new Intl.NumberFormat(locale, {minimumFractionDigits: n, maximumFractionDigits: n}));

const known = (x) => typeof x === 'number' && Number.isFinite(x);

/// "7.29 GiB", "12.5 MiB": three or four digits.
function size(bytes) {
  if (!known(bytes)) return '–';
  if (bytes === 0) return '0';
  for (const [unit, bytesOf] of [['GiB', gibUnit], ['MiB', 2 ** 20], ['KiB', 2 ** 10]]) {
    if (Math.abs(bytes) < bytesOf && unit !== 'KiB') continue;
    const n = bytes / bytesOf;
    return decimals[Math.abs(n) >= 100 ? 1 : 2].format(n) + ' ' + unit;
  }
  return '–';
}

const gib = (bytes) => (known(bytes) ? decimals[3].format(bytes / gibUnit) : '–');
const signed = (text, positive) => (positive ? '+' : '') + text.replace('-', '−');
const signedGib = (bytes) => signed(gib(bytes), bytes > 0);
const whole = (n) => (known(n) ? decimals[0].format(n) : '–');
const percent = (share, digits = 1) =>
    (known(share) ? signed(decimals[digits].format(100 * share), false) + ' %' : '–');
const signedPercent = (share) =>
    (known(share) ? signed(decimals[1].format(100 * share), share > 0) + ' %' : '–');

/// Three digits, in s, ms or µs.
function duration(seconds) {
  if (!known(seconds)) return '–';
  if (seconds === 0) return '0';
  for (const [unit, scale] of [['s', 1], ['ms', 1e-3], ['µs', 1e-6]]) {
    const n = seconds / scale;
    if (Math.abs(n) < 1 && unit !== 'µs') continue;
    return decimals[Math.abs(n) >= 100 ? 0 : Math.abs(n) >= 10 ? 1 : 2].format(n) + ' ' + unit;
  }
  return '–';
}

/// "1.24 T", for FLOPs and bytes of traffic.
function large(x) {
  if (!known(x)) return '–';
  for (const [unit, scale] of [
           ['E', 1e18], ['P', 1e15], ['T', 1e12], ['G', 1e9], ['M', 1e6], ['k', 1e3]])
    if (Math.abs(x) >= scale) return decimals[2].format(x / scale) + ' ' + unit;
  return decimals[0].format(x) + ' ';
}

const words = (name) => name.replaceAll('_', ' ');
const timeWord = (row) => row.timeWord || 'estimated';
const fileOf = (row) => data.files[row.file] || {};

/// MODEL as a shell takes it.
function shellWord(text) {
  return /^[\w./:=,+%@-]+$/.test(text) ? text : '\'' + text.replaceAll('\'', '\'\\\'\'') + '\'';
}

/// A command that plans, explains or exports this very configuration; null where options cannot say
/// it.
function command(row, verb, more = '') {
  if (!row.command) return null;
  const name = data.model || shellWord(fileOf(row).model || 'MODEL');
  return 'ac-advisor ' + verb + ' ' + name + ' ' + row.command + (more ? ' ' + more : '');
}

/// What is left of the device for reserved memory.
function budget(row) {
  const [, usable, context, communication, margin, engine] = row.fit;
  const left = usable - context - communication - margin - engine;
  return usable > 0 && left > 0 ? left : null;
}
