// Draws each figure when it comes near the screen, and all of them before the page is printed. Plotly is packed in the
// page; it is started when a figure comes near, or a second after the page can be used, which `data-charts` says.
(() => {
  const store = document.getElementById("figures"), packed = document.getElementById("plotly");
  const places = [...document.querySelectorAll(".plot")];
  if (!store || !packed) return;
  const figures = JSON.parse(store.textContent);
  const drawn = new Set();
  const PRINTED_WIDTH = 680; // pixels: the text of an A4 page
  const fine = matchMedia("(pointer: fine)").matches; // a finger scrolls the page, it does not zoom the chart
  const config = { displayModeBar: false, displaylogo: false, responsive: true, showTips: false };

  const colours = () => {
    const style = getComputedStyle(document.documentElement), read = (name) => style.getPropertyValue(name).trim();
    const rule = read("--rule"), faint = read("--faint");
    const axis = { gridcolor: rule, zerolinecolor: rule, linecolor: faint, tickcolor: faint };
    return { paper: read("--paper"), ink: read("--ink"), band: read("--band"), rule, axis };
  };
  const themed = (layout) => {
    const { paper, ink, band, rule, axis } = colours(), result = structuredClone(layout);
    for (const name of Object.keys(result).filter((key) => /^[xy]axis/.test(key))) {
      result[name] = { ...result[name], ...axis, fixedrange: !fine };
    }
    return Object.assign(result, {
      paper_bgcolor: paper, plot_bgcolor: paper, autosize: true, dragmode: fine ? "zoom" : false,
      font: { color: ink, family: "system-ui, sans-serif", size: 13 },
      hoverlabel: { bgcolor: band, bordercolor: rule, font: { color: ink } },
    });
  };
  const draw = (place) => {
    if (drawn.has(place)) return;
    drawn.add(place);
    place.style.minHeight = "";
    const figure = figures[place.id];
    if (figure) Plotly.newPlot(place, figure.data, themed(figure.layout), config);
  };
  const recolour = () => drawn.forEach((place) => Plotly.relayout(place, themed(figures[place.id].layout)));

  const unpack = async () => {
    const bytes = Uint8Array.from(atob(packed.textContent), (character) => character.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).text();
  };
  let started = null;
  const start = () => started ??= unpack().then((text) => {
    const script = document.createElement("script");
    script.textContent = text; // the page's policy allows it by its hash
    document.head.append(script);
    document.documentElement.dataset.charts = "ready";
  }).catch(() => {
    places.forEach((place) => { place.textContent = "This browser cannot draw the chart. Its numbers are below."; });
  });
  const observer = new IntersectionObserver((entries) => entries.forEach((entry) => {
    if (!entry.isIntersecting) return;
    observer.unobserve(entry.target);
    start().then(() => window.Plotly && draw(entry.target));
  }), { rootMargin: "300px" });
  for (const place of places) {
    place.style.minHeight = `${place.dataset.height}px`;
    observer.observe(place);
  }
  const whenIdle = window.requestIdleCallback ?? setTimeout;
  addEventListener("load", () => setTimeout(() => whenIdle(start), 1000)); // for paper, and for readers who scroll fast
  document.addEventListener("themechange", recolour);

  const showNumbers = (place) => {
    for (const details of place.parentElement.querySelectorAll("details")) details.open = true;
  };

  let theme = "";
  addEventListener("beforeprint", () => {
    theme = document.documentElement.dataset.theme;
    document.documentElement.dataset.theme = "light";
    const visible = places.filter((place) => !place.closest("details:not([open])"));
    if (window.Plotly) visible.forEach(draw);
    else visible.forEach(showNumbers);
    const onPaper = (layout) => ({ ...themed(layout), autosize: false, width: PRINTED_WIDTH });
    drawn.forEach((place) => Plotly.relayout(place, onPaper(figures[place.id].layout)));
  });
  addEventListener("afterprint", () => {
    document.documentElement.dataset.theme = theme;
    drawn.forEach((place) => Plotly.relayout(place, { ...themed(figures[place.id].layout), width: null, autosize: true }));
  });
})();
