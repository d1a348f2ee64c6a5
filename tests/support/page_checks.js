// What must hold on every page of the dashboard, whatever it shows: each returns what is wrong.
(() => {
  const shown = () => document.querySelector(".page:not([hidden])");

  // Headings, labels, tables and pictures as a screen reader needs them; nothing wider than the window.
  function structure() {
    const wrong = [], page = shown();
    [...document.querySelectorAll("h1, .page:not([hidden]) :is(h2, h3, h4)")].reduce((level, each) => {
      const now = Number(each.tagName[1]);
      if (now > level + 1) wrong.push(`the heading '${each.textContent}' skips a level`);
      if (!each.textContent.trim()) wrong.push("a heading is empty");
      return now;
    }, 0);
    for (const each of page.querySelectorAll("input, textarea"))
      if (!each.labels.length || !each.labels[0].textContent.trim()) wrong.push(`no label: ${each.name}`);
    for (const each of page.querySelectorAll("button, a"))
      if (!each.textContent.trim()) wrong.push(`no name: ${each.outerHTML}`);
    for (const each of page.querySelectorAll("table")) {
      if (!each.caption?.textContent) wrong.push("a table has no caption");
      if ([...each.querySelectorAll("th")].some(cell => cell.scope !== "col")) wrong.push("th without scope");
    }
    for (const each of page.querySelectorAll("svg"))
      if (each.getAttribute("role") !== "img" || !each.getAttribute("aria-label")) wrong.push("svg without a label");
    for (const each of page.querySelectorAll(".scroll"))
      if (each.scrollWidth > each.clientWidth && each.tabIndex !== 0) wrong.push(`#${each.id} is not scrolled by the keyboard`);
    if (document.querySelectorAll("nav [aria-current]").length !== 1) wrong.push("no current page");
    const width = document.documentElement.scrollWidth;
    if (width > innerWidth) wrong.push(`${width} wide in a window of ${innerWidth}`);
    return wrong;
  }

  // The relative luminance of WCAG 2, of a colour as the browser computes it.
  function luminance(colour) {
    const [r, g, b] = colour.match(/[\d.]+/g).slice(0, 3).map(each => {
      const part = Number(each) / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  }

  function background(element) {
    for (let each = element; each; each = each.parentElement) {
      const colour = getComputedStyle(each).backgroundColor;
      if (!/, 0\)$|transparent/.test(colour)) return colour;
    }
    return getComputedStyle(document.body).backgroundColor;
  }

  // Texts whose contrast to their background is below 4.5 to 1.
  function contrast() {
    const low = new Set();
    let count = 0;
    for (const each of document.querySelectorAll("header *, #bar *, .page:not([hidden]) *")) {
      const hasText = [...each.childNodes].some(one => one.nodeType === Node.TEXT_NODE && one.data.trim());
      if (!each.offsetParent || each.closest("svg") || !hasText) continue;
      count += 1;
      const [a, b] = [luminance(getComputedStyle(each).color), luminance(background(each))].sort((x, y) => y - x);
      const ratio = (a + 0.05) / (b + 0.05);
      if (!(ratio >= 4.5)) low.add(`${each.tagName}.${each.className} '${each.textContent.slice(0, 20)}': ${ratio.toFixed(2)}`);
    }
    return count ? [...low] : ["no text was found"];
  }

  return { structure, contrast };
})()
