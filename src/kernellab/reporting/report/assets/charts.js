// Draws each figure when it comes near the screen, and all of them before the page is printed.
(() => {
  const store = document.getElementById("figures");
  const places = [...document.querySelectorAll(".plot")];
  if (!store || !window.Plotly) return;
  const figures = JSON.parse(store.textContent);
  const drawn = new Set();
  const PRINTED_WIDTH = 680; // pixels: the text of an A4 page
  const fine = matchMedia("(pointer: fine)").matches; // a finger scrolls the page, it does not zoom the chart
  const config = { displayModeBar: false, displaylogo: false, responsive: true, showTips: false };

  const colours = () => {
    const style = getComputedStyle(document.documentElement), read = (name) => style.getPropertyValue(name).trim();
    const axis = { gridcolor: read("--rule"), zerolinecolor: read("--rule"), linecolor: read("--faint"), tickcolor: read("--faint") };
    return { paper: read("--paper"), ink: read("--ink"), band: read("--band"), rule: read("--rule"), axis };
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

  const observer = new IntersectionObserver((entries) => entries.forEach((entry) => {
    if (!entry.isIntersecting) return;
    observer.unobserve(entry.target);
    draw(entry.target);
  }), { rootMargin: "300px" });
  for (const place of places) {
    place.style.minHeight = `${place.dataset.height}px`;
    observer.observe(place);
  }
  document.addEventListener("themechange", recolour);

  let theme = "";
  addEventListener("beforeprint", () => {
    theme = document.documentElement.dataset.theme;
    document.documentElement.dataset.theme = "light";
    places.filter((place) => !place.closest("details:not([open])")).forEach(draw);
    drawn.forEach((place) => Plotly.relayout(place, { ...themed(figures[place.id].layout), autosize: false, width: PRINTED_WIDTH }));
  });
  addEventListener("afterprint", () => {
    document.documentElement.dataset.theme = theme;
    drawn.forEach((place) => Plotly.relayout(place, { ...themed(figures[place.id].layout), width: null, autosize: true }));
  });
})();
