"use strict";
const filter = document.getElementById("filter");
// Shows the findings that contain every word of the filter, which the fragment of the address keeps for a link.
function show() {
  const words = filter.value.toLowerCase().split(/\s+/);
  const severities = new Set([...document.querySelectorAll("form input:checked")].map(box => box.value));
  let shown = 0, all = 0;
  for (const section of document.querySelectorAll("section")) {
    let some = 0;
    for (const row of section.querySelectorAll("tbody tr")) {
      const text = (section.dataset.reason + " " + row.textContent).toLowerCase();
      row.hidden = !severities.has(section.dataset.severity) || !words.every(word => text.includes(word));
      some += !row.hidden;
      all++;
    }
    section.hidden = some === 0;
    shown += some;
  }
  document.getElementById("shown").textContent = shown + " of " + all;
}
if (filter) {
  filter.value = decodeURIComponent(location.hash.slice(1));
  document.querySelector("form").addEventListener("input", () => { history.replaceState(null, "", "#" + encodeURIComponent(filter.value)); show(); });
  show();
}
