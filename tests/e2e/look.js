/** The page measured as a thing to look at and to handle. Test code only. */
(() => {
  const shifts = [];
  const note = (entry) => ({ value: entry.value, moved: entry.sources.map(({ node }) => node?.className || node?.nodeName) });
  new PerformanceObserver((list) => shifts.push(...list.getEntries().filter(({ hadRecentInput }) => !hadRecentInput).map(note))).observe({
    type: "layout-shift",
    buffered: true,
  });
  const HANDLED = "button, select, textarea, input, summary, a[href], [tabindex='0']";
  const seen = (element) => element.checkVisibility({ visibilityProperty: true }) && !element.closest("[inert]");
  const named = (element) => element.name || element.id || element.dataset.part || element.className || element.textContent;

  window.look = {
    shifts,

    /** What can be handled now, in the page's order: of radio buttons the chosen one, which stands for all. */
    handled: () =>
      [...document.querySelectorAll(".vx")].flatMap((root) => [...root.querySelectorAll(HANDLED)]).filter((element) => {
        return seen(element) && !element.disabled && (element.type !== "radio" || element.checked);
      }),

    names: () => look.handled().map(named),

    /** Which of them has the focus now, and whether one sees that. Null: none. */
    focused() {
      const element = document.activeElement;
      if (!element?.closest(".vx")) return null;
      const ring = element.type === "radio" ? element.nextElementSibling : element;
      const { outlineStyle, outlineWidth } = getComputedStyle(ring);
      return { name: named(element), ringed: outlineStyle !== "none" && parseFloat(outlineWidth) >= 2 };
    },

    /** What is too small for a finger. Links amid text may be, and what is inside a label is as large as that. */
    small: (least) =>
      [...document.querySelectorAll(`.vx :is(${HANDLED}), .vx label:has(input)`)]
        .filter((element) => seen(element) && !element.matches("label input, .vx-lines") && getComputedStyle(element).display !== "inline")
        .map((element) => [named(element), element.getBoundingClientRect()])
        .filter(([, { width, height }]) => width < least || height < least)
        .map(([name, { width, height }]) => `${name}: ${width.toFixed()} x ${height.toFixed()}`),

    /** The levels of the headings, in the page's order. */
    headings: () => [...document.querySelectorAll("h1, h2, h3, h4, h5, h6")].filter(seen).map(({ tagName }) => Number(tagName[1])),

    /** Ids that stand twice, and those that are named where there is no such element. */
    ids() {
      const ids = [...document.querySelectorAll("[id]:not([id=''])")].map(({ id }) => id);
      const twice = ids.filter((id, i) => ids.indexOf(id) !== i);
      const names = ["aria-labelledby", "aria-describedby", "aria-controls", "for"];
      const meant = names.flatMap((name) => [...document.querySelectorAll(`.vx [${name}]`)].flatMap((element) => element.getAttribute(name).split(" ")));
      return [...twice, ...meant.filter((id) => !ids.includes(id))];
    },
  };
})();
