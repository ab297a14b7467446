'use strict';
// Sorts, filters and pages the tables of results. Without it, every table can still be read. It
// adds text only, so nothing from the results becomes markup.
(() => {
  const PAGE_ROWS = 200, LEVELS_MAX = 60;
  const UNITS = {
    'B': 1, 'KiB': 1024, 'MiB': 2 ** 20, 'GiB': 2 ** 30, 'TiB': 2 ** 40,
    'ns': 1, 'µs': 1e3, 'ms': 1e6, 's': 1e9, 'min': 6e10, 'h': 3.6e12,
    'kB/s': 1e3, 'MB/s': 1e6, 'kop/s': 1e3, 'Mop/s': 1e6,
    'kbit/s': 1e3, 'Mbit/s': 1e6, 'Gbit/s': 1e9, 'MHz': 1e3, 'GHz': 1e6,
  };
  const MARKS = { valid: '✓', degraded: '!', invalid: '✕' };

  const make = (name, className, text) => {
    const element = document.createElement(name);
    if (className) element.className = className;
    if (text !== undefined) element.textContent = text;
    return element;
  };

  // Number of a cell; null if it is a word or empty.
  const quantity = (text) => {
    // A date is ordered as text.
    if (/^\d{4}-\d\d-\d\d/.test(text)) return null;
    const found = /^(?:[▲▼]\s*)?[±+]?([0-9]+(?:\.[0-9]+)?)\s*([^\s(]*)/.exec(text);
    return found && Number(found[1]) * (UNITS[found[2]] ?? 1);
  };

  const order = (one, other) => {
    const [a, b] = [quantity(one), quantity(other)];
    if (a !== null && b !== null) return a - b;
    if (a !== null || b !== null) return a !== null ? -1 : 1;
    return one.localeCompare(other);
  };

  // Text of each column; a cell that spans several columns belongs to the first.
  const texts = (row) => [...row.cells].flatMap((cell) => [
    [...cell.childNodes].map((part) => part.textContent).join(' ').replace(/\s+/g, ' ').trim(),
    ...Array(cell.colSpan - 1).fill(''),
  ]);

  // Creates a row that is not in the document yet.
  const built = (cells, heads) => {
    const row = make('tr', 'first');
    cells.forEach((text, column) => {
      const kind = heads[column].dataset.kind;
      const cell = make(column ? 'td' : 'th', heads[column].className, kind ? undefined : text);
      if (!column) cell.scope = 'row';
      if (kind === 'rate') {
        cell.textContent = text;
        cell.classList.add(quantity(text) === null ? 'reason' : 'rate');
      }
      if (kind === 'verdict') {
        cell.append(make('span', `verdict ${text}`, `${MARKS[text] ?? ''} ${text}`));
      }
      if (kind === 'codes') {
        cell.classList.add('codes');
        for (const code of text.split(', ').filter(Boolean)) {
          const link = make('a', '', code);
          link.href = `#caveat-${code.split(' ')[0]}`;
          cell.append(link, ' ');
        }
      }
      row.append(cell);
    });
    return row;
  };

  // All rows: those of the document or, if there are too many for it, those stored as data.
  const gathered = (part, body, heads) => {
    const kept = part.querySelector('script[type="application/json"]');
    if (!kept) {
      const verdict = heads.findIndex((head) => head.dataset.kind === 'verdict');
      return [...body.rows].map((row) => {
        const cells = texts(row);
        if (verdict >= 0) cells[verdict] = cells[verdict].replace(/^\S /, '');
        return { row, cells };
      });
    }
    const { words, rows } = JSON.parse(kept.textContent);
    return rows.map((row) => ({
      row: null,
      cells: row.map((cell, column) => (words[column] ? words[column][cell] : cell)),
    }));
  };

  const labelled = (name, control) => {
    const label = make('label', '', `${name} `);
    label.append(control);
    return label;
  };

  const choice = (name, levels, chosen, change) => {
    const select = make('select');
    for (const level of ['', ...levels]) {
      const option = make('option', '', level || 'all');
      option.value = level;
      select.append(option);
    }
    select.value = chosen ?? '';
    select.addEventListener('change', () => change(select.value));
    return labelled(name, select);
  };

  // The rows of each table, for the chooser of the panels.
  const tables = {};

  const enhance = (part, states) => {
    const table = part.querySelector('table');
    const [body, heads] = [table.tBodies[0], [...table.tHead.rows[0].cells]];
    const names = heads.map((head) => head.textContent.trim());
    const all = gathered(part, body, heads);
    if (all.length < 2) return;
    tables[part.id] = { names, heads, all };
    const state = (states[part.id] ??= { filters: {}, text: '', by: null, down: false, page: 0 });
    const bar = make('div', 'filters');
    bar.setAttribute('role', 'group');
    bar.setAttribute('aria-label', 'Filter the table');
    const status = make('p', 'status');
    status.setAttribute('role', 'status');
    const pages = make('p', 'pages');
    const [back, next] = ['previous rows', 'next rows'].map((name) => make('button', '', name));
    back.type = next.type = 'button';
    pages.append(back, ' ', next);

    const matching = () => {
      const wanted = state.text.toLowerCase();
      const rows = all.filter(({ cells }) => Object.entries(state.filters)
        .every(([name, level]) => !level || cells[names.indexOf(name)] === level)
        && (!wanted || cells.join(' ').toLowerCase().includes(wanted)));
      const by = names.indexOf(state.by);
      if (by < 0) return rows;
      const known = rows.filter(({ cells }) => quantity(cells[by]) !== null || !/^[–-]?$/.test(cells[by]));
      const none = rows.filter((row) => !known.includes(row));
      known.sort((a, b) => (state.down ? -1 : 1) * order(a.cells[by], b.cells[by]));
      return [...known, ...none];
    };

    const show = () => {
      const rows = matching();
      const last = Math.max(0, Math.ceil(rows.length / PAGE_ROWS) - 1);
      state.page = Math.min(Math.max(state.page, 0), last);
      const from = state.page * PAGE_ROWS;
      const shown = rows.slice(from, from + PAGE_ROWS);
      for (const one of shown) one.row ??= built(one.cells, heads);
      body.replaceChildren(...shown.map((one) => one.row));
      table.classList.toggle('sorted', state.by !== null);
      heads.forEach((head, column) => {
        const way = state.down ? 'descending' : 'ascending';
        head.setAttribute('aria-sort', names[column] === state.by ? way : 'none');
      });
      const count = (number) => number.toLocaleString('en');
      const span = last ? `rows ${count(from + 1)} to ${count(from + shown.length)} of ` : '';
      const whole = rows.length < all.length ? `${count(rows.length)} of ${count(all.length)} rows`
        : `${count(all.length)} rows`;
      const sorted = state.by === null ? '' : `, by ${state.by}, ${state.down ? 'descending' : 'ascending'}`;
      status.textContent = span + whole + sorted;
      pages.hidden = !last;
      [back.disabled, next.disabled] = [state.page === 0, state.page === last];
    };
    const changed = () => { state.page = 0; show(); };
    back.addEventListener('click', () => { state.page -= 1; show(); });
    next.addEventListener('click', () => { state.page += 1; show(); });

    heads.forEach((head, column) => {
      const button = make('button', 'sort', names[column]);
      button.type = 'button';
      button.addEventListener('click', () => {
        // Ascending, descending, then the order of the campaign again.
        if (state.by !== names[column]) [state.by, state.down] = [names[column], false];
        else if (!state.down) state.down = true;
        else [state.by, state.down] = [null, false];
        changed();
      });
      head.replaceChildren(button);
      if (!('factor' in head.dataset)) return;
      const levels = [...new Set(all.map(({ cells }) => cells[column]))].sort(order);
      if (levels.length < 2 || levels.length > LEVELS_MAX) return;
      bar.append(choice(names[column], levels, state.filters[names[column]], (level) => {
        state.filters[names[column]] = level;
        changed();
      }));
    });
    const search = make('input');
    search.type = 'search';
    search.value = state.text;
    search.addEventListener('input', () => { state.text = search.value; changed(); });
    bar.append(labelled('rows with', search));
    part.before(bar, status);
    part.after(pages);
    part.parentElement.querySelectorAll('.without-script').forEach((note) => { note.hidden = true; });
    show();
  };

  // Long folded tables are the text of a `noscript`, which costs a browser nothing until they are
  // opened. Their markup is the page's own, as a browser without scripts would parse it. A page
  // that was fetched for a live view has already parsed it.
  const unfold = ({ target }) => {
    const kept = target.open && target.querySelector(':scope > noscript');
    if (!kept) return;
    const read = kept.firstElementChild ? kept
      : new DOMParser().parseFromString(kept.textContent, 'text/html').body;
    kept.replaceWith(...read.childNodes);
  };
  // The event does not bubble, and folds come and go in a live view.
  document.addEventListener('toggle', unfold, true);

  // Called again by a live view for a table that has changed.
  const states = {};
  const begin = () => {
    document.querySelectorAll('.sortable').forEach((part) => enhance(part, states));
    const tools = { make, quantity, order, labelled };
    window.dfsbench.nameCells(tools);
    window.dfsbench.explore(tables['figures-0'], tools, states);
  };
  window.dfsbench.begin = begin;
  begin();
})();
