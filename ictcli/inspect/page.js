"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const method = document.getElementById("method");
  const by = document.getElementById("by");
  const group = document.getElementById("group");
  const panel = document.getElementById("token");
  const rows = [...document.querySelectorAll(".text")].map((p) => [...p.querySelectorAll(".t")]);
  const counts = [...document.querySelectorAll(".count")];
  let at = null; // [row, position], both from 0

  const values = (r) => {
    const rollout = data.rollouts[r];
    return by.value === "weight" ? rollout.weights[method.value] : rollout.stats[by.value];
  };
  const top = () => by.value === "weight"
    ? data.methods.find((m) => m.name === method.value).weight_top : data.tops[by.value];

  function paint() {
    const most = top();
    rows.forEach((tokens, r) => {
      const shade = values(r), kept = data.rollouts[r].kept[method.value];
      tokens.forEach((token, t) => {
        token.style.setProperty("--a", Math.min(1, Math.max(0, (shade[t] || 0) / most)).toFixed(3));
        token.classList.toggle("k", kept[t]);
      });
      counts[r].textContent = kept.filter(Boolean).length;
    });
    document.getElementById("top").textContent = Number(most.toPrecision(3));
    if (at) show(...at);
  }

  const element = (name, text, kind) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (kind) made.className = kind;
    return made;
  };
  const figure = (v, digits = 3) => v === null || v === undefined ? "-"
    : v === 0 ? "0"
    : Math.abs(v) < 0.0005 && v !== 0 ? v.toExponential(1) : v.toFixed(digits);

  function table(caption, head, body, here) {
    const made = element("table");
    made.append(element("caption", caption));
    const line = (cells, kind) => {
      const row = element("tr");
      cells.forEach((cell, i) => row.append(element(kind, cell, i === 1 && kind === "td" ? "cell" : "")));
      return row;
    };
    made.append(line(head, "th"));
    body.forEach((cells, i) => {
      const row = line(cells, "td");
      if (i === here) row.className = "here";
      made.append(row);
    });
    return made;
  }

  function show(r, t) {
    const rollout = data.rollouts[r], stats = rollout.stats;
    document.querySelectorAll(".on, .same").forEach((e) => e.classList.remove("on", "same"));
    rows.forEach((tokens) => tokens[t] && tokens[t].classList.add("same"));
    rows[r][t].classList.add("on");
    at = [r, t];

    const facts = element("div");
    const name = element("p");
    name.append(element("span", data.signs[r][t], "cell"),
      ` rollout ${rollout.row}, token ${t + 1} of ${rollout.tokens.length}, id ${rollout.tokens[t]}`);
    const figures = element("p", undefined, "figures");
    const fact = (name, value) => {
      const made = element("span", `${name} `);
      made.append(element("b", value));
      figures.append(made);
    };
    [["u", "uniqueness"], ["H1", "entropy"], ["β", "purity"], ["p", "prob"]].forEach(([sign, key]) => {
      if (key in stats) fact(sign, figure(stats[key][t]));
    });
    const regime = rollout.regime[t];
    if (regime) fact(regime, regime === "R_H" ? "p > β" : "p < β");
    fact("weight", figure(rollout.weights[method.value][t], 5));
    const kept = element("p", "kept by ");
    data.methods.forEach((m) => {
      const yes = rollout.kept[m.name][t];
      kept.append(element("span", `${yes ? "■" : "·"} ${m.name}`, yes ? "yes" : "no"));
    });
    facts.append(name, figures, kept);
    panel.replaceChildren(facts);

    const found = data.candidates && data.candidates.positions.find((p) => p.position === t + 1);
    if (found) {
      const gap = found.recorded_gap === null ? "" :
        ` Its p differs from the recorded by at most ${figure(found.recorded_gap)} here.`;
      facts.append(element("p", data.candidates.weights + gap, "note"));
      const own = found.rows[String(rollout.row)].candidates;
      const likeliest = (list, columns) => list.map((c, i) =>
        [String(i + 1), c.text, ...columns.map((k) => figure(c[k]))]);
      panel.append(
        table("likeliest of p", ["", "token", "p", "P_avg"], likeliest(own, ["p", "mean"]),
          own.findIndex((c) => c.token === rollout.tokens[t])),
        table("likeliest of P_avg", ["", "token", "P_avg"], likeliest(found.mean, ["mean"]),
          found.mean.findIndex((c) => c.token === rollout.tokens[t])));
    }
    const others = data.rollouts.filter((o) => o.tokens.length > t);
    panel.append(table(`the group at position ${t + 1}`,
      ["", "token", ...("uniqueness" in stats ? ["u"] : []), "H1", "p", "kept"],
      others.map((o) => [String(o.row), data.signs[o.row - 1][t],
        ...("uniqueness" in stats ? [figure(o.stats.uniqueness[t])] : []),
        figure(o.stats.entropy && o.stats.entropy[t]), figure(o.stats.prob && o.stats.prob[t]),
        o.kept[method.value][t] ? "■" : "·"]),
      others.indexOf(rollout)));
  }

  const place = (target) => {
    const token = target.closest && target.closest(".text .t");
    return token ? [Number(token.parentElement.dataset.row), Number(token.dataset.t)] : null;
  };
  let held = false; // a token that was clicked stays
  group.addEventListener("pointerover", (e) => {
    const found = place(e.target);
    if (found && !held && e.pointerType === "mouse") show(...found);
  });
  group.addEventListener("click", (e) => {
    const found = place(e.target);
    held = Boolean(found) && !(held && at && found[0] === at[0] && found[1] === at[1]);
    if (found) show(...found);
    group.focus({ preventScroll: true });
  });
  const turn = (select, step) => {
    select.selectedIndex = (select.selectedIndex + step + select.length) % select.length;
    paint();
  };
  document.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || e.target.tagName === "SELECT") return;
    const moves = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    if (e.key === "m" || e.key === "M") turn(method, e.key === "m" ? 1 : -1);
    else if (e.key === "s" || e.key === "S") turn(by, e.key === "s" ? 1 : -1);
    else if (e.key === "Escape") held = false;
    else if (moves[e.key]) {
      const [dr, dt] = moves[e.key];
      const r = at ? (at[0] + dr + rows.length) % rows.length : 0;
      const t = at ? Math.min(rows[r].length - 1, Math.max(0, at[1] + dt)) : 0;
      held = true;
      show(r, t);
      rows[r][t].scrollIntoView({ block: "nearest" });
    } else return;
    e.preventDefault();
  });
  method.addEventListener("change", paint);
  by.addEventListener("change", paint);
  paint();
  if (data.at.length === 1) show(data.at[0][0] - 1, data.at[0][1] - 1);
  else if (data.at.length) { // the deepest shade of those asked for
    const [r, t] = data.at.reduce((a, b) =>
      (values(b[0] - 1)[b[1] - 1] || 0) > (values(a[0] - 1)[a[1] - 1] || 0) ? b : a);
    show(r - 1, t - 1);
  }
})();
