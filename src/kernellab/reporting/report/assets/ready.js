// Says that the page is ready.
document.documentElement.dataset.ready = "yes";
