// Starts all parts of the page.
'use strict';

startTheme();
showOverview();
const graphView = startGraph();
startDetails(graphView);
const timeline = startTimeline();
const memoryCurve = startMemory(timeline);
const machineView = startMachine(graphView);
showStrategies();
showSearch();

addEventListener('keydown', (event) => {
  const typing = /INPUT|SELECT|TEXTAREA/.test(event.target.tagName);
  if (event.ctrlKey || event.metaKey || event.altKey || typing) return;
  if (event.key === '/') {
    event.preventDefault();
    byId('find').scrollIntoView({block: 'center'});
    byId('find').focus();
  } else if (event.key === 't') {
    byId('theme').click();
  } else if (event.key === 'Escape') {
    selection.set(null, 'keys');
  }
});

// Marks the link of the section in view.
const links = new Map([...document.querySelectorAll('.bar nav a')].map((a) => [a.hash.slice(1), a]));
const reading = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    for (const [id, a] of links) a.setAttribute('aria-current', String(id === entry.target.id));
  }
}, {rootMargin: '-30% 0px -60% 0px'});
for (const id of links.keys()) reading.observe(byId(id));
