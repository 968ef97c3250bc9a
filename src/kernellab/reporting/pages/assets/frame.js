// Inside the frame of another document: that document says whether its reader chose light or dark.
addEventListener("message", ({ source, data }) => {
  if (source !== parent || source === window || !["light", "dark"].includes(data?.theme)) return;
  document.documentElement.style.colorScheme = data.theme;
  document.getElementById("dark").media = data.theme === "dark" ? "all" : "not all";
  document.dispatchEvent(new CustomEvent("themechange"));
});
