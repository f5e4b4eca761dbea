// The whole proximal Newton iteration on a working set, for the one likelihood that most fits use: softmax.
//
// With a hundred rows the arithmetic of an iteration takes microseconds and an interpreter would take a hundred times
// that. Everything here is what solvers/coordinate.py does for any likelihood, on the descent of coordinate.hpp.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "coordinate.hpp"
#include "softmax.hpp"

namespace smaller {

struct NewtonResult {
    double violation;
    double loss;
    double sweeps;
    bool slow;  // the descent ran out of sweeps: the columns are too correlated for this way
};

template <class Columns>
class Newton {
  public:
    Newton(const Columns &X, const Softmax &rows, const std::int64_t *first, const std::int64_t *column,
           const double *slope, const double *ridge, bool intercept)
        : X(X), rows(rows), first(first), column(column), slope(slope), ridge(ridge), intercept(intercept),
          m(std::size_t(first[rows.q])), P(rows.q * rows.n), next(rows.q * rows.n), d(rows.q * rows.n),
          u(rows.q > 1 ? rows.q * rows.n : 0), delta(rows.q * rows.n), trial(rows.q * rows.n), s(rows.n), gb(rows.q),
          db(rows.q), gradient(m), target_w(m), square(m), mean(m) {}

    // Iterates until the violation is at most `target`, and a tenth of what it was. In and out: w (m), b (q), eta and
    // residual (q, n), damping.
    NewtonResult run(double *w, double *b, double *eta, double *residual, double &damping, double target,
                     std::int64_t max_steps, std::int64_t max_sweeps) {
        double loss = rows.evaluate({eta, rows.n}, {P.data(), rows.n});
        differentiate(residual, damping);
        double violation = worst(w);
        target = std::min(target, 0.1 * violation);
        bool slow = false;
        double total_sweeps = 0.0;
        for (std::int64_t step = 0; step < max_steps && violation > target && !slow; ++step) {
            const double sweeps = minimise_model(w, std::max(0.1 * violation, 0.3 * target), max_sweeps);
            slow = sweeps >= double(max_sweeps);
            total_sweeps += sweeps;
            const double taken = search(w, b, eta, residual, loss);
            if (taken == 0.0 && (damping >= 1.0 || !slow)) break;
            if (taken < 0.5) damping = std::max(10.0 * damping, 1e-4);
            if (taken == 1.0) damping = damping > 1e-4 ? damping / 10.0 : 0.0;
            differentiate(residual, damping);
            violation = worst(w);
        }
        return {violation, loss, total_sweeps, slow && violation > target};
    }

  private:
    const Columns &X;
    const Softmax &rows;
    const std::int64_t *first, *column;
    const double *slope, *ridge;
    const bool intercept;
    const std::size_t m;
    std::vector<double> P, next, d, u, delta, trial, s, gb, db, gradient, target_w, square, mean;

    // Residual, curvature and gradients from the probabilities.
    void differentiate(double *residual, double damping) {
        const std::size_t n = rows.n;
        rows.differentiate({P.data(), n}, {residual, n});
        for (std::size_t k = 0; k < rows.q; ++k) {
            double total = 0.0;
            for (std::size_t i = 0; i < n; ++i) {
                const std::size_t ki = k * n + i;
                const double c = rows.c ? rows.c[i] : 1.0, p = P[ki];
                total += residual[ki];
                d[ki] = c * ((rows.q > 1 ? p : p * (1.0 - p)) + damping);
                if (rows.q > 1) u[ki] = rows.c ? std::sqrt(c) * p : p;
            }
            gb[k] = total;
            for (std::int64_t j = first[k]; j < first[k + 1]; ++j) gradient[j] = X.dot(column[j], residual + k * n);
        }
    }

    double worst(const double *w) const {
        double largest = 0.0;
        for (std::size_t j = 0; j < m; ++j) {
            const double g = gradient[j] + ridge[j] * w[j];
            largest = std::max(largest, w[j] == 0.0 ? std::fabs(g) - slope[j]
                                                    : std::fabs(g + (w[j] > 0.0 ? slope[j] : -slope[j])));
        }
        if (intercept)
            for (double g : gb) largest = std::max(largest, std::fabs(g));
        return largest;
    }

    double minimise_model(const double *w, double tol, std::int64_t max_sweeps) {
        std::copy(w, w + m, target_w.begin());
        std::fill(delta.begin(), delta.end(), 0.0);
        std::fill(s.begin(), s.end(), 0.0);
        std::fill(db.begin(), db.end(), 0.0);
        const bool coupled = rows.q > 1;
        const Coordinates at{first,         column,          gradient.data(), slope,
                             ridge,         target_w.data(), square.data(),   mean.data()};
        const Model model{d.data(), coupled ? u.data() : nullptr,  delta.data(), coupled ? s.data() : nullptr,
                          intercept ? gb.data() : nullptr, db.data(), rows.n, rows.q};
        Progress progress;
        Descent<Columns>(X, at, model).run(progress, max_sweeps, tol, 1e300);
        return progress.sweeps;
    }

    // Armijo line search on eta; returns the fraction of the step taken, zero for none.
    double search(double *w, double *b, double *eta, const double *residual, double &loss) {
        double change = 0.0, along = 0.0, penalty = 0.0;
        for (std::size_t i = 0; i < delta.size(); ++i) along += residual[i] * delta[i];
        for (std::size_t j = 0; j < m; ++j) penalty += 0.5 * ridge[j] * w[j] * w[j] + slope[j] * std::fabs(w[j]);
        change = penalty_change(w, 1.0);
        const double promised = along + change;
        if (!(promised < 0.0)) return 0.0;
        const bool unresolved = -promised <= 1e-12 * (std::fabs(loss) + penalty);
        double t = 1.0;
        for (int halvings = 0; halvings < 40; ++halvings, t /= 2.0) {
            for (std::size_t i = 0; i < trial.size(); ++i) trial[i] = eta[i] + t * delta[i];
            const double trial_loss = rows.evaluate({trial.data(), rows.n}, {next.data(), rows.n});
            if (unresolved || (trial_loss - loss) + penalty_change(w, t) <= 1e-4 * t * promised) {
                loss = trial_loss;
                std::swap(P, next);
                std::copy(trial.begin(), trial.end(), eta);
                for (std::size_t j = 0; j < m; ++j) w[j] = t == 1.0 ? target_w[j] : w[j] + t * (target_w[j] - w[j]);
                for (std::size_t k = 0; k < rows.q; ++k) b[k] += t * db[k];
                return t;
            }
        }
        return 0.0;
    }

    double penalty_change(const double *w, double t) const {
        double change = 0.0;
        for (std::size_t j = 0; j < m; ++j) {
            const double step = t * (target_w[j] - w[j]), moved = t == 1.0 ? target_w[j] : w[j] + step;
            change += slope[j] * (std::fabs(moved) - std::fabs(w[j])) + 0.5 * ridge[j] * (moved - w[j]) * (moved + w[j]);
        }
        return change;
    }
};

}  // namespace smaller
