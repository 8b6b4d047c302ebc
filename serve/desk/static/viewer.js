// A page upright with the boxes of its fields: zoom, pan, turn. Pictures come by the authorised route and stay in this page.
import { api, h, say, shadow } from './desk.js';

const pages = new Map();
export function picture(certificateId, page) {
  const path = `/v1/certificates/${certificateId}/pages/${page}.png`;
  if (!pages.has(path)) {
    if (pages.size > 24) { const [first, old] = pages.entries().next().value; pages.delete(first); old.then((o) => URL.revokeObjectURL(o.url), () => {}); }
    const found = api(path).then(async ({ body }) => {
      const url = URL.createObjectURL(body), image = new Image();
      image.src = url; await image.decode();
      return { url, width: image.naturalWidth, height: image.naturalHeight };
    });
    found.catch(() => pages.delete(path));
    pages.set(path, found);
  }
  return pages.get(path);
}

const points = (box) => box.map((point) => point.join(',')).join(' ');
// Page pixels to upright pixels: the page turned clockwise by 0, 90, 180 or 270 degrees.
function turning(shape, degrees) {
  const { width: w, height: g } = shape, turn = ((degrees % 360) + 360) % 360;
  const moves = { 0: [w, g, ''], 90: [g, w, `translate(${g} 0) rotate(90)`], 180: [w, g, `translate(${w} ${g}) rotate(180)`], 270: [g, w, `translate(0 ${w}) rotate(270)`] };
  return moves[turn];
}
function turned(shape, degrees, [x, y]) {
  const turn = ((degrees % 360) + 360) % 360;
  return turn === 90 ? [shape.height - y, x] : turn === 180 ? [shape.width - x, shape.height - y] : turn === 270 ? [y, shape.width - x] : [x, y];
}
export const quarter = (degrees) => Math.round((degrees || 0) / 90) * 90;

// The part of a page where a field stands, upright.
export function crop(shape, degrees, box, label) {
  const at = box.map((point) => turned(shape, degrees, point));
  const xs = at.map((p) => p[0]), ys = at.map((p) => p[1]), margin = 0.4 * Math.max(12, Math.min(Math.max(...ys) - Math.min(...ys), 60));
  const [left, top] = [Math.min(...xs) - margin, Math.min(...ys) - margin];
  const view = [left, top, Math.max(...xs) + margin - left, Math.max(...ys) + margin - top];
  const move = turning(shape, degrees)[2], ratio = view[2] / view[3], height = view[3] > 120 ? 110 : 44;
  return h('svg', { class: 'crop', viewBox: view.join(' '), role: 'img', 'aria-label': label,
    style: `width: min(100%, ${Math.ceil(height * ratio)}px); aspect-ratio: ${ratio}` },
    h('g', { transform: move || null }, h('image', { href: shape.url, width: shape.width, height: shape.height })));
}

class Viewer extends HTMLElement {
  constructor() {
    super();
    this.turn = 0; this.zoom = 1; this.middle = null; this.lit = null; this.certificate = null;
    this.holder = h('div', { class: 'holder', tabindex: '0', role: 'group', 'aria-label': say('证照图像，可缩放、拖动', 'picture of the page') });
    this.tabs = h('div', { class: 'pages' });
    const tool = (text, name, act) => h('button', { title: name, 'aria-label': name, onclick: act }, text);
    shadow(this, VIEWER_STYLE, h('div', { class: 'bar' }, this.tabs, h('span', { class: 'space' }),
      tool('−', say('缩小 (-)', 'zoom out (-)'), () => this.scale(1 / 1.4)), tool('+', say('放大 (+)', 'zoom in (+)'), () => this.scale(1.4)),
      tool('⟳', say('旋转 (o)', 'turn (o)'), () => this.rotate()), tool(say('适合', 'Fit'), say('适合窗口 (0)', 'fit (0)'), () => this.fit())), this.holder);
    this.holder.addEventListener('wheel', (event) => {
      if (!event.ctrlKey && this.zoom <= 1 && !event.shiftKey) return;
      event.preventDefault(); this.scale(event.deltaY < 0 ? 1.15 : 1 / 1.15);
    }, { passive: false });
    this.holder.addEventListener('pointerdown', (event) => this.drag(event));
    this.holder.addEventListener('dblclick', () => (this.zoom > 1 ? this.fit() : this.scale(2)));
  }

  // certificate: {certificate_id, pages, rotation, fields}
  async show(certificate, page) {
    const other = this.certificate?.certificate_id !== certificate.certificate_id;
    this.certificate = certificate;
    this.page = page ?? (other ? certificate.pages[0] : this.page);
    if (other) { this.turn = quarter(certificate.rotation); this.zoom = 1; this.middle = null; this.lit = null; }
    this.tabs.replaceChildren(...(certificate.pages.length < 2 ? [] : certificate.pages.map((number) => h('button', {
      'aria-pressed': String(number === this.page), onclick: () => this.show(this.certificate, number) }, say(`第 ${number + 1} 页`, `page ${number + 1}`)))));
    try {
      this.shape = await picture(certificate.certificate_id, this.page);
    } catch (error) {
      this.holder.replaceChildren(h('p', { class: 'bad' }, error.message));
      return;
    }
    if (this.certificate === certificate) this.draw();
  }

  draw() {
    const [width, height, move] = turning(this.shape, this.turn);
    this.size = [width, height];
    this.middle ??= [width / 2, height / 2];
    const boxes = Object.entries(this.certificate.fields).filter(([, f]) => f.box && f.page === this.page).map(([name, field]) => {
      const failed = (field.validations || []).some((v) => v.outcome === 'fail');
      return h('polygon', { points: points(field.box), class: `box${failed ? ' failed' : ''}${name === this.lit ? ' lit' : ''}`, 'data-field': name,
        onpointerenter: () => this.tell(name), onclick: () => this.tell(name, true) }, h('title', {}, field.label));
    });
    const seals = (this.certificate.qr || []).filter((c) => c.page === this.page).map((c) => h('polygon', { points: points(c.box), class: 'qr' }));
    this.svg = h('svg', { role: 'img', 'aria-label': say('证照页面与字段位置', 'the page and the places of its fields') },
      h('g', { transform: move || null }, h('image', { href: this.shape.url, width: this.shape.width, height: this.shape.height }), seals, boxes));
    this.holder.style.setProperty('--ratio', `${width} / ${height}`);
    this.holder.replaceChildren(this.svg);
    this.frame();
  }

  tell(name, chosen = false) {
    this.light(name);
    this.dispatchEvent(new CustomEvent('field', { detail: { name, chosen } }));
  }

  frame() {
    if (!this.svg) return;
    const [width, height] = this.size, [w, g] = [width / this.zoom, height / this.zoom];
    this.middle = [Math.min(Math.max(this.middle[0], w / 2), width - w / 2), Math.min(Math.max(this.middle[1], g / 2), height - g / 2)];
    this.svg.setAttribute('viewBox', `${this.middle[0] - w / 2} ${this.middle[1] - g / 2} ${w} ${g}`);
    this.holder.classList.toggle('zoomed', this.zoom > 1);
  }

  scale(by) { if (this.svg) { this.zoom = Math.min(12, Math.max(1, this.zoom * by)); this.frame(); } }
  fit() { this.zoom = 1; this.middle = null; if (this.svg) this.draw(); }
  rotate() { this.turn += 90; this.fit(); }

  // Light the box of a field; `near`: also bring it into view when zoomed.
  light(name, near = false) {
    this.lit = name;
    const field = this.certificate?.fields[name];
    if (field?.box && field.page !== this.page && near) { this.show(this.certificate, field.page); return; }
    for (const box of this.svg?.querySelectorAll('polygon.box') || []) box.classList.toggle('lit', box.dataset.field === name);
    if (near && field?.box && this.zoom > 1 && this.shape) {
      const at = field.box.map((point) => turned(this.shape, this.turn, point));
      this.middle = [at.reduce((sum, p) => sum + p[0], 0) / at.length, at.reduce((sum, p) => sum + p[1], 0) / at.length];
      this.frame();
    }
  }

  drag(down) {
    if (this.zoom <= 1 || !this.svg) return;
    const from = [...this.middle], per = this.size[0] / this.zoom / this.svg.getBoundingClientRect().width;
    const move = (event) => { this.middle = [from[0] - (event.clientX - down.clientX) * per, from[1] - (event.clientY - down.clientY) * per]; this.frame(); };
    const end = () => { window.removeEventListener('pointermove', move); window.removeEventListener('pointerup', end); };
    window.addEventListener('pointermove', move); window.addEventListener('pointerup', end);
    down.preventDefault(); this.holder.focus();
  }
}
const VIEWER_STYLE = `
.bar { display: flex; gap: 6px; align-items: center; margin-bottom: 6px; flex-wrap: wrap; } .bar .space { flex: 1; }
.pages { display: flex; gap: 4px; flex-wrap: wrap; } .pages [aria-pressed=true] { background: #dcebea; border-color: #0f766e; font-weight: 600; }
.bar button { min-width: 36px; padding: 4px 8px; }
.holder { background: #dfe5e8; border-radius: 8px; overflow: hidden; height: var(--viewer-height, min(68vh, 720px)); min-height: 240px; display: grid; place-items: center; }
.holder.zoomed { cursor: grab; touch-action: none; }
svg { width: 100%; height: 100%; display: block; min-height: 0; min-width: 0; }
.box { fill: rgba(15,118,110,.06); stroke: #0f766e; stroke-width: 2; vector-effect: non-scaling-stroke; cursor: pointer; }
.box.failed { stroke: #c21d1d; fill: rgba(194,29,29,.08); }
.box.lit { fill: rgba(250,190,30,.35); stroke: #b45309; stroke-width: 4; }
.qr { fill: none; stroke: #5b4bb5; stroke-width: 2; stroke-dasharray: 6 4; vector-effect: non-scaling-stroke; pointer-events: none; }
`;
customElements.define('certloop-viewer', Viewer);
