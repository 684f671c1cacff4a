// Starts the report.

take(JSON.parse(byId('data').textContent));
theme();
const about = data.files.map(
    (file) => `${file.name ? `${file.name}: ${file.model}, ` : ''}${
        large(file.parameters).replace('G', 'B').trim()} parameters, on ${file.device}`);
byId('about').textContent = [...new Set([...about, ...data.about])].slice(0, 4).join('; ');
byId('foot').textContent = `Made by ac-advisor ${data.version}. This file needs no network.`;
showSections(
    Number((location.hash.match(/^#row-(\d+)$/) || [])[1]),
    (index) => history.replaceState(null, '', '#row-' + index));
document.documentElement.dataset.ready = String(Math.round(performance.now()));
