// The button that goes from the system's theme to light and to dark.

function theme() {
  const names = ['system', 'light', 'dark'];
  const button = byId('theme');
  let at = 0;
  button.addEventListener('click', () => {
    at = (at + 1) % names.length;
    if (at)
      document.documentElement.dataset.theme = names[at];
    else
      delete document.documentElement.dataset.theme;
    button.textContent = 'Theme: ' + names[at];
  });
}
