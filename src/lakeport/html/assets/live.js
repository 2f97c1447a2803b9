// Served pages alone: running loads are asked for every two seconds, until the server has ended.
"use strict";
(() => {
  const running = document.querySelector("main > .running");
  if (!running) return;
  const runs = () => [...running.querySelectorAll("[data-run]")].map((load) => load.dataset.run);
  const ended = document.createElement("p");
  const link = document.createElement("a");
  link.href = location.pathname;
  link.textContent = "See its run";
  ended.className = "note";
  ended.append("A load has ended. ", link);
  const follow = async () => {
    // Whoever is in it would lose the place.
    if (!document.hidden && !running.contains(document.activeElement)) {
      const answer = await (await fetch(running.dataset.source)).text();
      const now = new DOMParser().parseFromString(answer, "text/html").querySelector(".running");
      if (now) {
        const before = runs();
        running.replaceChildren(...now.childNodes);
        running.hidden = now.hidden;
        if (before.some((run) => !runs().includes(run))) running.after(ended);
      }
    }
    wait();
  };
  const wait = () => setTimeout(() => follow().catch(() => {}), 2000);
  wait();
})();
