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

READ_SECRETS = (
    "(() => {"
    + _SECRET_FIELDS
    + """
  const found = [];
  const visit = (root) => {
    for (const each of root.querySelectorAll('*')) {
      if (each.shadowRoot) visit(each.shadowRoot);
      if (isSecret(each) && each.value) found.push(each.value);
    }
  };
  visit(document);
  return found;
})()"""
)

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
SCROLL_POSITION = "[scrollY, innerHeight, document.documentElement.scrollHeight]"
