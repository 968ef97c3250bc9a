// Pictures of recordings stand in frames: each has scripts, ids and keys of its own. One is drawn when the reader comes near.
(() => {
  const frames = document.querySelectorAll("iframe[data-pictures]");
  const tell = (frame) => frame.contentWindow.postMessage({ theme: document.documentElement.dataset.theme }, "*");
  const near = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      near.unobserve(target);
      target.addEventListener("load", () => tell(target));
      target.srcdoc = JSON.parse(document.getElementById(target.dataset.pictures).textContent)[target.id];
    }
  }, { rootMargin: "400px" });
  for (const frame of frames) near.observe(frame);
  for (const [target, event] of [[document, "themechange"], [window, "beforeprint"], [window, "afterprint"]])
    target.addEventListener(event, () => frames.forEach(tell));
})();
