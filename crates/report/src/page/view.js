'use strict';
// Keeps a served page up to date: if the server reports new results, the page is fetched and
// replaced, and everything that was open, selected or focused stays so.
(() => {
  const CONTROLS = 'a, button, input, select, summary';
  const main = () => document.querySelector('main');
  const { base, campaign } = main().dataset;
  let [busy, again] = [false, false];

  const kept = () => {
    const folds = [...document.querySelectorAll('details')].map((fold) => fold.open);
    const chosen = [...document.querySelectorAll('input[type=radio]:checked')]
      .map((radio) => [radio.name, radio.value]);
    const focused = [...main().querySelectorAll(CONTROLS)].indexOf(document.activeElement);
    return { folds, chosen, focused };
  };

  const restore = ({ folds, chosen, focused }) => {
    document.querySelectorAll('details').forEach((fold, number) => { fold.open = !!folds[number]; });
    for (const radio of document.querySelectorAll('input[type=radio]')) {
      if (chosen.some(([name, value]) => name === radio.name && value === radio.value)) {
        radio.checked = true;
      }
    }
    if (focused >= 0) main().querySelectorAll(CONTROLS)[focused]?.focus({ preventScroll: true });
  };

  const refresh = async () => {
    if (busy) { again = true; return; }
    busy = true;
    try {
      const answer = await fetch(window.location.href, { cache: 'no-store' });
      if (answer.ok) {
        const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
        const before = kept();
        main().replaceWith(document.adoptNode(page.querySelector('main')));
        window.dfsbench.begin();
        restore(before);
      }
    } catch { /* The server has ended: the page stays as it is. */ }
    busy = false;
    if (again) { again = false; refresh(); }
  };

  const news = new EventSource(`${base}events?since=${main().dataset.version}`);
  news.addEventListener('change', (event) => {
    const changed = event.data.split(' ');
    if (!campaign || campaign.split(' ').some((one) => changed.includes(one))) refresh();
  });
})();
