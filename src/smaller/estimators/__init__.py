"""Estimators with scikit-learn's interface; with ``validation`` the only layer that imports scikit-learn."""
