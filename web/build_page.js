// node build_page.js SOURCE BUILD: puts the page together from web/page/, the report's parts and
// the core.
'use strict';
const fs = require('fs');
const path = require('path');
const zlib = require('zlib');

const [source, build] = process.argv.slice(2);
const page = (name) => fs.readFileSync(path.join(source, 'web/page', name), 'utf8');
const part = (name) => fs.readFileSync(path.join(source, 'reports/html', name), 'utf8');
const built = (name) => fs.readFileSync(path.join(build, name));

// In the order in which one uses the other.
const reportScripts = [
  'elements.js', 'figures.js', 'charts.js', 'pareto.js', 'ranking.js', 'timeline.js', 'phases.js',
  'layout.js', 'selected.js', 'compare.js', 'sections.js', 'theme.js'
];
const pageScripts = ['asker.js', 'link.js', 'controls.js', 'explore.js'];

/// A string literal that can stand in a <script>.
const literal = (text) => JSON.stringify(text).replaceAll('<', '\\u003c');

function policy(scripts) {
  // No source for anything else: the page can send nothing anywhere, whatever its scripts would do.
  return `default-src 'none'; script-src ${scripts} 'wasm-unsafe-eval'; style-src ${
      scripts}; worker-src blob:; base-uri 'none'; form-action 'none'`;
}

const filled = (text, values) => text.replace(/\{\{(\w+)\}\}/g, (_, name) => values[name]);

async function main() {
  const loadCore = require(path.resolve(build, 'ac-advisor-core.js'));
  const wasm = built('ac-advisor-core.wasm');
  const core = await loadCore({wasmBinary: wasm});
  const ask = new Function(page('ask.js') + 'return ask;')();
  const described = JSON.stringify(ask(core, {do: 'options'})).replaceAll('<', '\\u003c');

  const packed = zlib.gzipSync(wasm, {level: 9});
  const worker =
      '"use strict";\n' + built('ac-advisor-core.js') + page('ask.js') + page('worker.js');
  const coreScript = `const described = ${described};\nconst workerText = ${literal(worker)};\n` +
      `const coreText = "${packed.toString('base64')}";\n`;
  const script =
      '"use strict";\n' + reportScripts.map(part).join('') + pageScripts.map(page).join('');
  const style = part('report.css') + page('page.css');
  const sections = filled(part('sections.html'), {verdict: 'Planning…'});

  fs.writeFileSync(path.join(build, 'ac-advisor.html'), filled(page('page.html'), {
                     sections,
                     policy: policy('\'nonce-page\''),
                     style: `<style nonce="page">\n${style}</style>`,
                     script: `<script nonce="page">\n${coreScript}${script}</script>`
                   }));

  const site = path.join(build, 'site');
  fs.rmSync(site, {recursive: true, force: true});
  fs.mkdirSync(site);
  const write = (name, text) => fs.writeFileSync(path.join(site, name), text);
  write('index.html', filled(page('page.html'), {
          sections,
          policy: policy('\'self\''),
          style: '<link rel="stylesheet" href="page.css">',
          script: '<script src="core.js" defer></script>\n<script src="page.js" defer></script>'
        }));
  write('page.css', style);
  write('page.js', script);
  write('core.js', coreScript);

  const kib = (n) => (n / 1024).toFixed(0) + ' KiB';
  console.log(`core ${kib(wasm.length)}, ${kib(packed.length)} packed; the page as one file ${
      kib(fs.statSync(path.join(build, 'ac-advisor.html')).size)}`);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
