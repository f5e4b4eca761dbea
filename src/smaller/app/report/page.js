"use strict";
(function () {
  const facts = JSON.parse(document.getElementById("facts").textContent);
  const box = document.getElementById("decisions");
  if (!box || !facts.decisions) return;
  const find = (id) => document.getElementById(id);
  const percent = (x) => (100 * x).toFixed(x > 0 && x < 0.0995 ? 1 : 0) + "%";
  const { thresholds, priors, tables } = facts.decisions;
  const threshold = find("threshold"), prior = find("prior"), which = find("which");
  threshold.max = thresholds.length - 1;
  threshold.value = 0;  // to the right: more certain, so a smaller risk
  prior.max = priors.length;
  prior.value = 0;
  function show() {
    const k = which ? Number(which.value) : 0, i = Number(prior.value), j = thresholds.length - 1 - Number(threshold.value);
    const [rejected, error] = tables[k][i][j];
    find("threshold-value").textContent = percent(1 - thresholds[j]);
    find("prior-value").textContent = i === 0 ? "as in training (" + percent(facts.shares[k]) + ")" : percent(priors[i - 1]);
    find("result").textContent = rejected >= 1
      ? "No case would be answered."
      : "The model would answer " + percent(1 - rejected) + " of the cases and be wrong in " + percent(error) + " of those.";
  }
  for (const input of [threshold, prior, which]) if (input) input.addEventListener("input", show);
  show();
})();
