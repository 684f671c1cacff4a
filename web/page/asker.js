// Questions to the core in a worker. Blob workers keep the page's policy, and work from file://
// too.

function newWorker() {
  const url = URL.createObjectURL(new Blob([workerText], {type: 'text/javascript'}));
  const worker = new Worker(url);
  URL.revokeObjectURL(url);
  worker.postMessage({core: coreText});
  return worker;
}

/// Asks one question at a time; of those that wait, the newest wins and the others are never asked.
function asker(answered, progress = () => {}) {
  let worker = null, busy = null, waiting = null, id = 0;
  const stop = () => {
    if (worker) worker.terminate();
    worker = busy = waiting = null;
  };
  const next = () => {
    if (busy || !waiting) return;
    [busy, waiting] = [waiting, null];
    worker.postMessage({id: busy.id, question: busy.question});
  };
  const start = () => {
    worker = newWorker();
    worker.onmessage = ({data}) => {
      if (!busy || data.id !== busy.id) return;
      if (data.done !== undefined) {
        progress(data.done, data.of);
        return;
      }
      const {question} = busy;
      busy = null;
      if (data.failed !== undefined) {  // a core that failed is not asked again
        const after = waiting;
        stop();
        answered({error: 'this page: ' + data.failed}, question);
        if (after) ask(after.question);
        return;
      }
      answered(data.answer, question);
      next();
    };
    worker.onerror = (event) => {
      const question = busy && busy.question;
      stop();
      answered({error: 'this page: ' + event.message}, question);
    };
  };
  const ask = (question) => {
    if (!worker) start();
    waiting = {id: ++id, question};
    next();
  };
  return {ask, stop, idle: () => !busy && !waiting, asked: () => id};
}
