// Shows the states of a run as the server sends them. All text of the run is set as text, never as markup.
(() => {
  const place = (name) => document.getElementById(name);
  const columns = ["op", "case", "impl", "check", "time", "rounds"];
  const source = new EventSource(`${location.pathname}/events`);
  const row = (entry) => {
    const line = document.createElement("tr");
    for (const column of columns) {
      const cell = line.insertCell();
      cell.textContent = column === "rounds" ? entry.rounds || "" : entry[column];
      if (column === "time" || column === "rounds") cell.className = "number";
      if (column === "check") cell.className = entry.tone;
    }
    return line;
  };
  source.addEventListener("state", (event) => {
    const state = JSON.parse(event.data);
    const trials = state.trials ? `, ${state.trials} trials` : "";
    const timed = state.timed ? `, ${state.timed} timed` : "";
    const progress = `${state.steps_done} of ${state.steps} implementations checked${timed}${trials}`;
    const done = state.complete ? "Complete" : state.problem || state.now || "Between two steps";
    place("now").textContent = `${progress}. ${done}`;
    place("progress").max = Math.max(state.steps, 1);
    place("progress").value = state.complete ? Math.max(state.steps, 1) : state.steps_done;
    place("rows").replaceChildren(...state.rows.map(row));
    place("left-out").textContent = state.rows_left_out ? `and ${state.rows_left_out} more` : "";
    document.documentElement.dataset.live = state.complete ? "complete" : "running";
  });
  source.addEventListener("end", () => source.close());
  source.onerror = () => {
    // A server that was started again has another token: the browser is refused, and gives up.
    place("now").textContent = source.readyState === EventSource.CLOSED
      ? "klab serve has ended. Start it again and open the address that it prints."
      : "klab serve does not answer. This page continues when it does.";
  };
})();
