// The auditor's queue and screen. Everything goes through /v1/reviews with If-Match, so nobody overwrites anybody.
import { age, api, called, facts, h, ID, loginPage, of, passes, percent, say, session, shadow, STATES, STATUS, typeName, unsaved, verdicts } from './desk.js';
import { crop, picture, quarter } from './viewer.js';

const REASONS = {
  type_unknown: ['类型未识别', 'type unknown'], hard_rule_failed: ['校验码不成立', 'check digit fails'], qr_disagrees: ['二维码不一致', 'QR disagrees'],
  declared_differs: ['与申报不一致', 'differs from declared'], dossier_disagrees: ['证照之间不一致', 'papers disagree'],
  declared_unreadable: ['申报无法核实', 'declared not found'], required_missing: ['必填项缺失', 'required missing'],
  field_unsure: ['把握不足', 'not sure enough'], sampled: ['随机抽样', 'drawn at random'], double_check: ['第二人复核', 'second look'],
};
const REJECTIONS = [
  ['misread', '读错太多，无法逐项更正', 'misread beyond correcting'], ['wrong_type', '证照类型判断错误', 'wrong kind of certificate'],
  ['not_a_certificate', '不是证照', 'not a certificate'], ['not_legible', '图像不清晰，请重拍', 'not legible'],
  ['incomplete', '页面不全', 'pages missing'], ['expired', '证照已过期', 'expired'],
  ['suspected_forgery', '疑似伪造或涂改', 'suspected forgery'], ['other', '其他', 'other'],
];
const KEYS = [
  ['j / k', '下一项、上一项', 'next, previous field'], ['Enter', '认可并到下一项', 'accept, go on'], ['e', '修改', 'edit'], ['a', '通过', 'approve'],
  ['r', '退回', 'reject'], ['n', '下一份', 'next document'], ['c', '写一句话', 'a sentence'], ['u', '撤销', 'undo'], ['+ − 0 o', '缩放、旋转', 'zoom, turn'], ['q', '回到队列', 'queue'],
];
const RENEW_MS = 240000, PAGE = 100;

class Review extends HTMLElement {
  async connectedCallback() {
    this.filters ??= { reason: '', doc_type: '', claimed: '', state: 'open', min_age_s: '' };
    this.said = h('p', { role: 'status', 'aria-live': 'polite', class: 'said' });
    this.place = h('div', { class: 'place' });
    shadow(this, REVIEW_STYLE, this.said, this.place);
    this.onkey = (event) => this.key(event);
    document.addEventListener('keydown', this.onkey);
    this.onback = () => this.follow();
    window.addEventListener('popstate', this.onback);
    this.onhide = () => this.letGo(true);
    window.addEventListener('pagehide', this.onhide);
    try { this.me = await session(); } catch (error) { this.tell(error.message, 'bad'); return; }
    // The tab is in the page from the start; the queue is fetched when it is first seen and whenever it is seen again.
    this.watch = new IntersectionObserver((seen) => seen.some((one) => one.isIntersecting) && !this.review && this.follow());
    this.watch.observe(this);
  }

  disconnectedCallback() {
    document.removeEventListener('keydown', this.onkey); window.removeEventListener('popstate', this.onback); window.removeEventListener('pagehide', this.onhide);
    this.watch?.disconnect(); clearInterval(this.renewing);
  }

  // The address names the certificate that is open, so that going back, reloading and a link all do what one expects.
  async follow() {
    const id = ID.exec(location.hash)?.[1];
    if (id && id === this.review?.certificate_id) return;
    if (unsaved.size) { this.mark(this.review.certificate_id); this.tell(say('还有没保存的修改。', 'A correction is not saved yet.'), 'warn'); return; }
    if (this.review) await this.letGo();
    if (!id || !(await this.open(id))) await this.queue();
  }

  mark(id) {
    const hash = id ? `#${id}` : '';
    if (location.hash !== hash) history.pushState(null, '', hash || location.pathname);
  }

  // What was opened and not decided goes back into the queue.
  async letGo(leaving = false) {
    if (!this.review || !this.mine || this.review.state !== 'open' || (leaving && unsaved.size)) return;
    await api(`/v1/reviews/${this.review.certificate_id}/release`, { method: 'POST', keepalive: leaving }).catch(() => {});
  }

  tell(text, mood = '', ...more) { this.said.className = `said ${mood}`; this.said.replaceChildren(text, ...more); }

  // ---- queue
  async queue() {
    clearInterval(this.renewing);
    this.review = null; unsaved.clear();
    this.mark('');
    const asked = this.asking = {};
    let listed, summary, name;
    try {
      [listed, summary] = await Promise.all([this.listed(this.filters), api('/v1/reviews/summary').then(({ body }) => body)]);
      name = await called(listed.items.map((one) => one.claimed_by));
    } catch (error) {
      if (asked === this.asking) this.place.replaceChildren(h('div', { class: 'empty' }, error.message));
      return;
    }
    if (asked !== this.asking) return; // another filter was chosen meanwhile, or a certificate opened
    this.items = listed.items;
    const more = h('div', { class: 'more' });
    const drawMore = (cursor) => more.replaceChildren(cursor ? h('button', { 'data-test': 'more', onclick: async (event) => {
      event.target.disabled = true;
      try {
        const next = await this.listed(this.filters, cursor);
        name = await called(next.items.map((one) => one.claimed_by));
        if (asked !== this.asking) return;
        this.items.push(...next.items); body.append(...next.items.map(row)); drawMore(next.next_cursor);
        body.children[body.children.length - next.items.length]?.querySelector('button')?.focus();
      } catch (error) { event.target.disabled = false; this.tell(error.message, 'bad'); }
    } }, say(`已列出 ${this.items.length} 份，再列 ${PAGE} 份`, `${this.items.length} are listed; ${PAGE} more`)) : '');
    const pick = (name, label, options) => h('label', { class: 'filter' }, h('span', {}, label), h('select', { 'data-filter': name, onchange: (event) => {
      this.filters[name] = event.target.value; this.queue(); } }, options.map(([value, text]) => h('option', { value, selected: this.filters[name] === value }, text))));
    const all = say('全部', 'all');
    const count = (why) => (summary.reasons[why] ? ` (${summary.reasons[why]})` : '');
    const filters = h('div', { class: 'filters' },
      pick('state', say('状态', 'State'), ['open', 'approved', 'rejected'].map((s) => [s, say(...STATES[s])])),
      pick('reason', say('原因', 'Reason'), [['', all], ...Object.entries(REASONS).map(([why, text]) => [why, say(...text) + count(why)])]),
      pick('doc_type', say('类型', 'Kind'), [['', all], ['unknown', say('未识别', 'unknown')], ...this.me.types.map((t) => [t.id, of('title', 'title_en', t)])]),
      pick('claimed', say('持有人', 'Held by'), [['', all], ['nobody', say('无人', 'nobody')], ['mine', say('我', 'me')], ['others', say('别人', 'others')]]),
      pick('min_age_s', say('等待', 'Waiting'), [['', all], ['3600', say('1 小时以上', '1 h or more')], ['86400', say('1 天以上', '1 day or more')]]),
      h('button', { onclick: () => this.queue() }, say('刷新', 'Refresh')));
    const row = (one) => h('tr', { onclick: () => this.open(one.certificate_id) },
      h('td', {}, h('button', { class: 'link', 'data-open': one.certificate_id, onclick: (event) => { event.stopPropagation(); this.open(one.certificate_id); } }, typeName(this.me.types, one.doc_type))),
      h('td', {}, one.reasons.slice(0, 4).map((r) => h('span', { class: 'chip warn', title: of('message_zh', 'message_en', r) }, say(...REASONS[r.reason]), r.label ? `·${r.label}` : '')),
        one.reasons.length > 4 ? h('span', { class: 'chip' }, `+${one.reasons.length - 4}`) : ''),
      h('td', { class: 'nowrap' }, age(one.age_s)),
      h('td', {}, one.claimed_by ? (one.claimed_by === this.me.actor ? say('我', 'me') : name(one.claimed_by)) : ''));
    const body = h('tbody', {}, this.items.map(row));
    drawMore(listed.next_cursor);
    const head = [say('证照', 'Certificate'), say('为什么要看', 'Why'), say('已等', 'Age'), say('持有人', 'Held by')];
    this.place.replaceChildren(
      h('div', { class: 'head' }, h('h2', {}, say('待审队列', 'The queue')), h('span', { class: 'dim' }, summary.open
        ? say(`待审 ${summary.open} 份，最久等了 ${age(summary.oldest_age_s)}`, `${summary.open} wait, the oldest for ${age(summary.oldest_age_s)}`) : say('没有待审', 'nothing waits'),
      summary.second_looks ? say(` · 复核 ${summary.second_looks} 份`, ` · ${summary.second_looks} second looks`) : ''), h('span', { class: 'space' }),
      this.items.length ? h('button', { class: 'main', 'data-test': 'start', onclick: () => this.next() }, say('开始审核（n）', 'Start (n)')) : ''),
      filters,
      this.items.length ? h('table', { class: 'queue' }, h('thead', {}, h('tr', {}, head.map((text) => h('th', { scope: 'col' }, text)))), body)
        : h('div', { class: 'empty' }, say('这里没有证照。把握足够的证照会自动通过；换一个筛选条件，或先上传几份。', 'Nothing here. What is sure enough passes by itself; change a filter, or upload something.')), more);
  }

  listed(filters, cursor = '') {
    const query = new URLSearchParams(Object.entries({ ...filters, limit: PAGE, cursor }).filter(([, value]) => value));
    return api(`/v1/reviews?${query}`).then(({ body }) => body);
  }

  // ---- one review
  async open(id) {
    clearInterval(this.renewing);
    this.last = id;
    const asked = this.asking = {};
    let answer, mine = false;
    try {
      answer = this.me.permissions.includes('reviews:decide') && (await this.claimed(id));
      mine = Boolean(answer);
      if (!answer) answer = await api(`/v1/reviews/${id}`);
      this.name = await called(answer.body.history.map((one) => one.actor));
    } catch (error) { this.tell(error.message, 'bad'); return false; }
    if (asked !== this.asking) return true; // another one was opened meanwhile
    this.mine = mine; unsaved.clear();
    this.mark(id);
    this.accepted = new Set(); this.dirty = false; this.asked = false; this.here = null;
    this.take(answer);
    this.build();
    if (mine) this.renewing = setInterval(() => api(`/v1/reviews/${id}/claim`, { method: 'POST' }).catch((error) => this.tell(error.message, 'bad')), RENEW_MS);
    return true;
  }

  async claimed(id) {
    try { return await api(`/v1/reviews/${id}/claim`, { method: 'POST' }); } catch (error) {
      if (error.code !== 'review_claimed' && error.code !== 'conflict') throw error;
      this.tell(error.code === 'conflict' ? say('这份证照已有结论，只能查看。', 'It is decided; you can look at it.') : error.message + say('您可以查看，不能修改。', ' You can look, not change.'), 'warn');
      return null;
    }
  }

  take({ body, etag }) { this.review = body; this.etag = etag; }

  unsure(name) {
    const field = this.review.fields[name];
    if (field.edited) return false;
    const asked = this.review.reasons.some((r) => r.field === name) || this.review.missing.includes(name);
    return asked || verdicts(field).length > 0;
  }

  order() {
    const rank = (name) => {
      const field = this.review.fields[name];
      return this.first.has(name) ? 0 : field.status === 'absent' ? 2 : 1;
    };
    const names = Object.keys(this.review.fields);
    const sure = (name) => this.review.fields[name].probability ?? 1;
    return names.sort((a, b) => rank(a) - rank(b) || (rank(a) === 0 ? sure(a) - sure(b) : 0) || names.indexOf(a) - names.indexOf(b));
  }

  async build() {
    const { review } = this;
    this.first = new Set(Object.keys(review.fields).filter((name) => this.unsure(name)));
    this.names = this.order();
    this.viewer = h('certloop-viewer');
    this.viewer.addEventListener('field', (event) => this.light(event.detail.name, event.detail.chosen));
    this.list = h('div', { class: 'fields', role: 'list', 'aria-label': say('字段', 'fields') });
    this.top = h('div', {}); this.foot = h('div', { class: 'foot' });
    this.bar = h('div', { class: 'actions' });
    this.place.replaceChildren(this.top, h('div', { class: 'split' }, h('div', { class: 'left' }, this.viewer),
      h('div', { class: 'right' }, this.bar, this.list), this.foot), h('p', { class: 'keys small dim' }, KEYS.map(([keys, zh, en]) => h('span', {}, h('kbd', {}, keys), ` ${say(zh, en)}`))));
    this.rows = new Map();
    for (const name of this.names) { const row = h('div', { class: 'field', role: 'listitem', tabindex: '-1', 'data-field': name, onclick: () => this.go(name, false), onfocusin: () => this.here !== name && this.go(name, false) }); this.rows.set(name, row); this.list.append(row); }
    this.draw();
    this.viewer.show({ ...review, rotation: await this.rotation() });
    this.go(this.names[0], true);
    try { this.shape = review.pages.length ? await this.shapes() : null; } catch { this.shape = null; }
    if (this.review === review || this.review?.certificate_id === review.certificate_id) this.draw();
  }

  async rotation() {
    if (this.turned?.id !== this.review.certificate_id) {
      const found = api(`/v1/certificates/${this.review.certificate_id}`).then(({ body }) => body.rotation || 0, () => 0);
      this.turned = { id: this.review.certificate_id, rotation: await found };
    }
    return this.turned.rotation;
  }

  async shapes() {
    const { certificate_id: id, pages } = this.review;
    return new Map(await Promise.all(pages.map(async (page) => [page, await picture(id, page)])));
  }

  draw() {
    const { review } = this, open = review.state === 'open';
    const state = review.state === 'approved' ? 'good' : review.state === 'rejected' ? 'bad' : 'warn';
    const retype = h('select', { 'aria-label': say('证照类型', 'kind of certificate'), disabled: !this.mine || review.second_look, onchange: (event) => (this.held() ? this.draw() : this.patch({ doc_type: event.target.value }, null, true)) },
      review.doc_type in Object.fromEntries(this.me.types.map((t) => [t.id, 1])) ? '' : h('option', { value: '', selected: true, disabled: true }, say('请选择类型', 'choose a kind')),
      this.me.types.map((t) => h('option', { value: t.id, selected: t.id === review.doc_type }, of('title', 'title_en', t))));
    this.top.replaceChildren(h('div', { class: 'head' }, h('button', { onclick: () => this.leave() }, say('← 队列（q）', '← queue (q)')),
      h('h2', {}, review.title || typeName(this.me.types, review.doc_type)), retype, h('span', { class: `chip ${state}` }, review.second_look ? say('第二人复核', 'second look') : say(...STATES[review.state])),
      h('span', { class: 'dim small' }, age(review.age_s))), h('ul', { class: 'reasons' }, review.reasons.map((r) => h('li', {}, of('message_zh', 'message_en', r)))));
    for (const [name, row] of this.rows) if (!row.classList.contains('editing')) this.drawField(name, row);
    const wait = [...this.first].filter((name) => this.unsure(name) && !this.accepted.has(name));
    this.bar.replaceChildren(...(this.mine && open ? [
      h('button', { class: 'main', 'data-test': 'approve', onclick: () => this.approve() }, say('通过（a）', 'Approve (a)')),
      h('button', { class: 'danger', 'data-test': 'reject', onclick: () => this.reject() }, say('退回（r）', 'Reject (r)')),
      h('button', { onclick: () => this.comment() }, say('写一句（c）', 'Comment (c)'))] : []),
    h('button', { onclick: () => this.next() }, say('下一份（n）', 'Next (n)')),
    h('span', { class: `small ${wait.length ? 'warn' : 'good'}` }, !open ? '' : wait.length ? say(`还有 ${wait.length} 项要看`, `${wait.length} fields to look at`) : say('没有要看的项了', 'nothing left to look at')));
    this.foot.replaceChildren(facts(review), this.history());
  }

  drawField(name, row) {
    const field = this.review.fields[name], unsure = this.unsure(name), accepted = this.accepted.has(name);
    row.className = `field${name === this.here ? ' here' : ''}${unsure && !accepted ? ' unsure' : ''}`;
    const shape = field.box && this.shape?.get(field.page);
    const chip = field.edited ? h('span', { class: 'chip good' }, say('已更正', 'corrected')) : accepted ? h('span', { class: 'chip good' }, say('已认可', 'accepted'))
      : this.review.missing.includes(name) ? h('span', { class: 'chip bad' }, say('必填', 'required')) : unsure ? h('span', { class: 'chip warn' }, say('请核对', 'look')) : '';
    row.replaceChildren(h('div', { class: 'label' }, h('strong', {}, field.label), chip, h('span', { class: 'space' }),
      h('span', { class: 'dim small' }, field.probability !== null && field.probability !== undefined ? say(`把握 ${percent(field.probability)}`, `${percent(field.probability)} sure`) : '')),
    field.box ? h('div', { class: 'cut' }, shape ? crop(shape, quarter(this.turned?.rotation), field.box, say(`${field.label}的原图`, `${field.label} as printed`)) : '') : '',
    h('div', { class: 'value' }, field.value ?? h('span', { class: 'dim' }, say(...STATUS[field.status]))),
    field.edited && field.read_value !== field.value ? h('p', { class: 'small dim' }, say('读到的是：', 'was read: '), field.read_value ?? say('（无）', '(nothing)')) : '',
    ...verdicts(field), passes(field) ? h('p', { class: 'good small' }, say('✓ 校验通过', '✓ holds')) : '');
  }

  history() {
    const actions = { opened: ['进入队列', 'opened'], claimed: ['开始处理', 'claimed'], renewed: ['继续处理', 'renewed'], released: ['放回队列', 'given back'], edited: ['更正', 'corrected'],
      approved: ['通过', 'approved'], rejected: ['退回', 'rejected'], undone: ['撤销', 'taken back'], commented: ['留言', 'comment'], double_checked: ['复核', 'second look'] };
    const rows = this.review.history.map((one) => h('li', {}, h('span', { class: 'dim' }, `${new Date(one.at).toLocaleString(say('zh-CN', 'en-GB'))} · ${one.actor === this.me.actor ? say('我', 'me') : this.name(one.actor)} · `),
      say(...(actions[one.action] || [one.action, one.action])), one.field ? `「${this.review.fields[one.field]?.label || one.field}」` : '',
      one.action === 'edited' && one.field ? `：${one.details.old ?? say('空', 'empty')} → ${one.details.new ?? say('空', 'empty')}` : '', one.details.comment ? `：${one.details.comment}` : '', one.details.reason ? `：${this.rejection(one.details.reason)}` : ''));
    return h('details', { class: 'history', open: this.historyOpen, ontoggle: (event) => { this.historyOpen = event.target.open; } },
      h('summary', {}, say(`修改记录（${rows.length}）`, `History (${rows.length})`)), h('ol', {}, rows));
  }
  rejection(reason) { const row = REJECTIONS.find((one) => one[0] === reason); return row ? say(row[1], row[2]) : reason; }

  light(name, chosen) {
    this.viewer.light(name);
    for (const [other, row] of this.rows) row.classList.toggle('lit', other === name);
    if (chosen) this.go(name, true);
  }

  go(name, focus = true) {
    if (!name || !this.rows.has(name)) return;
    this.here = name;
    for (const [other, row] of this.rows) { row.classList.toggle('here', other === name); row.classList.remove('lit'); row.tabIndex = other === name ? 0 : -1; }
    const row = this.rows.get(name);
    if (focus) { row.focus({ preventScroll: true }); this.scroll(row); }
    this.viewer.light(name, true);
  }

  scroll(row) {
    const list = this.list, top = row.offsetTop - list.offsetTop;
    if (list.scrollHeight > list.clientHeight + 2) list.scrollTop = Math.max(0, top - list.clientHeight / 3);
    else row.scrollIntoView({ block: 'nearest' });
  }

  step(by) { const at = this.names.indexOf(this.here); this.go(this.names[Math.min(this.names.length - 1, Math.max(0, at + by))]); }

  accept() {
    if (!this.mine) return;
    this.accepted.add(this.here);
    const at = this.names.indexOf(this.here);
    const next = this.names.slice(at + 1).find((name) => this.unsure(name) && !this.accepted.has(name)) || this.names[Math.min(at + 1, this.names.length - 1)];
    this.draw(); this.go(next);
  }

  edit(name = this.here) {
    if (!this.mine || this.review.state !== 'open') return;
    const row = this.rows.get(name), field = this.review.fields[name];
    if (row.classList.contains('editing')) return;
    const box = h('textarea', { rows: Math.min(8, Math.ceil((field.value || '').length / 26) || 1), 'aria-label': field.label, spellcheck: 'false' });
    box.value = field.value || '';
    const why = h('select', { 'aria-label': say('为什么没有内容', 'why there is no value') }, ['blank', 'absent', 'unreadable', 'missing_page'].map((s) => h('option', { value: s, selected: s === field.status }, say(...STATUS[s]))));
    const error = h('p', { class: 'bad small' });
    const done = async (keep) => {
      if (keep) {
        if (box.disabled) return; // being saved
        const value = box.value.trim();
        const wanted = value ? { value } : { value: null, status: why.value };
        const same = wanted.value === field.value && (value || why.value === field.status);
        if (!same) {
          box.disabled = true;
          const complaint = await this.patch({ fields: { [name]: wanted } }, name);
          if (complaint === false) return;
          if (complaint) { box.disabled = false; error.replaceChildren(...complaint); box.focus(); return; }
        } else this.accepted.add(name);
      }
      listening.abort(); unsaved.delete(row);
      row.classList.remove('editing'); this.draw(); this.go(name);
      if (keep) this.accept();
    };
    const listening = new AbortController();
    row.classList.add('editing'); unsaved.add(row);
    row.querySelector('.value').replaceWith(h('div', { class: 'edit' }, box, h('div', { class: 'head' }, h('button', { class: 'main', onclick: () => done(true) }, say('保存（Enter）', 'Save (Enter)')),
      h('button', { onclick: () => done(false) }, say('取消（Esc）', 'Cancel (Esc)')), h('label', { class: 'small' }, say('若无内容：', 'if empty: '), why)), error));
    row.addEventListener('keydown', (event) => {
      if (!row.classList.contains('editing') || event.isComposing) return;
      if (event.key === 'Escape') { event.preventDefault(); event.stopPropagation(); done(false); }
      if (event.key === 'Enter' && !event.shiftKey && event.target === box) { event.preventDefault(); event.stopPropagation(); done(true); }
    }, { signal: listening.signal });
    box.focus(); box.select();
  }

  // Returns what to say beside the field when it was refused, null when it was taken, false when the whole review was loaded anew.
  async patch(json, name, rebuild = false) {
    try {
      this.take(await api(`/v1/reviews/${this.review.certificate_id}`, { method: 'PATCH', json, etag: this.etag }));
      this.asked = false;
      if (rebuild) this.build(); else { this.draw(); this.viewer.show({ ...this.review, rotation: this.turned?.rotation }); }
      const field = name && this.review.fields[name], failed = field && verdicts(field).length;
      this.tell(failed ? say('已保存，但校验没有通过，请再看一眼原图。', 'Saved, but a check fails; look at the print again.') : say('已保存。', 'Saved.'), failed ? 'warn' : 'good');
      return null;
    } catch (error) {
      this.tell(error.message, 'bad');
      if (error.code === 'precondition_failed' || error.code === 'review_claimed' || error.code === 'conflict') { await this.latest(error); return false; }
      if (error.code !== 'unauthenticated') return [error.message];
      return [error.message, ' ', h('a', { href: loginPage(), target: '_blank' }, say('在新窗口登录，再回来保存', 'Log in in another window, then save here'))];
    }
  }

  async latest(error) {
    const said = error.message;
    await this.open(this.review.certificate_id);
    this.tell(said, 'bad');
  }

  async approve() {
    if (!this.mine || this.review.state !== 'open' || this.busy || this.moving || this.held()) return;
    const wait = this.names.find((name) => this.first.has(name) && this.unsure(name) && !this.accepted.has(name));
    if (wait && !this.asked) {
      this.asked = true; this.go(wait);
      this.tell(say('还有没看过的项；看过后再按 a，或现在再按一次 a 直接通过。', 'There are fields you have not looked at; press a again to approve all the same.'), 'warn');
      return;
    }
    await this.decide('approve', {});
  }

  async decide(verb, json) {
    if (this.busy) return;
    this.busy = true;
    const id = this.review.certificate_id;
    try {
      const { body } = await api(`/v1/reviews/${id}/${verb}`, { method: 'POST', json, etag: this.etag });
      this.done = body.undo_until ? { id, until: new Date(body.undo_until).getTime() } : null;
      const text = verb === 'approve' ? say('已通过。', 'Approved.') : say('已退回。', 'Rejected.');
      await this.next(id);
      this.tell(text, 'good', this.done ? h('button', { class: 'undo', 'data-test': 'undo', onclick: () => this.undo() }, say('撤销（u，一分钟内）', 'Undo (u, within a minute)')) : '');
    } catch (error) {
      if (error.code === 'precondition_failed' || error.code === 'review_claimed' || error.code === 'conflict') await this.latest(error);
      else this.tell(error.message, 'bad');
    } finally { this.busy = false; }
  }

  async undo() {
    if (this.busy || this.moving || this.held()) return;
    if (!this.done) { this.tell(say('没有可以撤销的结论。', 'There is nothing to take back.'), 'warn'); return; }
    const { id } = this.done;
    try {
      await api(`/v1/reviews/${id}/undo`, { method: 'POST' });
      this.done = null;
      if (this.review?.certificate_id !== id) await this.letGo();
      await this.open(id);
      this.tell(say('已撤销，这份证照又由您处理。', 'Taken back; it is yours again.'), 'good');
    } catch (error) { this.tell(error.message, 'bad'); }
  }

  reject() {
    if (!this.mine || this.review.state !== 'open' || this.busy || this.moving || this.held()) return;
    const text = h('input', { placeholder: say('可选：一句话，例如“你应该先查二维码”', 'optional: a sentence'), maxlength: '2000', class: 'wide' });
    let chosen = null;
    const go = () => { if (!chosen) return; dialog.close(); this.decide('reject', text.value.trim() ? { reason: chosen, comment: text.value.trim() } : { reason: chosen }); };
    const buttons = REJECTIONS.map(([reason, zh, en], at) => h('button', { 'aria-pressed': 'false', 'data-reason': reason, onclick: () => choose(at) }, h('kbd', {}, String(at + 1)), ` ${say(zh, en)}`));
    const confirm = h('button', { class: 'danger', disabled: true, onclick: go }, say('退回（Enter）', 'Reject (Enter)'));
    const choose = (at) => { chosen = REJECTIONS[at][0]; buttons.forEach((b, i) => b.setAttribute('aria-pressed', String(i === at))); confirm.disabled = false; confirm.focus(); };
    const dialog = this.dialog(say('为什么退回？', 'Why is it refused?'), h('div', { class: 'reasons-grid' }, buttons), text, h('div', { class: 'head' }, confirm, h('button', { onclick: () => dialog.close() }, say('取消（Esc）', 'Cancel (Esc)'))));
    dialog.addEventListener('keydown', (event) => {
      if (event.isComposing) return;
      if (event.target !== text && /^[1-8]$/.test(event.key)) { event.preventDefault(); choose(Number(event.key) - 1); }
      if (event.key === 'Enter' && event.target === text) { event.preventDefault(); go(); }
    });
    buttons[0].focus();
  }

  comment() {
    if (!this.mine || this.review.state !== 'open') return;
    const text = h('input', { placeholder: say('你应该先查二维码', 'you should have looked at the QR code first'), maxlength: '2000', class: 'wide', 'data-test': 'comment' });
    const go = async () => { const said = text.value.trim(); dialog.close(); if (said) await this.patch({ comment: said }); };
    const dialog = this.dialog(say('一句话：本来应该怎么读？（会成为给系统的提示）', 'A sentence: what should have been done?'), text,
      h('div', { class: 'head' }, h('button', { class: 'main', onclick: go }, say('保存（Enter）', 'Save (Enter)')), h('button', { onclick: () => dialog.close() }, say('取消（Esc）', 'Cancel (Esc)'))));
    text.addEventListener('keydown', (event) => { if (event.key === 'Enter' && !event.isComposing) { event.preventDefault(); go(); } });
    text.focus();
  }

  dialog(title, ...children) {
    const dialog = h('dialog', { 'aria-label': title }, h('h3', {}, title), ...children);
    dialog.addEventListener('close', () => { dialog.remove(); this.rows?.get(this.here)?.focus(); });
    this.shadowRoot.append(dialog); dialog.showModal();
    return dialog;
  }

  // The next one that nobody else holds; what was opened and not decided goes back into the queue.
  async next(decided = null) {
    if (this.moving || this.held()) return;
    this.moving = true;
    try {
      if (decided === null) await this.letGo();
      const free = await this.free();
      const at = free.indexOf(this.last);
      for (const id of [...free.slice(at + 1), ...free.slice(0, Math.max(at, 0))]) if (await this.open(id)) { this.tell(''); return; }
      await this.queue();
      if (decided === null) this.tell(say('没有下一份了。', 'There is no other.'), 'dim');
    } catch (error) { this.tell(error.message, 'bad'); } finally { this.moving = false; }
  }

  // Ids that nobody else holds, in the queue's order, page by page until there is one beside the one that was open last.
  async free() {
    const found = [];
    for (let cursor = ''; ;) {
      const { items, next_cursor: more } = await this.listed({ ...this.filters, state: 'open', claimed: '' }, cursor);
      found.push(...items.filter((one) => !one.claimed_by || one.claimed_by === this.me.actor).map((one) => one.certificate_id));
      if (!more || found.indexOf(this.last) < found.length - 1) return found;
      cursor = more;
    }
  }

  // A correction that is being typed is not thrown away by a stray key.
  held() {
    if (!unsaved.size) return false;
    this.tell(say('先保存或取消正在做的修改。', 'Save or cancel the correction first.'), 'warn');
    return true;
  }

  async leave() {
    if (this.moving || this.held()) return;
    this.moving = true;
    try { await this.letGo(); await this.queue(); this.tell(''); } finally { this.moving = false; }
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || !this.offsetParent) return;
    const path = event.composedPath(), target = path[0];
    if (path.some((node) => node.tagName === 'DIALOG') || ['INPUT', 'TEXTAREA', 'SELECT'].includes(target.tagName)) return;
    const outside = target !== document.body && !path.includes(this);
    const keys = this.review ? { j: () => this.step(1), k: () => this.step(-1), ArrowDown: () => this.step(1), ArrowUp: () => this.step(-1), Enter: () => this.accept(),
      e: () => this.edit(), F2: () => this.edit(), a: () => this.approve(), r: () => this.reject(), c: () => this.comment(), n: () => this.next(), u: () => this.undo(), q: () => this.leave(),
      '+': () => this.viewer.scale(1.4), '=': () => this.viewer.scale(1.4), '-': () => this.viewer.scale(1 / 1.4), 0: () => this.viewer.fit(), o: () => this.viewer.rotate() }
      : { n: () => this.next(), u: () => this.undo() };
    if (event.repeat && ['a', 'r', 'n', 'u', 'q', 'e', 'c'].includes(event.key)) return; // a key held down decides nothing
    const act = keys[event.key];
    if (!act || (outside && ['Enter', 'ArrowDown', 'ArrowUp'].includes(event.key)) || (event.key === 'Enter' && ['BUTTON', 'A', 'SUMMARY'].includes(target.tagName))) return;
    event.preventDefault();
    act();
  }
}
const REVIEW_STYLE = `
.said { min-height: 40px; display: flex; gap: 12px; align-items: center; flex-wrap: wrap; } .said button { min-height: 32px; padding: 2px 10px; }
.head { display: flex; gap: 10px; align-items: center; flex-wrap: wrap; margin: 6px 0; } .head h2 { margin: 0; } .space { flex: 1; }
.filters { display: flex; gap: 10px; flex-wrap: wrap; align-items: end; margin: 10px 0; } .filter { display: grid; gap: 2px; font-size: 13px; } .filter select { font-size: 15px; max-width: 200px; }
.queue { width: 100%; border-collapse: collapse; } .queue th, .queue td { text-align: left; padding: 8px; border-bottom: 1px solid #d5dde1; vertical-align: top; } .queue th { font-size: 13px; color: #4a5a63; }
.queue tbody tr { cursor: pointer; } .queue tbody tr:hover { background: #eef4f4; } .queue .chip { margin: 0 4px 2px 0; } .nowrap { white-space: nowrap; } .more { margin: 10px 0; text-align: center; }
.link { border: 0; background: none; padding: 0; min-height: 0; color: #0b5a54; text-decoration: underline; font-weight: 600; text-align: left; }
.reasons { margin: 0 0 8px; padding-left: 20px; color: #7a4a00; }
.split { display: grid; grid-template-columns: minmax(0, 1.25fr) minmax(0, 1fr); gap: 16px; align-items: start; }
.left { position: sticky; top: 8px; } .foot { grid-column: 1 / -1; }
.right { position: relative; } .actions { display: flex; gap: 8px; flex-wrap: wrap; align-items: center; padding: 0 0 8px; background: #fff; }
.fields { display: grid; gap: 6px; max-height: calc(100vh - 190px); min-height: 360px; overflow: auto; padding: 4px; align-content: start; scroll-behavior: auto; }
.field { border: 1px solid #c9d3d8; border-left: 4px solid #c9d3d8; border-radius: 6px; padding: 8px 10px; background: #fff; cursor: pointer; }
.field.unsure { border-left-color: #c77700; background: #fffaf0; } .field.here { border-color: #0f766e; border-left-color: #0f766e; box-shadow: 0 0 0 1px #0f766e; } .field.lit { background: #fdf1cf; }
.label { display: flex; gap: 8px; align-items: center; flex-wrap: wrap; } .value { white-space: pre-wrap; overflow-wrap: anywhere; font-size: 16px; }
.cut { min-height: 44px; margin: 4px 0; } .crop { display: block; max-height: 180px; }
.edit { display: grid; gap: 6px; margin-top: 4px; } textarea { width: 100%; resize: vertical; font-size: 16px; }
.keys { display: flex; flex-wrap: wrap; gap: 6px 16px; margin-top: 12px; padding: 8px; background: #f3f5f6; border-radius: 6px; }
.history { margin-top: 8px; } .history summary { cursor: pointer; } .history ol { margin: 6px 0; padding-left: 20px; overflow-wrap: anywhere; }
dialog { border: 1px solid #66767f; border-radius: 10px; padding: 20px; width: min(92vw, 560px); } dialog::backdrop { background: rgba(20,30,35,.4); } .wide { width: 100%; margin: 10px 0; }
.reasons-grid { display: grid; grid-template-columns: 1fr 1fr; gap: 6px; } .reasons-grid button { text-align: left; } [aria-pressed=true] { background: #fbe4e4; border-color: #a01919; font-weight: 600; }
@media (max-width: 860px) { .split { grid-template-columns: minmax(0, 1fr); } .left { position: static; } certloop-viewer { --viewer-height: 42vh; } .foot { grid-column: 1; } .fields { max-height: none; overflow: visible; }
  .actions { position: sticky; top: 0; z-index: 2; padding: 8px 0; } .queue thead { display: none; } .queue tr { display: grid; grid-template-columns: 1fr auto; padding: 6px 0; border-bottom: 1px solid #d5dde1; } .queue td { border: 0; padding: 2px 4px; } .queue td:nth-child(2) { grid-column: 1 / -1; grid-row: 2; } .reasons-grid { grid-template-columns: 1fr; } }
`;
customElements.define('certloop-review', Review);
