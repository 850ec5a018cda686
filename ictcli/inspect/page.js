"use strict";
(() => {
  const bundle = JSON.parse(document.getElementById("data").textContent);
  const [stepPick, promptPick, method, by, group, panel] =
    ["step", "prompt", "method", "by", "group", "token"].map((id) => document.getElementById(id));
  const text = (id, words) => { document.getElementById(id).textContent = words; };
  const hint = panel.firstElementChild;
  let step, data; // the step and the group that are shown
  let rows = [], counts = [];
  let at = null; // [row, position], both from 0
  let held = false; // whether the shown token was clicked, and stays

  const element = (name, words, kind) => {
    const made = document.createElement(name);
    if (words !== undefined) made.textContent = words;
    if (kind) made.className = kind;
    return made;
  };
  const figure = (v, digits = 3) => v === null || v === undefined ? "-"
    : v === 0 ? "0"
    : Math.abs(v) < 0.0005 ? v.toExponential(1) : v.toFixed(digits);
  const sign = (r, t) => rows[r][t].textContent.replace(/^ +$/, (spaces) => "␣".repeat(spaces.length));

  const keeps = (rollout, name, t) => rollout.kept[name][t] === "1";
  const weight = (rollout, name, t) => {
    const all = rollout.weights[name];
    return Array.isArray(all) ? all[t] : keeps(rollout, name, t) ? all : 0;
  };
  const value = (r, t) => by.value === "weight" ? Math.abs(weight(data.rollouts[r], method.value, t))
    : data.rollouts[r].stats[by.value][t];
  const top = () => by.value === "weight"
    ? step.methods.find((m) => m.name === method.value).weight_top : step.tops[by.value];

  // A group on the screen

  function fill(select, options, chosen) {
    select.replaceChildren(...options.map(([name, words]) => {
      const made = element("option", words);
      made.value = name;
      return made;
    }));
    select.value = options.some(([name]) => name === chosen) ? chosen : options[0][0];
    select.disabled = options.length < 2;
  }

  function open(newStep, prompt, fresh = true) {
    if (step !== newStep) {
      step = newStep;
      fill(method, step.methods.map((m) => [m.name, m.name]), method.value);
      const shadings = Object.keys(bundle.titles).filter((n) => n === "weight" || n in step.tops);
      fill(by, shadings.map((name) => [name, bundle.titles[name]]), by.value);
      fill(promptPick, step.groups.map((g) => [String(g.prompt), g.label]), String(prompt));
      stepPick.value = String(step.step);
    }
    data = step.groups.find((g) => g.prompt === prompt) || step.groups[0];
    promptPick.value = String(data.prompt);
    if (fresh) { // else the HTML has the group already
      const template = document.getElementById(`group-${step.step}-${data.prompt}`);
      for (const part of template.content.cloneNode(true).children)
        document.getElementById(part.dataset.part).replaceChildren(...part.childNodes);
      document.title = `${document.getElementById("title").textContent} - ictcli inspect`;
      panel.replaceChildren(hint);
    }
    at = null;
    held = false;
    rows = [...group.querySelectorAll(".text")].map((p) => [...p.querySelectorAll("i")]);
    counts = [...group.querySelectorAll("h2 span:last-child")];
    paint();
  }

  function paint() {
    const most = top();
    rows.forEach((tokens, r) => {
      const kept = data.rollouts[r].kept[method.value];
      tokens.forEach((token, t) => {
        token.style.setProperty("--w", data.widths[t]);
        token.style.setProperty("--a", Math.min(1, Math.max(0, (value(r, t) || 0) / most)).toFixed(3));
        token.classList.toggle("k", kept[t] === "1");
      });
      const count = `${kept.split("1").length - 1} kept`;
      counts[r].textContent = counts[r].textContent.replace(/\d+ kept/, count);
    });
    text("top", Number(most.toPrecision(3)));
    if (at) show(...at);
  }

  // The token that is pointed at

  function figures(caption, head, body, here) {
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
    name.append(element("span", sign(r, t), "cell"),
      ` rollout ${rollout.row}, token ${t + 1} of ${rollout.tokens.length}, id ${rollout.tokens[t]}`);
    const line = element("p", undefined, "figures");
    const fact = (name, value) => {
      const made = element("span", `${name} `);
      made.append(element("b", value));
      line.append(made);
    };
    [["u", "uniqueness"], ["H1", "entropy"], ["β", "purity"], ["p", "prob"]].forEach(([symbol, key]) => {
      if (key in stats) fact(symbol, figure(stats[key][t]));
    });
    const regime = rollout.regime[t];
    if (regime === "H") fact("R_H", "p > β");
    if (regime === "L") fact("R_L", "p < β");
    fact("weight", figure(weight(rollout, method.value, t), 5));
    const kept = element("p", "kept by ");
    step.methods.forEach((m) => {
      const yes = keeps(rollout, m.name, t);
      kept.append(element("span", `${yes ? "■" : "·"} ${m.name}`, yes ? "yes" : "no"));
    });
    facts.append(name, line, kept);
    panel.replaceChildren(facts);
    const others = data.rollouts.filter((o) => o.tokens.length > t);
    panel.append(figures(`the group at position ${t + 1}`,
      ["", "token", ...("uniqueness" in stats ? ["u"] : []), "H1", "p", "kept"],
      others.map((o) => [String(o.row), sign(o.row - 1, t),
        ...("uniqueness" in stats ? [figure(o.stats.uniqueness[t])] : []),
        figure(o.stats.entropy && o.stats.entropy[t]), figure(o.stats.prob && o.stats.prob[t]),
        keeps(o, method.value, t) ? "■" : "·"]),
      others.indexOf(rollout)));
  }

  // Pointer, keys and switches

  const place = (target) => {
    const r = rows.findIndex((tokens) => tokens.includes(target));
    return r < 0 ? null : [r, rows[r].indexOf(target)];
  };
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
  const turn = (select, by) => {
    select.selectedIndex = (select.selectedIndex + by + select.length) % select.length;
    paint();
  };
  const turnPrompt = (by) => {
    const place = step.groups.indexOf(data) + by + step.groups.length;
    open(step, step.groups[place % step.groups.length].prompt);
  };
  const turnStep = (by) => {
    const next = bundle.steps[bundle.steps.indexOf(step) + by];
    if (next) open(next, data.prompt);
  };
  const move = (dr, dt) => {
    const r = at ? (at[0] + dr + rows.length) % rows.length : 0;
    if (!rows[r].length) return;
    const t = at ? Math.min(rows[r].length - 1, Math.max(0, at[1] + dt)) : 0;
    held = true;
    show(r, t);
    rows[r][t].scrollIntoView({ block: "nearest" });
  };
  const keys = {
    m: () => turn(method, 1), M: () => turn(method, -1), s: () => turn(by, 1), S: () => turn(by, -1),
    n: () => turnPrompt(1), p: () => turnPrompt(-1), "]": () => turnStep(1), "[": () => turnStep(-1),
    ArrowLeft: () => move(0, -1), ArrowRight: () => move(0, 1),
    ArrowUp: () => move(-1, 0), ArrowDown: () => move(1, 0), Escape: () => { held = false; },
  };
  document.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || e.target.tagName === "SELECT") return;
    if (!Object.hasOwn(keys, e.key)) return;
    keys[e.key]();
    e.preventDefault();
  });
  method.addEventListener("change", paint);
  by.addEventListener("change", paint);
  promptPick.addEventListener("change", () => open(step, Number(promptPick.value)));
  stepPick.addEventListener("change", () =>
    open(bundle.steps[stepPick.selectedIndex], data.prompt));
  document.getElementById("before").addEventListener("click", () => turnPrompt(-1));
  document.getElementById("after").addEventListener("click", () => turnPrompt(1));

  fill(stepPick, bundle.steps.map((one) => [String(one.step), String(one.step)]),
    String(bundle.start.step));
  open(bundle.steps.find((one) => one.step === bundle.start.step), bundle.start.prompt, false);
  for (const id of ["before", "after"])
    document.getElementById(id).disabled = bundle.steps.every((one) => one.groups.length < 2);
})();
