// Every visible piece of text with its WCAG 2.2 contrast (relative luminance, success criterion 1.4.3) against what stands behind it,
// shadow roots included. Returns those below the bound: 4.5, or 3 for text of 24 px, or 18.66 px and bold. Disabled controls are exempt.
() => {
  const parse = (text) => {
    const canvas = parse.canvas ??= new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = text; canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, below) => top.slice(0, 3).map((value, i) => value * top[3] + below[i] * (1 - top[3]));
  const luminance = (rgb) => rgb.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ratio = (a, b) => { const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
  const parent = (node) => node.assignedSlot || node.parentElement || node.getRootNode().host || null;
  const behind = (element) => {
    const layers = [];
    for (let node = element; node; node = parent(node)) {
      const style = getComputedStyle(node);
      if (style.backgroundImage !== 'none' && style.backgroundImage.includes('url(')) return null; // a picture: nothing to compute
      const colour = parse(style.backgroundColor);
      if (colour[3] > 0) layers.push(colour);
      if (colour[3] === 1) break;
    }
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255]);
  };
  const found = [], seen = { count: 0 };
  const look = (text, element, pseudo) => {
    const style = getComputedStyle(element, pseudo), box = element.getBoundingClientRect();
    if (!element.checkVisibility({ opacityProperty: true, visibilityProperty: true }) || !box.width || !box.height) return;
    if (element.closest(':disabled, [aria-disabled=true]')) return;
    const ground = behind(element);
    if (!ground) return;
    seen.count += 1;
    let opacity = 1;
    for (let node = element; node; node = parent(node)) opacity *= Number(getComputedStyle(node).opacity);
    const colour = parse(element instanceof SVGElement ? style.fill : style.color);
    colour[3] *= opacity;
    const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const value = ratio(over(colour, ground), ground);
    if (value < (large ? 3 : 4.5)) found.push(`${value.toFixed(2)} ${style.color} on ${ground.map(Math.round)} ${element.tagName}.${element.className} "${text.trim().slice(0, 40)}"`);
  };
  const walk = (root) => {
    for (const element of root.querySelectorAll('*')) {
      if (element.shadowRoot) walk(element.shadowRoot);
      if (['STYLE', 'SCRIPT', 'TITLE', 'NOSCRIPT', 'OPTION'].includes(element.tagName)) continue;
      for (const node of element.childNodes) if (node.nodeType === 3 && node.data.trim()) look(node.data, element);
      if (['INPUT', 'TEXTAREA', 'SELECT'].includes(element.tagName) && element.type !== 'file' && (element.value || element.placeholder)) look(element.value || element.placeholder, element, element.value ? undefined : '::placeholder');
    }
  };
  walk(document);
  return { found, count: seen.count };
}
