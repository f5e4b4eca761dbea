"""
Few defaults, unequal costs, and cases for a person
===================================================

Of 8,000 loans a few in a hundred are not paid back. A loan that fails costs ten times what a good one earns, and an
officer can look at an application for a fraction of that. Whom to accept, whom to decline, what to look at?

The table is generated, with gaps and a column of words, as such tables have them.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.calibration import CalibrationDisplay
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from smaller import SMLRCV, MinimumRiskClassifier, RejectOptionClassifier
from smaller.plotting import ErrorRejectDisplay

rng = np.random.default_rng(7)
n = 8000
numbers = pd.DataFrame(rng.normal(size=(n, 12)), columns=[f"ratio {j}" for j in range(12)])
purpose = rng.choice(["car", "house", "business", "holiday"], size=n, p=[0.4, 0.3, 0.2, 0.1])
score = -4.6 + 1.3 * numbers["ratio 0"] - 1.0 * numbers["ratio 1"] + 0.8 * numbers["ratio 2"]
score += pd.Series(purpose).map({"car": 0.0, "house": -0.7, "business": 0.9, "holiday": 1.4})
y = np.where(rng.random(n) < 1 / (1 + np.exp(-score)), "default", "paid")
X = numbers.mask(rng.random(numbers.shape) < 0.05).assign(purpose=purpose)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
print(f"{np.mean(y == 'default'):.1%} of the loans are not paid back")

# %%
# Probabilities first
# -------------------
# No class is weighted up: that would spoil the probabilities. Costs come afterwards, when they are known.

prepared = make_column_transformer(
    (make_pipeline(SimpleImputer(), StandardScaler()), list(numbers)), (OneHotEncoder(), ["purpose"])
)
model = make_pipeline(prepared, SMLRCV(alphas=40, rule="1se")).fit(X_train, y_train)
print(f"{len(model[-1].active_features_)} of {model[-1].n_features_in_} features used")
print(model[-1].solution_.status.value)
figure, ax = plt.subplots(layout="constrained", figsize=(5, 4))
risk = model.predict_proba(X_test)[:, 0]
CalibrationDisplay.from_predictions(y_test, risk, pos_label="default", n_bins=8, strategy="quantile", ax=ax)
ax.set(xlim=(0, 0.3), ylim=(0, 0.3))

# %%
# Costs
# -----
# Rows are the truth, columns the decision. Classes stand in the order of the alphabet: "default", "paid". Accepting
# a loan that fails costs 10, declining a good one 1, and a look by the officer 0.3.

loss = np.array([[0.0, 10.0], [1.0, 0.0]])
look = 0.3
decide = MinimumRiskClassifier(model, loss=loss).fit(X_train, y_train)
ask = RejectOptionClassifier(decide, threshold=look, reject_label="ask").fit(X_train, y_train)


def cost(answers: np.ndarray) -> float:
    """What 1,000 applications cost."""
    truth = (y_test == "paid").astype(int)
    asked = answers == "ask"
    answered = loss[truth[~asked], (answers[~asked] == "paid").astype(int)].sum()
    return 1000 * (answered + look * asked.sum()) / len(truth)


answers = {
    "accept everybody": np.full(len(y_test), "paid"),
    "the likelier class": model.predict(X_test),
    "the smaller loss": decide.predict(X_test),
    "the smaller loss, or ask": ask.predict(X_test),
}
for name, answer in answers.items():
    print(f"{name:<26} {cost(answer):6.0f} per 1,000, {np.mean(answer == 'ask'):6.1%} to the officer")

# %%
# What would another price of a look change? The curve shows the error among the answered, for every share that is
# not.

ErrorRejectDisplay.from_estimator(model, X_test, y_test).plot()

# %%
# Decision
# --------
# Use the last line, as long as a look costs what was assumed; with another price only ``threshold`` changes,
# without a new fit. Declining is decided by a probability, so the calibration above is what to watch in use.
cheapest = min(answers, key=lambda name: cost(answers[name]))
print(f"cheapest on applications not learnt from: {cheapest}")
