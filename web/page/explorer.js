'use strict';
// The explorer's page. State is in the address, as the flags of `loadline plan`; the server answers /plan for it.

const purposes = [['weights', 'weights'], ['master_weights', 'master weights'], ['grads', 'gradients'], ['optim_state', 'optimizer state'], ['kv_blocks', 'keys and values'],
  ['activations', 'activations'], ['comm_buffers', 'communication'], ['staging', 'staging'], ['workspace', 'workspace'], ['runtime', 'driver and runtime']];
const powers = (from, to) => { const all = []; for (let n = from; n <= to; n *= 2) all.push(n); return all; };
const trains = ['train', 'finetune'], serves = ['serve'], all = ['train', 'finetune', 'serve'];

// controls are what can be set. An empty value leaves a setting to the search. steps are a slider's, options a choice's.
const controls = [
  { group: 'Job' },
  { flag: 'model', name: 'Model', kind: 'select', tasks: all },
  { flag: 'task', name: 'Task', kind: 'choices', tasks: all, options: [['serve', 'serve'], ['finetune', 'fine-tune'], ['train', 'train']] },
  { flag: 'seq', name: 'Sequence length', kind: 'slider', tasks: trains, steps: powers(256, 1 << 20), preset: 4096, unit: 'tokens' },
  { flag: 'global-batch', name: 'Global batch', kind: 'slider', tasks: trains, steps: ['', ...powers(1, 4096)], unit: 'sequences', free: 'one micro-batch a rank' },
  { flag: 'context', name: 'Context', kind: 'slider', tasks: serves, steps: powers(256, 1 << 20), preset: 4096, unit: 'tokens' },
  { flag: 'concurrency', name: 'Concurrent sequences', kind: 'slider', tasks: serves, steps: powers(1, 1024), preset: 1 },
  { group: 'Machine' },
  { flag: 'card', name: 'Accelerator', kind: 'select', tasks: all },
  { flag: 'cards', name: 'Cards a node', kind: 'slider', tasks: all, steps: [1, 2, 4, 8, 16], preset: 1 },
  { flag: 'nodes', name: 'Nodes', kind: 'slider', tasks: all, steps: powers(1, 128), preset: 1 },
  { flag: 'memory', name: 'Limit of a card', kind: 'slider', tasks: all, unit: 'GiB', free: 'all that it has' },
  { group: 'Numbers' },
  { flag: 'precision', name: 'Precision', kind: 'choices', tasks: trains, options: [['', 'search'], ['bf16', 'BF16'], ['fp16', 'FP16'], ['fp8', 'FP8']] },
  { flag: 'adapter', name: 'Adapter', kind: 'choices', tasks: ['finetune'], options: [['', 'search'], ['none', 'none'], ['lora', 'LoRA'], ['qlora', 'QLoRA']] },
  { flag: 'adapter-rank', name: 'Adapter rank', kind: 'slider', tasks: ['finetune'], steps: powers(4, 256), preset: 16 },
  { flag: 'optimizer', name: 'Optimizer', kind: 'select', tasks: trains },
  { flag: 'quant', name: 'Weights', kind: 'select', tasks: serves },
  { flag: 'kv-type', name: 'Keys and values', kind: 'choices', tasks: serves, options: [['', 'search'], ['f16', 'F16'], ['fp8', 'FP8'], ['q8_0', 'Q8_0'], ['q4_0', 'Q4_0']] },
  { group: 'Memory techniques' },
  { flag: 'zero', name: 'ZeRO stage', kind: 'choices', tasks: trains, options: [['', 'search'], ['0', '0'], ['1', '1'], ['2', '2'], ['3', '3']] },
  { flag: 'recompute', name: 'Recompute', kind: 'choices', tasks: trains, options: [['', 'search'], ['none', 'none'], ['selective', 'selective'], ['full', 'full']] },
  { flag: 'offload', name: 'Offload', kind: 'choices', tasks: trains, options: [['', 'search'], ['none', 'none'], ['optimizer', 'states'], ['optimizer,weights', '+ weights']] },
  { flag: 'loss-head', name: 'Loss head', kind: 'choices', tasks: trains, options: [['', 'search'], ['full', 'full'], ['chunked', 'chunked']] },
  { flag: 'batch', name: 'Micro-batch', kind: 'slider', tasks: trains, steps: ['', ...powers(1, 64)], free: 'search' },
  { flag: 'gpu-layers', name: 'Layers on the cards', kind: 'slider', tasks: serves, free: 'search' },
  { group: 'Parallelism' },
  { flag: 'tp', name: 'Tensor', kind: 'slider', tasks: all, steps: ['', ...powers(1, 16)], free: 'search' },
  { flag: 'pp', name: 'Pipeline', kind: 'slider', tasks: all, steps: ['', ...powers(1, 64)], free: 'search' },
  { flag: 'cp', name: 'Context', kind: 'slider', tasks: trains, steps: ['', ...powers(1, 32)], free: 'search' },
  { flag: 'ep', name: 'Expert', kind: 'slider', tasks: trains, steps: ['', ...powers(1, 64)], free: 'search' },
  { group: 'Search' },
  { flag: 'framework', name: 'Framework', kind: 'select', tasks: all },
  { flag: 'objective', name: 'Objective', kind: 'choices', tasks: all, options: [['', 'speed'], ['cost', 'cost'], ['fewest', 'fewest cards']] },
];

let choices, state = {}, answer = null, chosen = 0, busy = null, query = '';
const form = document.getElementById('controls'), main = document.getElementById('result');

// el makes an element; attributes that are functions become listeners.
function el(tag, attributes = {}, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attributes)) {
    if (typeof v === 'function') e.addEventListener(k, v);
    else if (k === 'style') Object.assign(e.style, v);
    else if (v === true) e.setAttribute(k, '');
    else if (v !== false && v !== undefined) e.setAttribute(k, v);
  }
  e.append(...children.filter(c => c !== undefined && c !== null && c !== ''));
  return e;
}

function bytes(n) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let i = 0;
  while (Math.abs(n) >= 1024 && i < units.length - 1) { n /= 1024; i++; }
  return `${n >= 100 ? n.toFixed(0) : n >= 10 ? n.toFixed(1) : n.toFixed(2)} ${units[i]}`;
}

function number(n) {
  if (n >= 1e6) return `${(n / 1e6).toPrecision(3)} M`;
  if (n >= 1e4) return `${(n / 1e3).toPrecision(3)} k`;
  return n >= 1000 ? n.toFixed(0) : String(Number(n.toPrecision(3)));
}

function seconds(s) {
  if (s < 1e-3) return `${(1e6 * s).toPrecision(3)} µs`;
  if (s < 1) return `${(1e3 * s).toPrecision(3)} ms`;
  return s < 600 ? `${s.toPrecision(3)} s` : `${(s / 60).toPrecision(3)} min`;
}

// readAddress takes the state from the address; the server says which model and machine its names mean.
async function readAddress() {
  const from = new URLSearchParams(location.search), names = new URLSearchParams();
  for (const k of ['model', 'hardware']) if (from.get(k)) names.set(k, from.get(k));
  choices = await (await fetch(`choices?${names}`)).json();
  state = {};
  for (const c of controls) if (c.flag) state[c.flag] = from.get(c.flag) ?? (c.preset !== undefined ? String(c.preset) : '');
  Object.assign(state, { model: choices.model, card: choices.card, cards: String(choices.cards), nodes: String(choices.nodes), task: from.get('task') || choices.task });
  if (!choices.frameworks[state.task]) state.task = choices.task;
}

// asked is the state as the flags of plan: what does not apply, and what is left to the search, is absent.
function asked() {
  const out = new URLSearchParams();
  out.set('model', state.model);
  out.set('hardware', `${+state.nodes > 1 ? state.nodes + 'x' : ''}${+state.nodes > 1 || +state.cards > 1 ? state.cards + 'x' : ''}${state.card.replaceAll(' ', '-')}`);
  for (const c of controls) {
    if (!c.flag || ['model', 'card', 'cards', 'nodes'].includes(c.flag) || !applies(c) || !state[c.flag]) continue;
    if (c.flag === 'adapter-rank' && state.adapter === 'none') continue;
    out.set(c.flag, state[c.flag]);
  }
  return out;
}

function applies(c) {
  if (c.hidden && c.hidden()) return false;
  return c.tasks.includes(state.task);
}

const card = () => choices.hardware.find(c => c.name === state.card);
const model = () => choices.models.find(m => m.name === state.model);

function stepsOf(c) {
  let steps = c.steps;
  if (c.flag === 'memory') {
    const most = card() ? Math.floor(card().usable_bytes / 2 ** 30) : 80;
    const each = Math.max(1, Math.ceil(most / 80));
    steps = [];
    for (let n = Math.min(2, most); n < most; n += each) steps.push(`${n}GiB`);
    steps.push('');
  }
  if (c.flag === 'gpu-layers') {
    steps = [''];
    for (let n = 0; n <= (model() ? model().layers : 32); n++) steps.push(n);
  }
  steps = steps.map(String);
  const now = state[c.flag];
  if (now !== '' && !steps.includes(now)) { // a value from an address that is between the steps
    const n = parseFloat(now), at = steps.findIndex(s => s !== '' && parseFloat(s) > n);
    steps.splice(at < 0 ? steps.length : at, 0, now);
  }
  return steps;
}

function optionsOf(c) {
  switch (c.flag) {
    case 'model': return choices.models.map(m => [m.name, `${m.name} · ${number(m.parameters / 1e9)} B`]);
    case 'card': return choices.hardware.map(x => [x.name, `${x.name} · ${bytes(x.memory_bytes)}`]);
    case 'framework': return [['', 'search all'], ...choices.frameworks[state.task].map(f => [f, f])];
    case 'quant': return [['', 'search'], ...choices.quants.map(f => [f, f])];
    case 'optimizer': return [['', 'search'], ...choices.optimizers.map(f => [f, f])];
  }
  return c.options;
}

function shown(c, value) {
  if (value === '') return c.free || 'search';
  const n = c.flag === 'memory' ? String(parseFloat(value)) : Number(value).toLocaleString('en');
  return c.unit ? `${n} ${c.unit}` : n;
}

// build draws the controls anew; it is for changes of the task, the card or the model, and keeps the focus.
function build() {
  const focus = document.activeElement && document.activeElement.id;
  form.replaceChildren();
  let box = null;
  for (const c of controls) {
    if (c.group) { box = el('fieldset', {}, el('legend', {}, c.group)); form.append(box); continue; }
    if (!applies(c)) continue;
    const id = `c-${c.flag}`, value = state[c.flag];
    if (c.kind === 'slider') {
      const steps = stepsOf(c), at = Math.max(0, steps.indexOf(value));
      const out = el('output', { for: id, class: steps[at] === '' ? 'free' : '' }, shown(c, steps[at]));
      const input = el('input', { type: 'range', id, min: 0, max: steps.length - 1, step: 1, 'aria-valuetext': shown(c, steps[at]), input() {
        const v = steps[+input.value];
        out.textContent = shown(c, v);
        out.className = v === '' ? 'free' : '';
        input.setAttribute('aria-valuetext', shown(c, v));
        set(c.flag, v);
      } });
      input.value = at;
      box.append(el('div', { class: 'field' }, el('label', { for: id }, c.name), out, input));
    } else if (c.kind === 'select') {
      const options = optionsOf(c);
      if (!options.some(o => o[0] === value)) options.unshift([value, value || 'search']);
      const input = el('select', { id, change() { set(c.flag, input.value); } }, ...options.map(o => el('option', { value: o[0], selected: o[0] === value }, o[1])));
      box.append(el('div', { class: 'field' }, el('label', { for: id }, c.name), input));
    } else {
      const name = el('span', { class: 'name', id: `${id}-name` }, c.name);
      const radios = optionsOf(c).map(([v, text], i) => el('label', {}, el('input', { type: 'radio', name: c.flag, id: `${id}-${i}`, value: v, checked: v === value, change() { set(c.flag, v); } }), el('span', {}, text)));
      box.append(el('div', { class: 'field' }, name, el('div', { class: 'choices', role: 'radiogroup', 'aria-labelledby': `${id}-name` }, ...radios)));
    }
  }
  for (const f of form.querySelectorAll('fieldset')) if (f.children.length === 1) f.remove();
  if (focus) document.getElementById(focus)?.focus();
}

function set(flag, value) {
  state[flag] = value;
  if (flag === 'card') state.memory = '';
  if (flag === 'model') state['gpu-layers'] = '';
  if (flag === 'task' && !choices.frameworks[value].includes(state.framework)) state.framework = '';
  if (['task', 'card', 'model'].includes(flag)) build();
  chosen = 0;
  history.replaceState(null, '', `?${asked()}`);
  ask();
}

// ask fetches the answer to the state. While one question is on its way, only the last of the next waits.
async function ask() {
  query = String(asked());
  if (busy) return;
  busy = true;
  main.setAttribute('aria-busy', 'true');
  document.body.classList.add('waiting');
  let now;
  do {
    now = query;
    try {
      const response = await fetch(`plan?${now}`, { headers: { Accept: 'application/json' } });
      answer = await response.json();
    } catch (e) {
      answer = { error: 'the server does not answer', try: 'is loadline plan --serve still running?' };
    }
    if (now === query) draw();
  } while (now !== query);
  busy = null;
  main.setAttribute('aria-busy', 'false');
  document.body.classList.remove('waiting');
}

function draw() {
  const verdict = document.getElementById('verdict'), figure = document.getElementById('figure'), details = document.getElementById('details'), tabs = document.getElementById('plans');
  if (answer.error) {
    verdict.className = 'over';
    const fix = /^--([a-z-]+) (\S+)$/.exec(answer.try || '');
    verdict.replaceChildren(el('h2', {}, el('b', {}, 'That cannot be planned')), el('p', {}, answer.error),
      fix && fix[1] in state ? el('p', {}, el('button', { type: 'button', click() { state[fix[1]] = fix[2]; build(); set(fix[1], fix[2]); } }, `Use ${fix[1]} ${fix[2]}`)) : el('p', {}, answer.try || ''));
    for (const e of [figure, details, tabs]) e.replaceChildren();
    return;
  }
  chosen = Math.min(chosen, answer.plans.length - 1);
  const plan = answer.plans[chosen];
  verdict.className = answer.fits ? '' : 'over';
  verdict.replaceChildren(
    el('h2', {}, el('b', {}, answer.fits ? 'Fits' : 'Does not fit'), answer.fits || plan.peak_bytes > answer.limit_bytes ? `: ${bytes(plan.peak_bytes)} of ${bytes(answer.limit_bytes)} a card` : plan.host_bytes > 0 ? ' into host memory' : ': too near the line'),
    el('div', { class: 'figures' }, figureOf(number(plan.tokens_per_second), 'tokens a second'), figureOf(seconds(plan.step_seconds), state.task === 'serve' ? 'between tokens' : 'a step'),
      figureOf(`${(100 * plan.oom_chance).toFixed(plan.oom_chance > 0.1 ? 0 : 1)}%`, 'chance to run out')),
    el('p', {}, `${answer.fits ? 'Next step up: ' : ''}${answer.next}.`));
  tabs.replaceChildren(...(answer.plans.length > 1 ? answer.plans.map((p, i) => el('button', {
    type: 'button', role: 'tab', id: `plan-${i}`, 'aria-selected': String(i === chosen), 'aria-controls': 'figure', tabindex: i === chosen ? 0 : -1,
    click() { chosen = i; draw(); },
    keydown(e) {
      const to = { ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: answer.plans.length - 1 }[e.key];
      if (to === undefined) return;
      e.preventDefault();
      chosen = (to + answer.plans.length) % answer.plans.length;
      draw();
      document.getElementById(`plan-${chosen}`).focus();
    },
  }, el('b', {}, `${i === 0 ? 'Best' : `Next ${i}`}: ${p.options.framework}`), el('small', {}, p.line.replace(/^[^,]*, /, '')), el('small', {}, `${bytes(p.peak_bytes)} · ${number(p.tokens_per_second)} tokens/s`))) : []));
  drawBars(figure, plan);
  drawDetails(details, plan);
}

const figureOf = (value, name) => el('div', {}, el('b', {}, value), el('span', {}, name));

// ranksOf lists a bar for every rank, or for every kind of rank where ranks are too many.
function ranksOf(plan) {
  const kinds = plan.stages, each = Math.max(1, Math.round(plan.ranks / kinds.length));
  if (plan.ranks <= 32) {
    const out = [];
    for (const s of kinds) for (let i = 0; i < each; i++) out.push({ stage: s, label: plan.ranks <= 16 ? String(out.length) : kinds.length > 1 ? (i ? '' : s.name.replace(/ of .*/, '')) : out.length % 8 ? '' : String(out.length), title: `rank ${out.length}${kinds.length > 1 ? `, ${s.name}` : ''}` });
    return out;
  }
  return kinds.map((s, i) => ({ stage: s, label: kinds.length > 16 ? String(i + 1) : `${each} × ${kinds.length > 1 ? `stage ${i + 1}` : 'rank'}`, title: `${each} ranks of ${s.name}` }));
}

// drawBars moves the bars that are there, so that they glide, and makes what is missing.
function drawBars(figure, plan) {
  const ranks = ranksOf(plan), limit = answer.limit_bytes, top = 1.1 * Math.max(limit, plan.peak_range[1]), percent = n => `${(100 * n / top).toFixed(3)}%`;
  if (!figure.querySelector('.plot')) {
    figure.replaceChildren(el('div', { class: 'stage' }, el('div', { class: 'plot', role: 'img' }, el('div', { class: 'scale' }), el('div', { class: 'bars' }), el('div', { class: 'limit' }, el('span'))),
      el('table', { class: 'key' })));
  }
  const plot = figure.querySelector('.plot'), bars = figure.querySelector('.bars');
  plot.setAttribute('aria-label', `${answer.fits ? 'Under' : 'Over'} the load line: ${ranks.length} bars, the highest ${bytes(plan.peak_bytes)}, the load line at ${bytes(limit)}. The table has the purposes.`);
  let unit = 2 ** Math.floor(Math.log2(top / 4));
  if (top / unit > 6.5) unit *= 2;
  const ticks = [];
  for (let n = 0; n < top; n += unit) ticks.push(el('div', { class: 'rule', style: { bottom: percent(n) } }), el('div', { class: 'tick', style: { bottom: percent(n) } }, n === 0 ? '0' : bytes(n).replace('.00', '').replace('.0', '')));
  figure.querySelector('.scale').replaceChildren(...ticks);
  const line = figure.querySelector('.limit');
  line.style.bottom = percent(limit);
  line.firstChild.textContent = `load line ${bytes(limit)}`;
  while (bars.children.length > ranks.length) bars.lastChild.remove();
  while (bars.children.length < ranks.length) {
    bars.append(el('div', { class: 'bar' }, ...[...purposes].reverse().map(([p]) => el('i', { 'data-purpose': p, style: { background: `var(--${p}, var(--other))`, bottom: '0', height: '0' } })), el('i', { class: 'spread' }), el('em')));
  }
  bars.classList.toggle('groups', plan.ranks > 16 && plan.ranks <= 32 && plan.stages.length > 1);
  ranks.forEach((rank, i) => {
    const bar = bars.children[i], s = rank.stage;
    let at = 0;
    bar.title = `${rank.title}: ${bytes(s.peak_bytes)}`;
    for (const [p, name] of [...purposes].reverse()) {
      const n = Math.max(0, s.by_purpose[p] || 0), seg = bar.querySelector(`[data-purpose=${p}]`);
      seg.style.bottom = percent(at);
      seg.style.height = percent(n);
      seg.title = `${rank.title}: ${name} ${bytes(n)}`;
      at += n;
    }
    const spread = bar.querySelector('.spread'), scale = s.peak_bytes / plan.peak_bytes;
    spread.style.bottom = percent(plan.peak_range[0] * scale);
    spread.style.height = percent((plan.peak_range[1] - plan.peak_range[0]) * scale);
    bar.querySelector('em').textContent = rank.label;
  });
  const rows = purposes.filter(([p]) => plan.by_purpose[p] > 0).map(([p, name]) => el('tr', {}, el('td', {}, el('i', { style: { background: `var(--${p}, var(--other))` } }), name), el('td', {}, bytes(plan.by_purpose[p]))));
  const more = [];
  if (plan.host_bytes > 0) more.push(el('tr', {}, el('td', {}, 'host memory of a node'), el('td', {}, bytes(plan.host_bytes))));
  if (plan.nvme_bytes > 0) more.push(el('tr', {}, el('td', {}, 'NVMe of a node'), el('td', {}, bytes(plan.nvme_bytes))));
  figure.querySelector('.key').replaceChildren(el('caption', {}, plan.stages.length > 1 ? 'The worst rank at its peak' : 'Every rank at its peak'), el('tbody', {}, ...rows,
    el('tr', { class: 'sum' }, el('td', {}, 'peak'), el('td', {}, bytes(plan.peak_bytes))), el('tr', {}, el('td', {}, '8 chances in 10'), el('td', {}, `${bytes(plan.peak_range[0])} – ${bytes(plan.peak_range[1])}`)),
    el('tr', {}, el('td', {}, 'load line'), el('td', {}, bytes(answer.limit_bytes))), ...more));
}

function drawDetails(details, plan) {
  const open = details.querySelector('details')?.open;
  const why = (plan.path || []).map(line => {
    const at = line.indexOf(' (');
    return at > 0 && line.endsWith(')') ? el('li', {}, line.slice(0, at), ' ', el('small', {}, line.slice(at + 2, -1))) : el('li', {}, line);
  });
  details.replaceChildren(el('h3', {}, 'Why'), el('ol', { class: 'why' }, ...why), ...frontier(plan), el('h3', {}, 'The same in a terminal'), el('pre', { class: 'wrap', tabindex: 0 }, answer.command),
    ...(plan.files && plan.files.length ? [el('details', { open: Boolean(open) }, el('summary', {}, `Configuration files (${plan.files.map(f => f.name).join(', ')})`), ...plan.files.flatMap(f => [el('h3', {}, f.name), el('pre', { tabindex: 0 }, f.body)]))] : []),
    el('p', { class: 'free' }, `${answer.searched.toLocaleString('en')} plans looked at for ${answer.hardware}.`));
}

// frontier draws the plans that none beats in both memory and speed.
function frontier(plan) {
  const points = answer.frontier || [];
  if (points.length < 2) return [];
  const ns = 'http://www.w3.org/2000/svg', wide = 640, high = 170, left = 60, foot = 24;
  const s = (tag, attributes, text) => { const e = document.createElementNS(ns, tag); for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v); if (text) e.textContent = text; return e; };
  const fast = Math.max(...points.map(p => p.tokens_per_second)), x = n => left + (wide - left - 8) * n / answer.limit_bytes, y = v => high - (high - 14) * v / fast;
  const svg = s('svg', { viewBox: `0 0 ${wide} ${high + foot}`, class: 'frontier', role: 'img', 'aria-label': `Speed against memory: ${points.length} plans, from ${bytes(points[0].peak_bytes)} to ${bytes(points[points.length - 1].peak_bytes)}` });
  svg.append(s('path', { d: `M${left} 0V${high}H${wide}`, fill: 'none', stroke: 'var(--edge)' }), s('path', { d: points.map((p, i) => `${i ? 'L' : 'M'}${x(p.peak_bytes).toFixed(1)} ${y(p.tokens_per_second).toFixed(1)}`).join(''), fill: 'none', stroke: 'var(--weights)', 'stroke-width': 1.5 }),
    s('path', { d: `M${x(answer.limit_bytes)} 0V${high}`, stroke: 'var(--line)', 'stroke-width': 2 }));
  for (const p of points) {
    const dot = s('circle', { cx: x(p.peak_bytes), cy: y(p.tokens_per_second), r: p.name === plan.line ? 6 : 4, fill: p.name === plan.line ? 'var(--line)' : 'var(--weights)' });
    dot.append(s('title', {}, `${p.name}: ${bytes(p.peak_bytes)}, ${number(p.tokens_per_second)} tokens/s`));
    svg.append(dot);
  }
  svg.append(s('text', { x: left - 6, y: y(fast) + 4, 'text-anchor': 'end' }, number(fast)), s('text', { x: left - 6, y: high, 'text-anchor': 'end' }, '0'), s('text', { x: left, y: high + 16 }, 'peak of a rank: 0'),
    s('text', { x: wide, y: high + 16, 'text-anchor': 'end' }, bytes(answer.limit_bytes)));
  return [el('h3', {}, 'Tokens a second against memory, of plans that none beats in both'), svg];
}

async function start() {
  await readAddress();
  build();
  history.replaceState(null, '', `?${asked()}`);
  await ask();
  document.getElementById('share').addEventListener('click', async e => {
    let said = 'Copied';
    try { await navigator.clipboard.writeText(location.href); } catch { said = 'The address bar has it'; }
    e.target.textContent = said;
    setTimeout(() => { e.target.textContent = 'Copy address'; }, 1500);
  });
  addEventListener('popstate', async () => { await readAddress(); build(); ask(); });
  form.addEventListener('submit', e => e.preventDefault());
}
start();
