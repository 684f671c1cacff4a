// node ask_core.js BUILD QUESTIONS ANSWERS: a file of questions to the page's core, in one process.
'use strict';
const fs = require('fs');
const path = require('path');

const [build, questions, answers] = process.argv.slice(2);
const source = path.join(__dirname, '../../web/page/ask.js');
const ask = new Function(fs.readFileSync(source, 'utf8') + 'return ask;')();
require(path.resolve(build, 'ac-advisor-core.js'))({
  wasmBinary: fs.readFileSync(path.join(build, 'ac-advisor-core.wasm'))
}).then((core) => {
  const list = JSON.parse(fs.readFileSync(questions, 'utf8'));
  fs.writeFileSync(answers, JSON.stringify(list.map((question) => ask(core, question))));
});
