// As Gradio does for the page itself, and before anything is drawn.
if (matchMedia("(prefers-color-scheme: dark)").matches) document.documentElement.classList.add("dark");
