// Light or dark: the system's choice until the reader makes one. It runs before the page is drawn.
(() => {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const stored = () => {
    try { return localStorage.getItem("kernellab-theme"); } catch { return null; } // a page from disk may have no storage
  };
  const apply = (theme) => {
    root.dataset.theme = theme;
    const button = document.getElementById("theme");
    if (button) {
      button.hidden = false;
      button.textContent = theme === "dark" ? "Light" : "Dark";
      button.setAttribute("aria-label", `switch to ${theme === "dark" ? "light" : "dark"} colours`);
    }
    document.dispatchEvent(new CustomEvent("themechange", { detail: theme }));
  };
  const current = () => stored() ?? (system.matches ? "dark" : "light");
  apply(current());
  system.addEventListener("change", () => apply(current()));
  document.addEventListener("DOMContentLoaded", () => {
    apply(current());
    document.getElementById("theme")?.addEventListener("click", () => {
      const theme = root.dataset.theme === "dark" ? "light" : "dark";
      try { localStorage.setItem("kernellab-theme", theme); } catch { /* the choice lasts as long as the page */ }
      apply(theme);
    });
  });
})();
