"""The scripts that run in a page, in a world of their own that the page cannot change."""

# Which fields are secret: also those that once were, such as after "show password". `known` lives
# as long as the document.
_SECRET_FIELDS = """
const isSecret = (field) => {
  if (!(field instanceof HTMLInputElement)) return false;
  const known = (globalThis.hermesSecretFields ??= new WeakSet());
  const hint = (field.getAttribute('autocomplete') || '').toLowerCase();
  if (field.type === 'password' || /password|one-time-code|cc-/.test(hint)) known.add(field);
  return known.has(field);
};
"""

MAX_READ_NODES = 200_000
"""Nodes of one frame that a snapshot looks at."""
MAX_READ_ROWS = 20_000
MAX_READ_CHARS = 500
"""Characters of one name, text or value."""

READ_PAGE = (
    "(globalThis.hermesReader ??= (() => {"
    + _SECRET_FIELDS
    + f"const MAX_NODES = {MAX_READ_NODES}, MAX_ROWS = {MAX_READ_ROWS}, MAX = {MAX_READ_CHARS};"
    + r"""
  // A form may have fields named like these properties, which would hide them.
  const getter = (kind, name) => {
    const found = Object.getOwnPropertyDescriptor(kind.prototype, name).get;
    return (node) => found.call(node);
  };
  const nodeType = getter(Node, 'nodeType'), childNodes = getter(Node, 'childNodes');
  const parentNode = getter(Node, 'parentNode'), localName = getter(Element, 'localName');
  const shadowRoot = getter(Element, 'shadowRoot');
  const attribute = (node, name) => Element.prototype.getAttribute.call(node, name);
  const clean = (text) => (text ? text.replace(/\s+/g, ' ').trim() : '');

  const INPUT_ROLES = {
    button: 'button', submit: 'button', reset: 'button', image: 'button', file: 'button',
    checkbox: 'checkbox', radio: 'radio', range: 'slider', number: 'spinbutton',
    search: 'searchbox', color: 'ColorWell', date: 'Date', month: 'Date', week: 'Date',
    'datetime-local': 'DateTime', time: 'InputTime',
  };
  const ROLES = {
    button: 'button', summary: 'DisclosureTriangle', textarea: 'textbox', option: 'option',
    h1: 'heading', h2: 'heading', h3: 'heading', h4: 'heading', h5: 'heading', h6: 'heading',
    nav: 'navigation', main: 'main', aside: 'complementary', form: 'form', section: 'region',
    article: 'article', ul: 'list', ol: 'list', menu: 'list', li: 'listitem', table: 'table',
    tr: 'row', td: 'cell', th: 'columnheader', dialog: 'dialog', fieldset: 'group',
    details: 'group', progress: 'progressbar', meter: 'meter', hr: 'separator',
    figure: 'figure', iframe: 'Iframe', frame: 'Iframe', canvas: 'Canvas', video: 'Video',
    audio: 'Audio', output: 'status', header: 'banner', footer: 'contentinfo', svg: 'image',
    optgroup: 'group',
  };
  const NAMED_BY_CONTENT = new Set([
    'button', 'link', 'heading', 'cell', 'gridcell', 'columnheader', 'rowheader', 'option', 'tab',
    'menuitem', 'menuitemcheckbox', 'menuitemradio', 'treeitem', 'checkbox', 'radio', 'switch',
    'tooltip', 'DisclosureTriangle',
  ]);
  const roleOf = (node, name) => {
    const given = clean(attribute(node, 'role')).split(' ')[0].toLowerCase();
    if (given && given !== 'generic') return given === 'presentation' ? 'none' : given;
    if (name === 'a' || name === 'area') return attribute(node, 'href') === null ? '' : 'link';
    if (name === 'input') {
      if (INPUT_ROLES[node.type]) return INPUT_ROLES[node.type];
      return node.list ? 'combobox' : 'textbox';
    }
    if (name === 'select') return node.multiple || node.size > 1 ? 'listbox' : 'combobox';
    if (name === 'img') return attribute(node, 'alt') === '' ? 'none' : 'image';
    return ROLES[name] || (isEditingHost(node) ? 'textbox' : '');
  };
  const isEditingHost = (node) => {
    const given = attribute(node, 'contenteditable');
    return given !== null && given !== 'false';
  };

  // What is shown of an element: nothing with what is in it, only what is in it, or itself too.
  const NOTHING = 0, INSIDE = 1, ITSELF = 2;
  const isVisible = Element.prototype.checkVisibility, VISIBLE = {visibilityProperty: true};
  let parts = new Map();
  const shownPart = (node, name) => {
    let part = parts.get(node);
    if (part === undefined) parts.set(node, part = findShownPart(node, name));
    return part;
  };
  const findShownPart = (node, name) => {
    if (attribute(node, 'aria-hidden') === 'true' || attribute(node, 'inert') !== null)
      return NOTHING;
    if (name === 'area' || name === 'option' || name === 'optgroup')
      return attribute(node, 'hidden') === null ? ITSELF : NOTHING;
    if (name === 'script' || name === 'style' || name === 'noscript') return NOTHING;
    if (isVisible.call(node, VISIBLE)) return ITSELF;
    const style = getComputedStyle(node);
    if (style.display !== 'contents' && !isVisible.call(node)) return NOTHING;
    return style.visibility === 'visible' ? ITSELF : INSIDE;
  };
  const contentOf = (node, name) => {
    const shadow = shadowRoot(node);
    if (shadow) return childNodes(shadow);
    if (name === 'slot' && node.assignedNodes) {
      const assigned = node.assignedNodes();
      if (assigned.length) return assigned;
    }
    const inner = childNodes(node);
    if (name !== 'details' || node.open) return inner;
    return Array.from(inner).filter((each) => each instanceof HTMLElement);  // none of its text
  };

  const INLINE = new Set(['a', 'abbr', 'b', 'bdi', 'bdo', 'cite', 'code', 'em', 'font', 'i', 'kbd',
    'mark', 'q', 's', 'small', 'span', 'strong', 'sub', 'sup', 'time', 'tspan', 'u', 'wbr']);
  // The text of an element as its name: what is hidden is left out.
  const textOf = (top) => {
    const first = top.firstChild;
    if (first && first === top.lastChild && nodeType(first) === 3 && !shadowRoot(top))
      return clean(first.data.slice(0, 2 * MAX)).slice(0, MAX);
    let text = '', looked = 0;
    const waiting = [top];
    while (waiting.length && text.length < 2 * MAX && looked++ < 2000) {
      const node = waiting.pop();
      if (typeof node === 'string') { text += node; continue; }
      if (nodeType(node) === 3) { text += node.data.slice(0, 2 * MAX); continue; }
      if (nodeType(node) !== 1) continue;
      const name = localName(node);
      if (node !== top) {
        const label = attribute(node, 'aria-label');
        if (shownPart(node, name) === NOTHING) continue;
        if (clean(label)) { text += ' ' + label + ' '; continue; }
        if (name === 'img') { text += ' ' + (attribute(node, 'alt') || '') + ' '; continue; }
        if (name === 'br') { text += ' '; continue; }
        if (name === 'select' || name === 'textarea') continue;
      }
      const apart = node !== top && !INLINE.has(name);
      if (name === 'svg') {
        const title = Element.prototype.querySelector.call(node, 'title');
        if (title) text += ' ' + title.textContent + ' ';
      }
      if (apart) { text += ' '; waiting.push(' '); }
      const inner = contentOf(node, name);
      for (let at = Math.min(inner.length, 2000) - 1; at >= 0; at--) waiting.push(inner[at]);
    }
    return clean(text).slice(0, MAX);
  };
  const captionOf = (node, kind) => {
    for (const each of childNodes(node))
      if (nodeType(each) === 1 && localName(each) === kind) return clean(each.textContent);
    return '';
  };
  const CAPTIONS = {
    fieldset: 'legend', table: 'caption', figure: 'figcaption', svg: 'title',
  };
  const nameOf = (node, name, role) => {
    const ids = clean(attribute(node, 'aria-labelledby'));
    if (ids) {
      const root = Node.prototype.getRootNode.call(node);
      const others = ids.split(' ').map((id) => root.getElementById && root.getElementById(id));
      const joined = clean(others.filter(Boolean).map(textOf).join(' '));
      if (joined) return joined;
    }
    const label = clean(attribute(node, 'aria-label'));
    if (label) return label;
    if (name === 'input' && INPUT_ROLES[node.type] === 'button' && node.type !== 'file') {
      const said = node.type === 'image' ? attribute(node, 'alt') : node.value;
      const usual = {submit: 'Submit', reset: 'Reset', image: 'Submit'}[node.type];
      return clean(said || attribute(node, 'title') || usual);
    }
    if (/^(input|select|textarea|meter|progress|output|button)$/.test(name) && node.labels) {
      const labels = clean(Array.from(node.labels).map(textOf).join(' '));
      if (labels) return labels;
    }
    if (name === 'option' || name === 'optgroup') return clean(node.label);
    if (name === 'img' || name === 'area') {
      const alternative = clean(attribute(node, 'alt'));
      if (alternative) return alternative;
    }
    const caption = CAPTIONS[name] ? captionOf(node, CAPTIONS[name]) : '';
    if (caption) return caption;
    const text = NAMED_BY_CONTENT.has(role) ? textOf(node) : '';
    return text || clean(attribute(node, 'title')) || clean(attribute(node, 'placeholder'));
  };
  const valueOf = (node, name, role) => {
    if (isSecret(node)) return node.value ? '••••' : '';
    if (name === 'input')
      return /^(checkbox|radio|button|submit|reset|image)$/.test(node.type) ? '' : node.value;
    if (name === 'textarea') return node.value;
    if (name === 'select' && !node.multiple)
      return node.selectedOptions.length ? clean(node.selectedOptions[0].label) : '';
    if (name === 'progress' || name === 'meter') return String(node.value);
    if (role === 'textbox' || role === 'searchbox') return textOf(node);
    return attribute(node, 'aria-valuetext') || attribute(node, 'aria-valuenow') || '';
  };
  const statesOf = (node, name, role) => {
    const states = [];
    const add = (state, value) => {
      if (value === true || value === 'true') states.push(state);
      else if (value && value !== 'false') states.push(state + '=' + String(value).slice(0, 20));
    };
    const box = name === 'input' && /^(checkbox|radio)$/.test(node.type);
    if (role === 'heading')
      states.push('level ' + (attribute(node, 'aria-level') || name.slice(1) || 2));
    add('checked', box ? (node.indeterminate ? 'mixed' : node.checked)
      : attribute(node, 'aria-checked'));
    add('selected', name === 'option' ? node.selected : attribute(node, 'aria-selected'));
    const folded = name === 'summary' && parentNode(node) instanceof HTMLDetailsElement;
    add('expanded', folded ? parentNode(node).open : attribute(node, 'aria-expanded'));
    add('pressed', attribute(node, 'aria-pressed'));
    const control = /^(input|select|textarea|button|option|fieldset|optgroup)$/.test(name);
    add('disabled', (control && node.disabled) || attribute(node, 'aria-disabled'));
    add('required', (control && node.required) || attribute(node, 'aria-required'));
    const wrong = control && node.willValidate && !node.validity.valid;
    add('invalid', wrong || attribute(node, 'aria-invalid'));
    return states;
  };

  const known = (globalThis.hermesElements ??= {numbers: new WeakMap(), references: []});
  const numberOf = (node) => {
    if (!known.numbers.has(node)) {
      known.numbers.set(node, known.references.length);
      known.references.push(new WeakRef(node));
    }
    return known.numbers.get(node);
  };
  const ACTIVE = new Set([
    'button', 'link', 'textbox', 'searchbox', 'checkbox', 'radio', 'combobox', 'listbox', 'option',
    'menuitem', 'menuitemcheckbox', 'menuitemradio', 'tab', 'switch', 'slider', 'spinbutton',
    'treeitem', 'ColorWell', 'Date', 'DateTime', 'InputTime', 'DisclosureTriangle',
  ]);
  const FIELDS = new Set(['textbox', 'searchbox', 'spinbutton']);
  const TRANSPARENT = new Set(['', 'none', 'paragraph', 'strong', 'emphasis', 'code', 'mark',
    'time', 'rowgroup', 'term', 'definition', 'listmarker']);

  return () => {
  const rows = [], secrets = [];
  parts = new Map();
  const findSecrets = (root) => {
    for (const each of root.querySelectorAll('input')) {
      if (isSecret(each) && each.value) secrets.push(each.value);
    }
  };
  findSecrets(document);
  let looked = 0;
  const modal = document.querySelector('dialog:modal');
  const top = modal || document.documentElement;
  const waiting = top ? [[top, 0, '', true]] : [];
  while (waiting.length && rows.length < MAX_ROWS && looked++ < MAX_NODES) {
    const [node, depth, around, visible] = waiting.pop();
    const kind = nodeType(node);
    if (kind === 3) {
      const text = visible ? clean(node.data.slice(0, 10 * MAX)) : '';
      if (text && !(around && around.includes(text)))
        rows.push([depth, 'text', text.slice(0, MAX), '', null, []]);
      continue;
    }
    if (kind !== 1) continue;
    const name = localName(node), part = shownPart(node, name);
    if (part === NOTHING) continue;
    let role = part === ITSELF ? roleOf(node, name) : '';
    const inner = contentOf(node, name), shadow = shadowRoot(node);
    if (shadow) findSecrets(shadow);
    if (!role && name.includes('-') && !shadow && !inner.length && node.offsetWidth)
      role = 'custom element';  // what is in a closed shadow root cannot be read
    let next = depth, text = '';
    if (!TRANSPARENT.has(role)) {
      const custom = role === 'custom element', active = custom || ACTIVE.has(role);
      text = custom ? name : nameOf(node, name, role);
      const drawn = name !== 'svg' && /^(Iframe|img|image)$/.test(role);
      if (active || text || drawn) {
        rows.push([depth, role, text.slice(0, MAX),
          clean(valueOf(node, name, role).slice(0, 10 * MAX)).slice(0, MAX),
          active ? numberOf(node) : null, statesOf(node, name, role)]);
        next = depth + 1;
        if (FIELDS.has(role)) continue;  // what is in a field is its value
      }
    }
    if (name === 'option') continue;
    for (let at = inner.length - 1; at >= 0; at--)
      waiting.push([inner[at], next, text || around, part === ITSELF]);
  }
  return {rows, secrets, cut: waiting.length > 0,
    scroll: [scrollY, innerHeight, document.documentElement?.scrollHeight ?? 0]};
  };
})())()"""
)
"""Reads the frame as rows of depth, role, name, value, number and states; and values of password
fields, also of hidden ones."""

FIND_ELEMENT = "globalThis.hermesElements?.references[{number}]?.deref()"

WAIT_UNTIL_QUIET = """
new Promise((done) => {
  let timer;
  const end = () => { observer.disconnect(); done(document.readyState); };
  const again = () => { clearTimeout(timer); timer = setTimeout(end, 80); };
  const observer = new MutationObserver(again);
  observer.observe(document, {subtree: true, childList: true, attributes: true,
                              characterData: true});
  again();
  setTimeout(end, 1000);
})
"""
"""Ends when nothing has changed for a moment, or after a second."""

CLICK = """
function () {
  if (!this.isConnected) return 'gone';
  if (this instanceof HTMLOptionElement && this.closest('select')) {
    const select = this.closest('select');
    if (select.multiple) this.selected = !this.selected; else this.selected = true;
    select.dispatchEvent(new Event('input', {bubbles: true}));
    select.dispatchEvent(new Event('change', {bubbles: true}));
    return 'done';
  }
  const element = this instanceof Element ? this : this.parentElement;
  if (element.click) element.click();
  else element.dispatchEvent(new MouseEvent('click', {bubbles: true, cancelable: true}));
  return 'done';
}
"""

IS_HIT_AT = """
function (x, y) {
  let hit = document.elementFromPoint(x, y);
  while (hit && hit.shadowRoot) {
    const inner = hit.shadowRoot.elementFromPoint(x, y);
    if (!inner || inner === hit) break;
    hit = inner;
  }
  const path = (node) => {
    const all = [];
    for (let at = node; at; at = at.parentNode || at.host) all.push(at);
    return all;
  };
  const above = path(hit);
  return above.includes(this) || (hit !== null && path(this).includes(hit)) ||
    Array.from(this.labels || []).some((label) => above.includes(label));
}
"""
"""Whether a point of the window is on the element, on its label, or on what it is in."""

TYPE_TEXT = (
    "function (text, submit) {"
    + _SECRET_FIELDS
    + """
  if (!this.isConnected) return 'gone';
  if (isSecret(this)) return 'secret';
  if (this.disabled || this.readOnly) return 'fixed';
  if (this instanceof HTMLInputElement && this.type === 'file') return 'file';
  this.scrollIntoView({block: 'center'});
  this.focus();
  if (!this.isConnected) return 'moved';
  if (isSecret(this)) return 'secret';
  const changed = () => {
    this.dispatchEvent(new InputEvent('input', {bubbles: true, inputType: 'insertText',
                                                data: text}));
    this.dispatchEvent(new Event('change', {bubbles: true}));
  };
  if (this instanceof HTMLSelectElement) {
    const wanted = Array.from(this.options).find(
      (each) => each.value === text || each.label.trim() === text.trim());
    if (!wanted)
      return 'options: ' + Array.from(this.options).map((each) => each.label).join(' | ');
    wanted.selected = true;
    changed();
  } else if (this instanceof HTMLInputElement || this instanceof HTMLTextAreaElement) {
    if (/^(checkbox|radio|button|submit|reset|image)$/.test(this.type)) return 'untyped';
    const kind = this instanceof HTMLInputElement ? HTMLInputElement : HTMLTextAreaElement;
    Object.getOwnPropertyDescriptor(kind.prototype, 'value').set.call(this, text);
    changed();
  } else if (this.isContentEditable) {
    getSelection().selectAllChildren(this);
    document.execCommand('insertText', false, text);
  } else {
    return 'untyped';
  }
  if (!submit) return 'done';
  if (!this.form) return 'press';
  this.form.requestSubmit();
  return 'done';
}
"""
)

READ_IMAGES = """
(() => Array.from(document.images).map((each) => ({
  source: (each.currentSrc || each.src || '').slice(0, 300), text: each.alt || '',
  width: each.naturalWidth, height: each.naturalHeight,
})).filter((each) => each.source))()
"""

SCROLLS = {
    "down": "scrollBy(0, innerHeight * 0.8)",
    "up": "scrollBy(0, -innerHeight * 0.8)",
    "top": "scrollTo(0, 0)",
    "bottom": "scrollTo(0, document.documentElement.scrollHeight)",
}
HAS_CANVAS = "document.querySelector('canvas') !== null"
