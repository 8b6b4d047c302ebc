// The login: the same users and roles as the API's; the cookie is set by /v1/login.
const english = new URLSearchParams(location.search).get('lang') === 'en';
const at = (id) => document.getElementById(id);
if (english) {
  document.documentElement.lang = 'en';
  document.title = 'Log in · Certificate desk';
  const words = { title: 'Certificate desk', 'l-tenant': 'Tenant', 'l-login': 'Login', 'l-password': 'Password', go: 'Log in', other: '中文' };
  for (const [id, text] of Object.entries(words)) at(id).textContent = text;
  at('other').href = '?lang=zh';
}
at('other').href += location.hash;
at('form').addEventListener('submit', async (event) => {
  event.preventDefault();
  at('go').disabled = true; at('said').textContent = '';
  const json = Object.fromEntries(['tenant', 'login', 'password'].map((id) => [id, at(id).value]));
  let words = english ? 'The server cannot be reached.' : '连不上服务器。';
  try {
    const answer = await fetch('/v1/login', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(json) });
    if (answer.ok) { location.href = `/desk/${english ? 'en' : 'zh'}/${location.hash}`; return; }
    const wait = answer.headers.get('retry-after');
    words = answer.status === 429
      ? (english ? `Too many failures; wait ${wait || 'some'} s.` : `错误次数太多，请等待 ${wait || '数'} 秒。`)
      : (english ? 'Tenant, login and password do not go together.' : '租户、账号或密码不对。');
  } catch { /* said below */ }
  at('said').textContent = words;
  at('go').disabled = false; at('password').select();
});
