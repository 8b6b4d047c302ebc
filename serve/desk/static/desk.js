// What all elements of the desk share: the session, calls of /v1, words in two languages, building of nodes.
// Nodes are built with textContent and attributes only; nothing that was read from a paper is ever parsed as HTML.
export const language = document.querySelector('meta[name="certloop-language"]')?.content || 'zh';
export const say = (zh, en) => (language === 'en' ? en : zh);
export const of = (zh, en, row) => (language === 'en' ? row[en] : row[zh]);

export function h(tag, attributes = {}, ...children) {
  const svg = ['svg', 'g', 'image', 'polygon', 'title'].includes(tag);
  const node = svg ? document.createElementNS('http://www.w3.org/2000/svg', tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, '');
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

// What somebody is typing and has not saved. While there is any, a session that ended leads nowhere: it is said, and the text stays.
export const unsaved = new Set();
window.addEventListener('beforeunload', (event) => { if (unsaved.size) event.preventDefault(); });
export const loginPage = () => `/login?lang=${language}${location.hash}`;

let asked = null;
export function session() {
  asked ??= fetch('/desk/session').then(async (answer) => {
    if (answer.status === 401) return loggedOut();
    if (!answer.ok) throw await complaint(answer);
    return answer.json();
  }).catch((error) => { asked = null; throw error.code ? error : network(); });
  return asked;
}

function loggedOut() {
  asked = null;
  if (!unsaved.size) { location.href = loginPage(); return new Promise(() => {}); }
  const error = new Error(words('unauthenticated')); error.code = 'unauthenticated';
  throw error;
}

function network() {
  const error = new Error(words('network')); error.code = 'network';
  return error;
}

// What to call an actor of a history: a login, a key's name, or which part of the system it was.
const MACHINES = { triage: ['系统', 'the system'], loop: ['系统', 'the system'], demo: ['演示用户', 'demo visitor'], cli: ['命令行', 'command line'] };
let people = null;
export async function called(ids) {
  if (!people || ids.some((id) => id && !(id in people) && !MACHINES[id.split(':')[0]])) {
    people = await api('/desk/people').then(({ body }) => body, () => people || {});
  }
  return (id) => people[id] || (MACHINES[id.split(':')[0]] ? say(...MACHINES[id.split(':')[0]]) : id);
}

const WORDS = {
  unauthenticated: ['登录已失效，请重新登录。', 'The session is over; log in again.'],
  forbidden: ['您的角色没有这项权限。', 'Your role may not do this.'],
  not_found: ['没有这份文件，或不属于您的租户。', 'There is no such document, or it is not yours.'],
  review_claimed: ['另一位审核员正在处理这份证照。', 'Somebody else is working on this certificate.'],
  precondition_failed: ['这份证照刚被别人改过；已载入最新内容，请再看一遍。', 'It was changed meanwhile; the latest is shown. Look again.'],
  conflict: ['这份证照的状态已经变了。', 'This certificate is in another state by now.'],
  fields_unsaid: ['改了证照类型后，还有必填项没有填写：请逐项填写，或注明没有。', 'Fields that this type requires were not filled in: say what stands there, or that nothing does.'],
  undo_too_late: ['超过一分钟，不能再撤销。', 'More than a minute ago: it cannot be taken back.'],
  rate_limited: ['请求太快，请稍等几秒。', 'Too many requests; wait a few seconds.'],
  too_large: ['文件太大。', 'The file is too large.'],
  queue_full: ['排队的文件太多，请稍后再传。', 'Too many files are waiting; try later.'],
  format_unsupported: ['无法读取：这不是图片或 PDF（支持 JPEG、PNG、WebP、TIFF、HEIC、PDF）。', 'It cannot be read: this is no picture or PDF.'],
  file_empty: ['无法读取：文件是空的。', 'It cannot be read: the file is empty.'],
  file_too_large: ['无法读取：文件太大。', 'It cannot be read: the file is too large.'],
  image_truncated: ['无法读取：图片不完整，可能没有传完。', 'It cannot be read: the picture is cut off.'],
  image_corrupt: ['无法读取：图片已损坏。', 'It cannot be read: the picture is damaged.'],
  image_too_many_pixels: ['无法读取：图片像素太多，请缩小后再传。', 'It cannot be read: too many pixels.'],
  image_too_small: ['无法读取：图片太小，看不清字。', 'It cannot be read: the picture is too small.'],
  too_many_pages: ['无法读取：页数太多，请拆分后再传。', 'It cannot be read: too many pages.'],
  pdf_encrypted: ['无法读取：PDF 有密码，请去掉密码后再传。', 'It cannot be read: the PDF has a password.'],
  pdf_corrupt: ['无法读取：PDF 已损坏。', 'It cannot be read: the PDF is damaged.'],
  decode_timeout: ['无法读取：打开文件花的时间太长。', 'It cannot be read: opening it took too long.'],
  decode_memory: ['无法读取：打开文件需要的内存太多。', 'It cannot be read: opening it took too much memory.'],
  decode_crashed: ['无法读取：文件已损坏。', 'It cannot be read: the file is damaged.'],
  read_failed: ['没有读成，请稍后再试。', 'It was not read; try again later.'],
  read_timeout: ['识别超时，请稍后再试。', 'Reading took too long; try again later.'],
  worker_crashed: ['识别程序意外中断，请稍后再试。', 'The reader ended unexpectedly; try again later.'],
  reader_failed: ['识别出错，请稍后再试。', 'The reader failed; try again later.'],
  archive_invalid: ['压缩包已损坏、有密码或是空的。', 'The archive is damaged, locked or empty.'],
  archive_unsafe: ['压缩包不安全，已拒绝。', 'The archive is unsafe and was refused.'],
  archive_too_large: ['压缩包里的文件太多或太大。', 'The archive holds too much.'],
  request_invalid: ['填写的内容不合要求：请检查有没有空白或不可见字符。', 'What was entered is not well formed.'],
  not_ready: ['还没有读完。', 'It is not read yet.'],
  internal: ['服务器出错，请把请求编号告诉管理员。', 'The server failed; tell your administrator the request id.'],
  network: ['连不上服务器，请检查网络。', 'The server cannot be reached.'],
};
export function words(code, fallback) {
  const known = WORDS[code];
  return known ? say(...known) : fallback || say('出错了。', 'Something went wrong.');
}

async function complaint(answer) {
  let body = {};
  try { body = await answer.json(); } catch { /* an answer without a body */ }
  const error = new Error(words(body.code, body.detail));
  error.code = body.code; error.status = answer.status; error.detail = body.detail;
  return error;
}

export async function api(path, { method = 'GET', json, form, etag, keepalive = false } = {}) {
  const who = await session();
  const headers = {};
  if (json !== undefined) headers['Content-Type'] = 'application/json';
  if (etag) headers['If-Match'] = etag;
  if (method !== 'GET' && who.csrf_token) headers['X-CSRF-Token'] = who.csrf_token;
  let answer;
  try {
    answer = await fetch(path, { method, headers, keepalive, body: json !== undefined ? JSON.stringify(json) : form });
  } catch { throw network(); }
  if (answer.status === 401) return loggedOut();
  if (!answer.ok) {
    if (answer.status === 403) asked = null; // somebody may have logged in again in another window: the next call asks for its token
    throw await complaint(answer);
  }
  const kind = answer.headers.get('content-type') || '';
  const body = answer.status === 204 ? null : kind.startsWith('application/json') ? await answer.json() : kind.startsWith('image/') ? await answer.blob() : null;
  return { body, etag: answer.headers.get('etag') };
}

export function age(seconds) {
  if (seconds === null || seconds === undefined) return '';
  const [n, zh, en] = seconds < 60 ? [Math.round(seconds), '秒', 's'] : seconds < 3600 ? [Math.round(seconds / 60), '分钟', ' min']
    : seconds < 172800 ? [Math.round(seconds / 3600), '小时', ' h'] : [Math.round(seconds / 86400), '天', ' days'];
  return `${n}${say(` ${zh}`, en)}`;
}
export const percent = (share) => `${Math.floor(share * 100)} %`;
export const typeName = (types, id) => {
  const type = types.find((one) => one.id === id);
  return type ? of('title', 'title_en', type) : say('未识别类型', 'unknown type');
};
export const STATUS = {
  read: ['已读', 'read'], blank: ['空白', 'blank'], absent: ['无此项', 'not on this form'],
  unreadable: ['看不清', 'unreadable'], missing_page: ['缺页', 'page missing'],
};
export const STATES = {
  passed: ['免审通过', 'passed'], review: ['待人工审核', 'waits for review'], approved: ['已通过', 'approved'],
  rejected: ['已退回', 'rejected'], open: ['待审', 'open'],
};
const QUALITY = {
  blur: ['模糊', 'blurred'], glare: ['反光', 'glare'], border_incomplete: ['边缘不全', 'edge cut off'], copy: ['复印件', 'photocopy'],
  recapture: ['翻拍屏幕', 'photo of a screen'], screenshot: ['屏幕截图', 'screenshot'], watermark: ['水印或限定用途', 'watermark'],
  occlusion: ['有遮挡', 'covered'], electronic: ['电子证照', 'electronic'],
};

// Facts about the whole certificate: QR, seals, quality, rules over several fields.
export function facts(certificate) {
  const rows = [];
  for (const code of certificate.qr || []) {
    const [mood, zh, en] = code.agrees === true ? ['good', '与印刷一致', 'agrees with the print']
      : code.agrees === false ? ['bad', '与印刷不一致', 'disagrees with the print'] : ['dim', '无可比对内容', 'nothing to compare'];
    rows.push(fact(say('二维码', 'QR code'), say(zh, en), mood));
  }
  if (certificate.seals?.length) {
    const texts = certificate.seals.map((seal) => seal.text).filter(Boolean).join('、');
    rows.push(fact(say('印章', 'Seals'), `${certificate.seals.length}${texts ? `（${texts}）` : ''}`, 'dim'));
  }
  const told = new Set();
  for (const check of certificate.validations || []) {
    if (check.outcome === 'not_applicable' || told.has(check.message_zh)) continue;
    told.add(check.message_zh);
    rows.push(fact(check.outcome === 'pass' ? say('核对', 'Check') : say('请留意', 'Look'), of('message_zh', 'message_en', check),
      check.outcome === 'pass' ? 'good' : check.severity === 'hard' ? 'bad' : 'warn'));
  }
  for (const one of certificate.comparisons || []) {
    const [mood, zh, en] = one.match === 'match' ? ['good', '与申报一致', 'as declared'] : one.match === 'differs'
      ? ['bad', '与申报不一致', 'differs from what was declared'] : ['warn', '无法核实', 'cannot be verified'];
    rows.push(fact(one.label || one.field, `${say(zh, en)}${one.declared ? `：${one.declared}` : ''}`, mood));
  }
  const quality = Object.entries(certificate.quality || {}).sort((a, b) => b[1] - a[1]);
  const text = quality.map(([name, value]) => `${QUALITY[name] ? say(...QUALITY[name]) : name} ${percent(value)}`).join(' · ');
  rows.push(fact(say('图像质量', 'Picture'), text || say('没有发现问题', 'nothing found'), quality.some(([, value]) => value >= 0.5) ? 'warn' : 'dim'));
  return h('dl', { class: 'facts' }, rows);
}
function fact(name, text, mood) {
  return h('div', { class: `fact ${mood}` }, h('dt', {}, name), h('dd', {}, text));
}

// The checks of one field in plain words: failed ones, with what may have been meant.
export function verdicts(field) {
  return (field.validations || []).filter((v) => v.outcome === 'fail').map((v) => h('p', { class: v.severity === 'hard' ? 'bad' : 'warn' },
    of('message_zh', 'message_en', v), v.suggestion ? say(`（可能是 ${v.suggestion}）`, ` (perhaps ${v.suggestion})`) : ''));
}
export const passes = (field) => (field.validations || []).some((v) => v.outcome === 'pass') && !verdicts(field).length;

export const STYLE = `
:host { display: block; color: #172126; font: 15px/1.5 system-ui, -apple-system, "Segoe UI", "PingFang SC", "Microsoft YaHei", "Certloop Rare", sans-serif; }
* { box-sizing: border-box; }
button, select, input, textarea { font: inherit; color: inherit; }
button { background: #fff; border: 1px solid #66767f; border-radius: 6px; padding: 6px 12px; cursor: pointer; min-height: 36px; }
button:hover:not(:disabled) { background: #eef4f4; }
button:disabled { opacity: .55; cursor: default; }
button.main { background: #0f766e; color: #fff; border-color: #0f766e; }
button.main:hover:not(:disabled) { background: #0b5a54; }
button.danger { color: #a01919; border-color: #a01919; }
select, input, textarea { border: 1px solid #66767f; border-radius: 6px; padding: 6px 8px; background: #fff; min-height: 36px; }
:focus-visible { outline: 3px solid #0f766e; outline-offset: 2px; }
a { color: #0b5a54; }
h2, h3 { margin: 0 0 8px; line-height: 1.3; } h2 { font-size: 19px; } h3 { font-size: 16px; }
p { margin: 0; }
.bad { color: #a01919; } .warn { color: #7a4a00; } .good { color: #0b5a3c; } .dim { color: #4a5a63; }
.small { font-size: 13px; }
.chip { display: inline-block; border-radius: 10px; padding: 1px 9px; font-size: 13px; background: #e8edef; color: #27343b; white-space: nowrap; }
.chip.bad { background: #fbe4e4; color: #8a1111; } .chip.warn { background: #fdefd2; color: #6b4000; } .chip.good { background: #dcf1e7; color: #07492e; }
.facts { margin: 8px 0; display: grid; gap: 4px; }
.fact { display: flex; gap: 10px; } .fact dt { flex: 0 0 84px; color: #4a5a63; } .fact dd { margin: 0; min-width: 0; overflow-wrap: anywhere; }
.empty { padding: 32px 16px; text-align: center; color: #4a5a63; border: 1px dashed #9aa8af; border-radius: 8px; }
kbd { font: 13px ui-monospace, Consolas, monospace; border: 1px solid #9aa8af; border-bottom-width: 2px; border-radius: 4px; padding: 0 5px; background: #fff; }
[hidden] { display: none !important; }
`;
export function shadow(element, style, ...children) {
  const root = element.shadowRoot || element.attachShadow({ mode: 'open' });
  root.replaceChildren(h('style', {}, STYLE + style), ...children);
  return root;
}

// The address of a certificate under review.
export const ID = /^#(doc_[0-9a-f]{32}\.[0-9]{1,4})$/;

// The head of the page: who is there, the other language, logging out; and the tab that the address asks for.
class Header extends HTMLElement {
  showReview(tries = 100) {
    if (!ID.test(location.hash) || document.querySelector('certloop-review')?.offsetParent || !tries) return;
    document.querySelector('#tab-review-button')?.click(); // Gradio draws its tabs when it likes, and hears clicks a little later still
    setTimeout(() => this.showReview(tries - 1), 150);
  }

  async connectedCallback() {
    this.showReview();
    window.addEventListener('popstate', () => this.showReview());
    document.documentElement.lang = language === 'en' ? 'en' : 'zh-CN';
    const who = h('span', { class: 'dim small' });
    const out = h('button', { hidden: true, onclick: () => this.logOut() }, say('退出', 'Log out'));
    shadow(this, HEADER_STYLE, h('header', {}, h('h1', {}, this.getAttribute('name')), who, h('span', { class: 'space' }),
      h('a', { href: this.getAttribute('other'), onclick: (event) => { event.currentTarget.hash = location.hash; }, lang: this.getAttribute('lang-other') }, this.getAttribute('label')), out));
    const me = await session();
    const roles = { operator: ['录入员', 'operator'], auditor: ['审核员', 'auditor'], engineer: ['工程师', 'engineer'], admin: ['管理员', 'admin'] };
    who.textContent = me.demo && !me.csrf_token ? say('演示模式 · 仅本机可用', 'demo · this machine only') : `${me.tenant} · ${say(...roles[me.role])}`;
    out.hidden = !me.csrf_token;
  }

  async logOut() {
    try { await api('/v1/logout', { method: 'POST' }); } finally { location.href = `/login?lang=${language}`; }
  }
}
const HEADER_STYLE = `
header { display: flex; align-items: center; gap: 14px; padding: 10px 2px; flex-wrap: wrap; min-height: 58px; }
h1 { font-size: 21px; margin: 0; } .space { flex: 1; }
@media (max-width: 640px) { header { gap: 8px; } h1 { font-size: 18px; } .space { flex: 1 0 0; } }
`;
customElements.define('certloop-header', Header);
