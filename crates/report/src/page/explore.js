'use strict';
// Redraws the panels of a matrix by the settings that the reader selects. Uses the rows of the
// results table, and the same marks and scales as the static panels (`picture/plot.rs`).
window.dfsbench = (() => {
  const [TOP, GROUND, AXIS, MARGIN] = [18, 200, 38, 3];
  const [COLOURS_MAX, PANELS_MAX, COLUMNS_MAX, TICKS_MAX, DOTS_MAX] = [6, 24, 6, 5, 2000];
  const MEASURES = ['rate', 'p50', 'p99', 'max'];
  const MARKS = [
    'M-4,0 a4,4 0 1,0 8,0 a4,4 0 1,0 -8,0 Z', 'M-5,0 L0,-5 L5,0 L0,5 Z', 'M-4,-4 H4 V4 H-4 Z',
    'M-5,4 L0,-5 L5,4 Z', 'M-4,-4 L4,4 M-4,4 L4,-4', 'M-5,-4 L0,5 L5,-4 Z',
  ];
  const SCALES = [
    [/B\/s/, [[1e3, 'kB/s'], [1e6, 'MB/s']]],
    [/op\/s/, [[1, 'op/s'], [1e3, 'kop/s'], [1e6, 'Mop/s']]],
    [/./, [[1, 'ns'], [1e3, 'µs'], [1e6, 'ms'], [1e9, 's']]],
  ];

  const draw = (name, attributes, ...parts) => {
    const element = document.createElementNS(document.querySelector('svg').namespaceURI, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...parts);
    return element;
  };
  const across = (at) => `${(MARGIN + at * (100 - 2 * MARGIN) / 100).toFixed(2)}%`;
  const up = (at) => (TOP + GROUND * (1 - at / 100)).toFixed(1);
  const mark = (number, x, y, ...parts) => draw('g', { transform: `translate(0 ${y})` }, ...parts,
    draw('svg', { x, overflow: 'visible' },
      draw('path', { class: `mark s${number}`, d: MARKS[number] })));
  const median = (sorted) => (sorted[(sorted.length - 1) >> 1] + sorted[sorted.length >> 1]) / 2;

  // Scales values to a unit that suits the largest of them.
  const scaleOf = (text, most) => {
    const units = SCALES.find(([form]) => form.test(text))[1];
    const [divisor, unit] = units.filter(([least]) => least <= most).pop() ?? units[0];
    return { unit, shown: (value) => `${Number((value / divisor).toPrecision(3))}`, divisor };
  };

  // Evenly spaced from 0, for heights.
  const evenAxis = (text, most) => {
    const { unit, shown, divisor } = scaleOf(text, most);
    const end = (most || 1) * 1.02;
    const least = end / divisor / 5;
    const power = 10 ** Math.floor(Math.log10(least));
    const step = [1, 2, 5, 10].find((factor) => factor * power >= least) * power * divisor;
    const ticks = [];
    for (let value = 0; value <= end; value += step) ticks.push([value / end * 100, shown(value)]);
    ticks[ticks.length - 1][1] += ` ${unit}`;
    return { at: (value) => value / end * 100, ticks, shown: (value) => `${shown(value)} ${unit}` };
  };

  // Whole decades, for response times and rates on the horizontal axis.
  const decadeAxis = (text, values) => {
    const first = Math.floor(Math.log10(Math.max(1, Math.min(...values))));
    const last = Math.max(first + 1, Math.ceil(Math.log10(Math.max(1, ...values))));
    const at = (value) => (Math.log10(Math.max(1, value)) - first) / (last - first) * 100;
    const ticks = [];
    const step = Math.ceil((last - first) / (TICKS_MAX - 1));
    for (let decade = first; decade <= last; decade += step) {
      const { unit, shown } = scaleOf(text, 10 ** decade);
      ticks.push([at(10 ** decade), `${shown(10 ** decade)} ${unit}`]);
    }
    return { at, ticks };
  };

  // Evenly spaced levels.
  const levelAxis = (levels) => {
    const at = (level) => (levels.length < 2 ? 50 : levels.indexOf(level) * 100 / (levels.length - 1));
    const step = Math.max(1, Math.ceil((levels.length - 1) / (TICKS_MAX - 1)));
    return { at, ticks: levels.filter((_, n) => n % step === 0).map((level) => [at(level), level]) };
  };

  const panel = (title, rows, plan) => {
    const { x, y, xAxis, yAxis, colours, colour, value } = plan;
    const svg = draw('svg', {
      class: 'chart', role: 'img', width: '100%', height: TOP + GROUND + AXIS,
    }, draw('title', {}, title), draw('rect', {
      class: 'band', x: 0, y: TOP, width: '100%', height: GROUND, rx: 2,
    }));
    for (const [at] of yAxis.ticks) {
      svg.append(draw('line', { class: 'grid', x1: 0, x2: '100%', y1: up(at), y2: up(at) }));
    }
    for (const [at, label] of xAxis.ticks) {
      const [anchor, place] = at < 5 ? ['start', '0%'] : at > 95 ? ['end', '100%'] : ['middle', across(at)];
      svg.append(draw('line', {
        class: 'grid', x1: across(at), x2: across(at), y1: TOP, y2: TOP + GROUND,
      }), draw('text', { class: 'tick', x: place, y: TOP + GROUND + 15, 'text-anchor': anchor }, label));
    }
    svg.append(draw('text', {
      class: 'tick', x: '50%', y: TOP + GROUND + 31, 'text-anchor': 'middle',
    }, x));
    const described = [];
    colours.forEach((level, number) => {
      const mine = rows.filter((row) => !colour || value(row, colour) === level);
      const group = draw('g', { class: 'lines' });
      const place = (row) => xAxis.at(plan.isMeasure ? plan.number(row, x) : value(row, x));
      const joined = new Map();
      for (const row of mine) {
        const at = place(row);
        joined.set(at, [...joined.get(at) ?? [], plan.number(row, y)]);
        if (plan.hasDots) {
          group.append(draw('circle', {
            class: `point s${number}`, cx: across(at), cy: up(yAxis.at(plan.number(row, y))), r: 2.2,
          }, draw('title', {}, plan.nameOf(row))));
        }
      }
      if (!plan.isMeasure) {
        const points = [...joined].sort(([a], [b]) => a - b)
          .map(([at, values]) => [at, median(values.sort((a, b) => a - b))]);
        points.slice(1).forEach(([at, middle], before) => group.append(draw('line', {
          class: `line s${number}`, x1: across(points[before][0]), y1: up(yAxis.at(points[before][1])),
          x2: across(at), y2: up(yAxis.at(middle)),
        })));
        for (const [at, middle] of points) {
          const text = `${level ? `${level}: ` : ''}median ${yAxis.shown(middle)}`;
          group.append(mark(number, across(at), up(yAxis.at(middle)), draw('title', {}, text)));
        }
        described.push(`${level} ${points.map(([, middle]) => yAxis.shown(middle)).join(', ')}`.trim());
      } else described.push(`${level} ${mine.length} results`.trim());
      svg.append(group);
    });
    for (const [at, label] of yAxis.ticks) {
      svg.append(draw('text', { class: 'tick scale', x: 2, y: (up(at) - 3).toFixed(1) }, label));
    }
    svg.firstChild.after(draw('desc', {}, described.join('; ')));
    return svg;
  };

  const key = (number) => draw('svg', { width: 28, height: 14, 'aria-hidden': 'true' },
    draw('g', { class: 'lines', transform: 'translate(0 7)' },
      draw('line', { class: `line s${number}`, x1: 0, x2: 28, y1: 0, y2: 0 }),
      draw('path', { class: `mark s${number}`, transform: 'translate(14 0)', d: MARKS[number] })));

  // Draws one kind of pass with the selected settings; returns the number of panels and results
  // shown.
  const redraw = (part, choice, { names, all }, { make, quantity, order }) => {
    const column = (name) => names.indexOf(name);
    const value = (row, name) => row.cells[column(name)];
    const number = (row, name) => quantity(value(row, name));
    const { x, y, colour } = choice;
    const isMeasure = MEASURES.includes(x);
    const counting = all.filter((row) => value(row, 'pass') === part.dataset.pass
      && value(row, 'verdict') !== 'invalid' && number(row, y) !== null);
    // A row that a setting does not apply to has no position.
    const chosen = [x, colour, choice.columns, choice.rows].filter(Boolean);
    const rows = counting.filter((row) => chosen.every((name) => value(row, name) !== '–')
      && (!isMeasure || number(row, x) !== null));
    const levelsOf = (name) => [...new Set(rows.map((row) => value(row, name)))].sort(order);
    const values = rows.map((row) => number(row, y));
    const most = values.reduce((one, other) => Math.max(one, other), 0);
    const unitOf = (name) => (rows.length ? value(rows[0], name) : '');
    const colours = colour ? levelsOf(colour).slice(0, COLOURS_MAX) : [''];
    const factors = names.filter((name) => choice.factors.includes(name) && name !== 'pass');
    const plan = {
      x, y, colour, colours, value, number, isMeasure, hasDots: rows.length <= DOTS_MAX,
      yAxis: evenAxis(unitOf(y), most),
      xAxis: isMeasure ? decadeAxis(unitOf(x), rows.map((row) => number(row, x))) : levelAxis(levelsOf(x)),
      nameOf: (row) => `${factors.map((name) => `${name} ${value(row, name)}`).join(', ')}: `
        + `${value(row, y)}${isMeasure ? `, ${x} ${value(row, x)}` : ''}`,
    };
    const facets = [choice.rows, choice.columns].filter(Boolean);
    let panels = [['', rows]];
    for (const facet of facets) {
      const levels = levelsOf(facet);
      panels = panels.flatMap(([title, some]) => levels.map((level) => [
        `${title}${title && ', '}${facet} ${level}`, some.filter((row) => value(row, facet) === level),
      ]));
    }
    const left = panels.length - PANELS_MAX;
    const box = part.querySelector('.facets');
    const columns = choice.columns ? levelsOf(choice.columns).length : facets.length ? panels.length : 1;
    box.style.setProperty('--columns', Math.max(1, Math.min(columns, COLUMNS_MAX)));
    box.replaceChildren(...panels.slice(0, PANELS_MAX).map(([title, some]) => {
      const figure = make('figure');
      if (title) figure.append(make('figcaption', '', title));
      figure.append(panel(`${part.dataset.pass}: ${y} by ${x}${title && `, ${title}`}`, some, plan));
      return figure;
    }));
    part.querySelector('.keys')?.remove();
    if (colour) {
      const keys = make('p', 'legend keys', `${colour}:`);
      colours.forEach((level, at) => {
        const entry = make('span');
        entry.append(key(at), ` ${level}`);
        keys.append(entry);
      });
      const more = levelsOf(colour).length - colours.length;
      if (more > 0) keys.append(` and ${more} more`);
      box.before(keys);
    }
    const without = counting.length - rows.length;
    const shown = Math.min(panels.length, PANELS_MAX);
    return `${shown} ${shown === 1 ? 'panel' : 'panels'} of ${rows.length} results`
      + (without > 0 ? `; ${without} have no value of a chosen setting` : '')
      + (left > 0 ? `; ${left} more panels: choose a setting with fewer levels` : '');
  };

  // Adds the chooser above the panels; the selection survives a refresh of the page.
  const explore = (table, tools, states) => {
    const section = document.querySelector('.explore');
    const parts = section ? [...section.querySelectorAll('.multiples')] : [];
    if (!parts.length || !table) return;
    const { names, heads, all } = table;
    const factors = names.filter((name, column) => 'factor' in heads[column].dataset
      && !['pass', 'verdict'].includes(name)
      && new Set(all.map(({ cells }) => cells[column])).size > 1);
    const measures = MEASURES.filter((name) => names.includes(name));
    const { x, colour = '', columns = '', rows = '' } = parts[0].dataset;
    const isChanged = 'explore' in states;
    const choice = (states.explore ?? { y: 'rate', x, colour, columns, rows });
    choice.factors = factors;
    const bar = tools.make('div', 'filters chooser');
    bar.setAttribute('role', 'group');
    bar.setAttribute('aria-label', 'Choose what the panels show');
    const status = tools.make('p', 'status');
    status.setAttribute('role', 'status');
    const show = () => {
      states.explore = choice;
      status.textContent = parts.map((part) => `${part.dataset.pass}: `
        + redraw(part, choice, table, tools)).join('; ');
    };
    for (const [name, options, none] of [
      ['y', measures], ['x', [...factors, ...measures]], ['colour', factors, 'one colour'],
      ['columns', factors, 'no columns'], ['rows', factors, 'no rows'],
    ]) {
      const select = tools.make('select');
      for (const option of none ? ['', ...options] : options) {
        const element = tools.make('option', '', option || none);
        element.value = option;
        select.append(element);
      }
      select.value = choice[name];
      select.addEventListener('change', () => { choice[name] = select.value; show(); });
      bar.append(tools.labelled(name, select));
    }
    parts[0].before(bar, status);
    if (isChanged) show();
  };

  // Shows the full combination of the cell under the pointer or with focus. Tab stops once at each
  // map, arrow keys move within it.
  const nameCells = ({ make }) => {
    for (const svg of document.querySelectorAll('svg.map')) {
      const cells = [...svg.querySelectorAll('.pick')];
      const readout = make('p', 'legend readout', 'Point at a cell, or step through them with the arrow keys.');
      svg.after(readout);
      svg.setAttribute('role', 'group');
      const at = (cell, way) => Number(cell.querySelector('rect').getAttribute(way).replace('%', ''));
      const focus = (cell) => {
        for (const one of cells) one.setAttribute('tabindex', one === cell ? 0 : -1);
        cell.focus();
      };
      for (const cell of cells) {
        const name = cell.querySelector('title').textContent;
        cell.setAttribute('role', 'img');
        cell.setAttribute('aria-label', name);
        cell.setAttribute('tabindex', cell === cells[0] ? 0 : -1);
        for (const event of ['pointerenter', 'focus']) {
          cell.addEventListener(event, () => { readout.textContent = name; });
        }
        cell.addEventListener('keydown', (event) => {
          const [along, other, sign] = {
            ArrowLeft: ['x', 'y', -1], ArrowRight: ['x', 'y', 1],
            ArrowUp: ['y', 'x', -1], ArrowDown: ['y', 'x', 1],
          }[event.key] ?? [];
          if (!along) return;
          event.preventDefault();
          const far = (one) => (at(one, along) - at(cell, along)) * sign;
          const next = cells.filter((one) => at(one, other) === at(cell, other) && far(one) > 0)
            .sort((a, b) => far(a) - far(b))[0];
          if (next) focus(next);
        });
      }
    }
  };

  return { explore, nameCells };
})();
