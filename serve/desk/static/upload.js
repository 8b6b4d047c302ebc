// Handing files in and looking at what was read. Every batch goes through POST /v1/batches; progress is asked for file by file.
import { api, facts, h, of, passes, percent, say, session, shadow, STATES, STATUS, typeName, verdicts, words } from './desk.js';

const ACCEPT = 'image/*,application/pdf,.pdf,.heic,.heif,.tif,.tiff,.zip';
const PROGRESS = {
  sending: ['上传中', 'sending'], queued: ['排队', 'waiting'], running: ['识别中', 'reading'], done: ['完成', 'done'], failed: ['无法读取', 'not readable'],
  dead: ['多次失败', 'given up'], cancelled: ['已取消', 'cancelled'],
};
const AGAIN = ['network', 'rate_limited'];
const ENDED = ['done', 'failed', 'dead', 'cancelled'];

class Upload extends HTMLElement {
  connectedCallback() { this.rows ??= []; this.begin(); }
  disconnectedCallback() { this.gone = true; }

  async begin() {
    this.gone = false;
    this.input = h('input', { type: 'file', multiple: true, accept: ACCEPT, hidden: true, 'data-test': 'files', onchange: () => { this.send([...this.input.files]); this.input.value = ''; } });
    this.dossier = h('input', { type: 'checkbox', id: 'dossier' });
    this.said = h('p', { role: 'status', 'aria-live': 'polite', class: 'said' });
    this.drop = h('div', { class: 'drop' },
      h('p', {}, say('把证照图片或 PDF 拖到这里，可多选；手机照片、歪的、倒的都可以', 'Drop pictures or PDFs of certificates here; phone photos will do')),
      h('button', { class: 'main', onclick: () => this.input.click() }, say('选择文件', 'Choose files')), this.input,
      h('label', { class: 'check' }, this.dossier, say('这些文件属于同一供应商，互相核对', 'All of one supplier: check them against each other')));
    for (const name of ['dragenter', 'dragover']) this.drop.addEventListener(name, (event) => { event.preventDefault(); this.drop.classList.add('over'); });
    for (const name of ['dragleave', 'drop']) this.drop.addEventListener(name, (event) => { event.preventDefault(); this.drop.classList.remove('over'); });
    this.drop.addEventListener('drop', (event) => this.send([...event.dataTransfer.files]));
    this.samples = h('div', { class: 'samples' });
    this.list = h('ul', { class: 'files' });
    this.result = h('section', { class: 'result', 'aria-label': say('识别结果', 'result') });
    shadow(this, UPLOAD_STYLE, h('div', { class: 'top' }, this.drop, h('div', { class: 'side' }, this.samples)), this.said,
      h('div', { class: 'below' }, this.list, this.result));
    this.drawList(); this.drawEmpty();
    try { this.me = await session(); } catch (error) { this.say(error.message, true); return; }
    if (!this.me.permissions.includes('documents:write')) {
      this.drop.replaceChildren(h('p', { class: 'dim' }, say('您的角色不能上传文件；请到“人工审核”。', 'Your role may not hand in files.')));
    }
    this.drawSamples();
    if (!this.rows.length) for (const kept of remembered().reverse()) this.again(kept);
  }

  // What was handed in from this window before it was reloaded: still read, and still to be seen.
  async again({ id, dossier }) {
    const batch = { id, dossier, rows: [] };
    try { await this.follow(batch, true); } catch (error) {
      if (error.code === 'not_found') remember(remembered().filter((one) => one.id !== id));
      else this.say(error.message, true);
    }
  }

  say(text, bad = false) { this.said.textContent = text; this.said.classList.toggle('bad', bad); }

  drawSamples() {
    if (!this.me.samples.length) return;
    this.samples.replaceChildren(h('h3', {}, say('示例证照（均为虚构）', 'Samples (all fictional)')), h('div', { class: 'chips' },
      this.me.samples.map((name) => h('button', { 'data-sample': name, onclick: () => this.sendSample(name) }, SAMPLE[name] ? say(...SAMPLE[name]) : name))));
  }

  async sendSample(name) {
    try {
      const answer = await fetch(`/desk/samples/${name}`);
      if (!answer.ok) throw new Error(words('not_found'));
      await this.send([new File([await answer.blob()], name)], name.includes('dossier'));
    } catch (error) { this.say(error.message, true); }
  }

  async send(files, dossier = this.dossier.checked) {
    if (!files.length) return;
    const most = this.me.file_bytes, large = files.filter((file) => file.size > most);
    if (large.length) {
      this.say(say(`文件太大（最多 ${Math.floor(most / 1048576)} MB）：`, `Too large (${Math.floor(most / 1048576)} MB at most): `) + large.map((file) => file.name).join('、'), true);
      files = files.filter((file) => file.size <= most);
      if (!files.length) return;
    } else this.say('');
    const rows = files.map((file) => ({ name: file.name, status: 'sending', share: 0 }));
    this.rows = [...rows, ...this.rows];
    this.drawList();
    const form = new FormData();
    for (const file of files) form.append('files', file, file.name);
    form.append('dossier', String(dossier));
    try {
      const accepted = await this.post(form, (share) => { for (const row of rows) row.share = share; this.drawList(); });
      const batch = { id: accepted.id, dossier, rows, started: performance.now() };
      for (const row of rows) { row.batch = batch; row.status = 'queued'; }
      remember([...remembered(), { id: batch.id, dossier }].slice(-8));
      this.drawList();
      await this.follow(batch);
    } catch (error) {
      for (const row of rows) { row.status = 'failed'; row.problem = error.message; }
      this.drawList(); this.say(error.message, true);
    }
  }

  post(form, progress) {
    return new Promise((resolve, reject) => {
      const request = new XMLHttpRequest();
      request.open('POST', '/v1/batches');
      if (this.me.csrf_token) request.setRequestHeader('X-CSRF-Token', this.me.csrf_token);
      request.responseType = 'json';
      request.upload.onprogress = (event) => event.lengthComputable && progress(event.loaded / event.total);
      request.onerror = () => reject(new Error(words('network')));
      request.onload = () => (request.status === 202 ? resolve(request.response) : reject(new Error(words(request.response?.code, request.response?.detail))));
      request.send(form);
    });
  }

  async follow(batch, quietly = false) {
    const known = new Set();
    for (let pause = 300; !this.gone; pause = Math.min(2000, pause * 1.05)) { // a page takes seconds: ask often at first
      let items;
      try { items = await this.items(batch); } catch (error) {
        if (!AGAIN.includes(error.code)) throw error; // what was accepted is read all the same: look again when the server is back
        if (error.code === 'network') this.say(`${error.message}${say('已提交的文件不会丢失，正在重试…', ' What was handed in is safe; trying again…')}`, true);
        await new Promise((done) => setTimeout(done, 2000));
        continue;
      }
      if (items.length !== batch.rows.length) this.unpacked(batch, items); // an archive: one row became many
      items.forEach((item, place) => Object.assign(batch.rows[place], { name: item.file, status: item.status, id: item.id, error: item.error, certificates: item.certificates }));
      for (const row of batch.rows) {
        if (row.id && ENDED.includes(row.status) && !known.has(row.id)) {
          known.add(row.id);
          try { await this.take(row); } catch (error) { known.delete(row.id); if (!AGAIN.includes(error.code)) throw error; break; }
          if (row.status === 'done' && (!this.chosen || (this.chosen.batch !== batch && !quietly))) this.choose(row);
        }
      }
      this.drawList();
      if (batch.rows.every((row) => known.has(row.id))) break;
      await new Promise((done) => setTimeout(done, pause));
    }
    await this.checks(batch);
    if (quietly) return;
    const failed = batch.rows.filter((row) => row.status !== 'done').length;
    this.say(say(`已读完 ${batch.rows.length} 个文件${failed ? `，其中 ${failed} 个无法读取` : ''}。`, `${batch.rows.length} files are read${failed ? `, ${failed} of them could not be` : ''}.`), failed > 0);
  }

  async items(batch) {
    const items = [];
    for (let cursor = ''; ;) {
      const { body } = await api(`/v1/batches/${batch.id}/documents?limit=200${cursor}`);
      items.push(...body.items);
      if (!body.next_cursor) return items;
      cursor = `&cursor=${body.next_cursor}`;
    }
  }

  unpacked(batch, items) {
    const rest = this.rows.filter((row) => row.batch !== batch);
    batch.rows = items.map((item) => ({ batch, name: item.file, status: item.status }));
    this.rows = batch.started ? [...batch.rows, ...rest] : [...rest, ...batch.rows];
  }

  async take(row) {
    if (row.status !== 'done') { row.problem = words(row.error?.code, row.error?.message); return; }
    row.result = (await api(`/v1/documents/${row.id}/result`)).body;
    if (row.result.warnings?.length) row.problem = say('部分页面没有读出', 'some pages were not read');
  }

  async checks(batch) {
    if (!batch.dossier) return;
    for (let tries = 0; tries < 20; tries += 1) {
      const { body } = await api(`/v1/batches/${batch.id}`);
      if (body.checks) { batch.checks = body.checks; break; }
      await new Promise((done) => setTimeout(done, 500));
    }
    if (this.chosen?.batch === batch) this.choose(this.chosen, this.place);
  }

  drawList() {
    this.list.hidden = !this.rows.length;
    this.list.replaceChildren(...this.rows.map((row) => {
      const mood = row.status === 'done' ? (row.problem ? 'warn' : 'good') : ENDED.includes(row.status) ? 'bad' : '';
      const kinds = (row.certificates || []).map((c) => typeName(this.me.types, c.doc_type)).join('、');
      return h('li', { class: row === this.chosen ? 'chosen' : '', 'data-status': row.status },
        h('button', { disabled: !row.result, onclick: () => this.choose(row), 'aria-pressed': String(row === this.chosen) },
          h('span', { class: 'name' }, row.name), h('span', { class: `chip ${mood}` }, say(...PROGRESS[row.status])),
          row.status === 'sending' ? h('progress', { max: 1, value: row.share }) : row.status === 'running' || row.status === 'queued' ? h('progress') : null,
          kinds ? h('span', { class: 'dim small kinds' }, kinds) : null, row.problem ? h('span', { class: 'bad small kinds' }, row.problem) : null));
    }));
  }

  drawEmpty() {
    this.result.replaceChildren(h('div', { class: 'empty' }, say('结果会出现在这里：证照上标出字段位置，旁边是字段表。没有文件？点一个示例。',
      'Results appear here: the page with the places of its fields, and a table of the fields. No file at hand? Click a sample.')));
  }

  choose(row, place = 0) {
    this.chosen = row; this.place = place;
    const documents = row.result.documents;
    this.drawList();
    if (!documents.length) { this.result.replaceChildren(h('div', { class: 'empty' }, row.problem || say('没有找到证照。', 'No certificate was found.'))); return; }
    const certificate = documents[place], type = typeName(this.me.types, certificate.doc_type);
    this.viewer = h('certloop-viewer');
    this.table = this.drawTable(certificate);
    this.viewer.addEventListener('field', (event) => this.light(event.detail.name, false, event.detail.chosen));
    const state = certificate.state === 'passed' || certificate.state === 'approved' ? 'good' : certificate.state === 'rejected' ? 'bad' : 'warn';
    this.result.replaceChildren(
      h('div', { class: 'head' }, h('h2', {}, certificate.title || type), h('span', { class: 'chip' }, `${type} · ${percent(certificate.type_confidence)}`),
        h('span', { class: `chip ${state}` }, say(...STATES[certificate.state])), h('span', { class: 'space' }), this.downloads(row)),
      documents.length > 1 ? h('div', { class: 'chips' }, documents.map((one, number) => h('button', { 'aria-pressed': String(number === place), onclick: () => this.choose(row, number) },
        `${number + 1}. ${typeName(this.me.types, one.doc_type)}`))) : '',
      ...(certificate.reasons || []).map((reason) => h('p', { class: 'warn' }, of('message_zh', 'message_en', reason))),
      h('div', { class: 'split' }, this.viewer, h('div', { class: 'right' }, this.table, facts(certificate), this.drawChecks(row.batch))));
    this.viewer.show(certificate);
  }

  drawTable(certificate) {
    const entries = Object.entries(certificate.fields).filter(([, field]) => field.status !== 'absent');
    const head = [say('字段', 'Field'), say('内容', 'Value'), say('把握', 'Sure'), say('检查', 'Checks')];
    const rows = entries.map(([name, field]) => h('tr', { tabindex: '0', 'data-field': name,
      onmouseenter: () => this.light(name), onfocus: () => this.light(name, true), onclick: () => this.light(name, true) },
    h('th', { scope: 'row' }, field.label), h('td', { class: 'value' }, field.value ?? h('span', { class: 'dim' }, say(...STATUS[field.status]))),
    h('td', { class: 'sure' }, field.status === 'read' ? percent(field.confidence) : ''),
    h('td', {}, ...verdicts(field), passes(field) ? h('span', { class: 'good' }, say('✓ 校验通过', '✓ holds')) : '')));
    const missing = (certificate.missing || []).map((name) => certificate.fields[name]?.label || name);
    return h('div', {}, missing.length ? h('p', { class: 'bad' }, say('必填项没有读出：', 'Required and not read: '), missing.join('、')) : '',
      h('table', {}, h('thead', {}, h('tr', {}, head.map((text) => h('th', { scope: 'col' }, text)))), h('tbody', {}, rows)));
  }

  drawChecks(batch) {
    if (!batch.checks) return '';
    const rows = batch.checks.map((check) => h('li', { class: check.agrees ? 'good' : 'bad' }, `${check.agrees ? '✓' : '✗'} ${of('message_zh', 'message_en', check)}`,
      check.agrees ? '' : h('div', { class: 'dim small' }, `${typeName(this.me.types, check.reference.doc_type)}「${check.reference.value}」 / ${typeName(this.me.types, check.compared.doc_type)}「${check.compared.value}」`)));
    return h('div', { class: 'checks' }, h('h3', {}, say('同一供应商各证照互相核对', 'The papers of this supplier, against each other')),
      rows.length ? h('ul', {}, rows) : h('p', { class: 'dim' }, say('没有可以互相核对的内容。', 'Nothing to compare.')));
  }

  downloads(row) {
    const path = row.batch.rows.length > 1 ? `/v1/batches/${row.batch.id}/results` : `/v1/documents/${row.id}/result`;
    return h('span', { class: 'downloads' }, say('下载', 'Download'), ['json', 'csv', 'xlsx'].map((kind) => h('a', {
      href: `${path}?format=${kind}`, download: `certloop.${kind}` }, kind.toUpperCase())));
  }

  light(name, near = false, scroll = false) {
    this.viewer.light(name, near);
    for (const row of this.table.querySelectorAll('tr[data-field]')) {
      const on = row.dataset.field === name;
      row.classList.toggle('lit', on);
      if (on && scroll) row.scrollIntoView({ block: 'nearest' });
    }
  }
}
// Ids of this window's batches, kept until it is closed; nothing of what was read.
function remembered() { try { return JSON.parse(sessionStorage.getItem('certloop-batches')) || []; } catch { return []; } }
function remember(batches) { sessionStorage.setItem('certloop-batches', JSON.stringify(batches)); }

const SAMPLE = {
  'licence_2019_scan.jpg': ['营业执照·横版', 'licence, wide'], 'licence_2015_vertical.jpg': ['营业执照·竖版', 'licence, tall'],
  'licence_2008_two_column_copy.jpg': ['旧版执照·复印件', 'old licence, copy'], 'individual_photo_rotated.jpg': ['个体户·倒着拍的照片', 'sole trader, turned photo'],
  'food_permit_photo.jpg': ['食品经营许可证·照片', 'food permit, photo'], 'account_permit_scan.jpg': ['开户许可证', 'bank account permit'],
  'device_permit_clean.jpg': ['医疗器械经营许可证', 'medical device permit'], 'identity_card_front.jpg': ['身份证正面', 'identity card'],
  'invoice_unknown.png': ['发票（不认识的类型）', 'invoice (unknown kind)'], 'supplier_dossier.pdf': ['供应商成套材料 PDF', 'supplier dossier, PDF'],
};
const UPLOAD_STYLE = `
.top { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); gap: 16px; }
.drop { border: 2px dashed #66767f; border-radius: 10px; padding: 22px; text-align: center; display: grid; gap: 12px; justify-items: center; background: #f7f9fa; }
.drop.over { background: #dcebea; border-color: #0f766e; }
.check { display: flex; gap: 8px; align-items: center; } .check input { min-height: 0; width: 18px; height: 18px; }
.chips { display: flex; flex-wrap: wrap; gap: 6px; } [aria-pressed=true] { border-color: #0f766e; background: #dcebea; font-weight: 600; }
.said { min-height: 24px; margin: 8px 0; }
.below { display: grid; gap: 14px; }
.files { list-style: none; margin: 0; padding: 0; display: flex; flex-wrap: wrap; gap: 8px; }
.files li { flex: 0 1 300px; min-width: 0; }
.files button { width: 100%; min-height: 68px; text-align: left; display: grid; grid-template-columns: minmax(0, 1fr) auto; gap: 2px 8px; align-items: center; align-content: start; }
.files button:disabled { opacity: 1; } .files .chosen button { border-color: #0f766e; box-shadow: inset 3px 0 #0f766e; }
.name { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; } .kinds, progress { grid-column: 1 / -1; overflow-wrap: anywhere; } progress { width: 100%; height: 8px; }
.head { display: flex; gap: 10px; align-items: center; flex-wrap: wrap; margin-bottom: 6px; } .head h2 { margin: 0; } .space { flex: 1; }
.downloads { display: flex; gap: 10px; align-items: center; }
.split { display: grid; grid-template-columns: minmax(0, 1.1fr) minmax(0, 1fr); gap: 16px; margin-top: 8px; align-items: start; } .split certloop-viewer { position: sticky; top: 8px; }
table { width: 100%; border-collapse: collapse; table-layout: fixed; } th, td { text-align: left; vertical-align: top; padding: 6px 8px; border-bottom: 1px solid #d5dde1; overflow-wrap: anywhere; }
thead th { font-size: 13px; color: #4a5a63; } th:nth-child(1) { width: 24%; } th:nth-child(3) { width: 72px; } th:nth-child(4) { width: 27%; } tbody th { font-weight: 600; }
tbody tr { cursor: pointer; } tr.lit { background: #fdf1cf; } td.value { white-space: pre-wrap; }
.checks { margin-top: 12px; } .checks ul { margin: 0; padding-left: 0; list-style: none; display: grid; gap: 4px; }
@media (max-width: 860px) { .top, .split { grid-template-columns: minmax(0, 1fr); } .split certloop-viewer { --viewer-height: 46vh; position: static; } thead { display: none; } table, tbody { display: block; } tr { display: grid; grid-template-columns: minmax(0, 1fr) auto; border-bottom: 1px solid #d5dde1; padding: 4px 0; } th, td { border: 0; padding: 2px 6px; } tbody th:nth-child(1), th:nth-child(4) { width: auto; } td.value { grid-column: 1 / -1; grid-row: 2; font-size: 16px; } td:empty { display: none; } td:nth-child(4) { grid-column: 1 / -1; } .head .space { display: none; } .files li { flex-basis: 100%; } }
`;
customElements.define('certloop-upload', Upload);
