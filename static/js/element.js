/** Elements made by hand. */

/**
 * @param {string} tag
 * @param {string} className
 * @param {string | Record<string, any>} [more] its text, or its properties
 * @param {...(Node | string)} children
 */
export function element(tag, className, more = "", ...children) {
  const made = document.createElement(tag);
  made.className = className;
  Object.assign(made, typeof more === "string" ? { textContent: more } : more);
  made.append(...children);
  return made;
}

/** A link to elsewhere, if it is one: a card's words are not ours to run. */
export function anchor(text, href) {
  if (!href.startsWith("https://")) return text;
  return element("a", "", { textContent: text, href, target: "_blank", rel: "noopener" });
}

/** Screen readers repeat what is written; so only news is. */
export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
