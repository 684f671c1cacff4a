// One question to the core: JSON in and out, as web/core/answer.hpp says.

function ask(core, question) {
  const text = JSON.stringify(question);
  const length = core.lengthBytesUTF8(text) + 1;
  const at = core._malloc(length);
  core.stringToUTF8(text, at, length);
  try {
    return JSON.parse(core.UTF8ToString(core._answer(at)));
  } finally {
    core._free(at);
  }
}
