// Before anything is drawn, so that a page never flashes in the other colours.
const theme = localStorage.getItem("theme");
if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
document.documentElement.dataset.script = "";
