// The search looks through search-index.js, which is loaded when the reader begins to type: no server is needed.
"use strict";
{
  const root = new URL(".", document.currentScript.src);
  const input = document.getElementById("search");
  const results = document.getElementById("results");
  const most = 20;
  let loading;

  // On a narrow screen the contents would come before the page.
  const menu = document.querySelector(".menu");
  if (matchMedia("(max-width: 52rem)").matches) menu.open = false;

  function load() {
    loading ??= new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = new URL("search-index.js", root).href;
      script.onload = () => {
        for (const e of window.searchIndex) e.low = [e.t, e.h || "", e.x].map((text) => text.toLowerCase());
        resolve(window.searchIndex);
      };
      script.onerror = () => reject(new Error("the index cannot be loaded"));
      document.head.append(script);
    });
    return loading;
  }

  // score returns how well an entry fits: all words must occur, and count more in titles than in texts, and
  // more at the beginning of a word.
  function score(entry, words) {
    let sum = 0;
    for (const word of words) {
      let best = 0;
      entry.low.forEach((text, i) => {
        const at = text.indexOf(word);
        if (at < 0) return;
        const begins = at === 0 || /[^\p{L}\p{N}]/u.test(text[at - 1]);
        best = Math.max(best, [12, 10, 2][i] * (begins ? 2 : 1));
      });
      if (best === 0) return 0;
      sum += best;
    }
    if (entry.low[2].includes(words.join(" "))) sum += 3;
    return entry.h ? sum : sum + 1;
  }

  // excerpt returns the text around the first word that occurs.
  function excerpt(entry, words) {
    const at = Math.max(0, Math.min(...words.map((w) => entry.low[2].indexOf(w)).filter((i) => i >= 0), entry.x.length) - 40);
    const from = at >= entry.x.length - 40 ? 0 : at;
    return (from > 0 ? "… " : "") + entry.x.slice(from, from + 160) + (from + 160 < entry.x.length ? " …" : "");
  }

  function marked(text, words) {
    const span = document.createElement("span");
    const parts = text.split(new RegExp("(" + words.map((w) => w.replace(/[^\p{L}\p{N}]/gu, "\\$&")).join("|") + ")", "giu"));
    parts.forEach((part, i) => span.append(i % 2 ? Object.assign(document.createElement("mark"), { textContent: part }) : part));
    return span;
  }

  async function search() {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    if (words.length === 0) {
      results.hidden = true;
      return;
    }
    const entries = await load();
    const found = entries
      .map((entry) => ({ entry, score: score(entry, words) }))
      .filter((f) => f.score > 0)
      .sort((a, b) => b.score - a.score);
    results.replaceChildren(
      ...found.slice(0, most).map(({ entry }) => {
        const link = document.createElement("a");
        link.href = new URL(entry.u.slice(1), root).href;
        const title = document.createElement("strong");
        title.textContent = entry.h ? `${entry.t}: ${entry.h}` : entry.t;
        link.append(title, marked(excerpt(entry, words), words));
        return link;
      }),
    );
    if (found.length === 0) results.append(Object.assign(document.createElement("p"), { textContent: "Nothing found." }));
    results.hidden = false;
  }

  const close = () => (results.hidden = true);
  input.addEventListener("input", search);
  input.addEventListener("focus", search);
  input.form.addEventListener("submit", (event) => {
    event.preventDefault();
    results.querySelector("a")?.click();
  });
  results.addEventListener("click", close);
  document.addEventListener("click", (event) => event.target.closest(".search") || close());
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") close();
    else if (event.key === "/" && document.activeElement !== input) {
      event.preventDefault();
      input.focus();
    } else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && event.target.closest(".search") && !results.hidden) {
      event.preventDefault();
      const links = [...results.querySelectorAll("a")];
      const next = links.indexOf(document.activeElement) + (event.key === "ArrowDown" ? 1 : -1);
      (links[next] ?? input).focus();
    }
  });
}
