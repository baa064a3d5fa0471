"use strict";
for (const form of document.querySelectorAll("form.filter")) {
  const article = document.getElementById(form.dataset.for);
  const rows = [...article.querySelectorAll("details.sentence[data-verdict]")];
  const texts = rows.map((row) => row.textContent.toLowerCase());
  const shown = form.querySelector("output");
  form.hidden = false;
  const apply = () => {
    const words = form.elements.words.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    rows.forEach((row, at) => {
      const box = form.elements[row.dataset.verdict];
      row.hidden = !(box.checked && words.every((word) => texts[at].includes(word)));
      count += row.hidden ? 0 : 1;
    });
    shown.textContent = `${count} of ${rows.length} sentences`;
  };
  form.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  apply();
}
const openTarget = () => {
  const place = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  for (let at = place; at; at = at.parentElement) if (at.tagName === "DETAILS") { at.open = true; at.hidden = false; }
  if (place) place.scrollIntoView();
};
addEventListener("hashchange", openTarget);
openTarget();
