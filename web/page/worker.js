// Runs the core beside the page. It is told {core} once, base64 of what gzip has packed; then
// questions as {id, question}. It tells {id, answer}, and {id, done, of} while a sweep runs.

async function unpacked(text) {
  const packed = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const plain = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Uint8Array(await new Response(plain).arrayBuffer());
}

let core = null;
let asked = null;

self.onmessage = ({data}) => {
  if (data.core !== undefined) {
    core = unpacked(data.core).then(
        (wasmBinary) => loadCore(
            {wasmBinary, progress: (done, of) => self.postMessage({id: asked, done, of})}));
    return;
  }
  core.then((loaded) => {
        asked = data.id;
        return ask(loaded, data.question);
      })
      .then(
          (answer) => self.postMessage({id: data.id, answer}),
          // What the core cannot tell of itself: no memory left, no WebAssembly.
          (error) => self.postMessage({id: data.id, failed: String(error)}));
};
