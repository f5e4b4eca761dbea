// Whole rounds of the path of a small softmax problem: working set, proximal Newton, certificate.
//
// A hundred strengths on a hundred rows are a hundred times a few dozen microseconds of arithmetic. Here is what
// solvers/coordinate.py, solvers/driver.py and problem.py do for any problem, for one strength after another of a
// softmax with an elastic net.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "newton.hpp"
#include "screen.hpp"

namespace smaller {

// sum slope |w| + ridge w^2 / 2, the same for every output of a column, times a strength.
struct Penalty {
    const double *slope, *ridge;  // (d)
    double strength;

    double slope_of(std::size_t j) const { return strength * slope[j]; }
    double ridge_of(std::size_t j) const { return strength * ridge[j]; }
    double change(std::size_t j, double from, double to) const {
        return slope_of(j) * (std::fabs(to) - std::fabs(from)) + 0.5 * ridge_of(j) * (to - from) * (to + from);
    }
};

struct Certificate {
    double objective, violation, gap;
    bool slow;  // the columns are too correlated for this way
};

// How far a round goes.
struct Effort {
    double aim;         // the gap that is wanted in the end
    double reach;       // zero weights are admitted whose gradient is within this fraction of the slope
    std::int64_t room;  // for at least so many of them
    std::int64_t max_steps, max_sweeps;
};

inline double plogp(double p) { return p > 0.0 ? p * std::log(p) : 0.0; }

// One strength after another, each starting from the last; outputs are rows of all arrays, none of which ever moves in
// memory. What needs the columns of the design is left to PathOver.
class Path {
  public:
    Path(const Softmax &rows, const double *slope, const double *ridge, std::size_t d, bool intercept, const double *b)
        : rows(rows), penalty{slope, ridge, 1.0}, d(d), intercept(intercept), w(rows.q * d), b(b, b + rows.q),
          eta(rows.q * rows.n), residual(rows.q * rows.n), P(rows.q * rows.n), earlier_b(this->b), inverse(d), G(rows.q * d) {
        for (std::size_t j = 0; j < d; ++j) {
            ridged = ridged || ridge[j] > 0.0;
            inverse[j] = ridge[j] > 0.0 ? 0.0 : 1.0 / slope[j];
        }
    }
    virtual ~Path() = default;

    const std::vector<double> &weights() const { return w; }
    const std::vector<double> &intercepts() const { return b; }
    const std::vector<std::size_t> &places() const { return support; }
    double current_loss() const { return loss; }

    // Moves on to the next strength, from the last two solutions extrapolated by `ratio` times their difference if
    // that is the better start.
    void next(double strength, double ratio) {
        penalty.strength = strength;
        const Weights now = in_use();
        const std::vector<double> now_b = b;
        if (ratio != 0.0) {
            // All that are not zero now move by ratio * (now - then), and so do those that were not zero then.
            double change = 0.0;
            for (const auto &[at, then] : earlier) {
                if (w[at] == 0.0) support.push_back(at);
                w[at] -= ratio * then;
            }
            for (const auto &[at, value] : now) w[at] += ratio * value;
            for (std::size_t i = 0; i < support.size(); ++i)
                change += penalty.change(support[i] % d, i < now.size() ? now[i].second : 0.0, w[support[i]]);
            for (std::size_t k = 0; k < rows.q; ++k) b[k] += ratio * (b[k] - earlier_b[k]);
            const double before = loss;
            evaluate();
            if (!(loss - before + change < 0.0)) {
                for (const std::size_t at : support) w[at] = 0.0;
                support.clear();
                for (const auto &[at, value] : now) {
                    w[at] = value;
                    support.push_back(at);
                }
                b = now_b;
                evaluate();
            }
        }
        earlier = now;
        earlier_b = now_b;
    }

    // Lowers the objective over the working set that the last gradient suggests, and certifies where that leads.
    Certificate round(const Effort &effort) {
        const bool complete = choose(effort);
        const std::size_t m = column.size();
        std::vector<double> slope(m), ridge(m), inside(m);
        double size = 0.0;
        for (std::size_t i = 0; i < m; ++i) {
            slope[i] = penalty.slope_of(std::size_t(column[i]));
            ridge[i] = penalty.ridge_of(std::size_t(column[i]));
            inside[i] = w[chosen[i]];
            size += std::fabs(inside[i]);
        }
        // No violator was left out: go all the way, to a gap of about violation * |w|_1.
        const double target =
            complete ? 0.9 * effort.aim / std::max(size, 1e-300) : std::numeric_limits<double>::infinity();
        const bool slow = newton(slope.data(), ridge.data(), inside.data(), target, effort).slow;
        support.clear();
        for (std::size_t i = 0; i < m; ++i) {
            w[chosen[i]] = inside[i];
            if (inside[i] != 0.0) support.push_back(chosen[i]);
        }
        evaluate();
        form_gradient();
        return certify(slow);
    }

  protected:
    using Weights = std::vector<std::pair<std::size_t, double>>;  // places, and what is there

    const Softmax rows;
    Penalty penalty;
    const std::size_t d;
    const bool intercept;
    std::vector<double> w, b, eta, residual, P;
    std::vector<std::size_t> support;  // places in w that are not zero
    Weights earlier;                   // the solution before the last
    std::vector<double> earlier_b;
    std::vector<double> inverse;  // (d) of the slope; zero where a ridge makes every gradient feasible
    std::vector<double> G;        // (q, d) gradient of the loss; exact for weights in use and near the slope
    bool ridged = false;
    double loss = 0.0, damping = 0.0;
    std::vector<std::size_t> chosen;          // the working set, as places in w
    std::vector<std::int64_t> first, column;  // the same, as coordinates sorted by output

    // eta = X w + b, formed anew.
    virtual void form_eta() = 0;
    // G at the current residual.
    virtual void form_gradient() = 0;
    // Newton steps over the working set, whose weights are `inside`.
    virtual NewtonResult newton(const double *slope, const double *ridge, double *inside, double target,
                                const Effort &effort) = 0;

    // Forms eta anew, and all that follows from it.
    void evaluate() {
        form_eta();
        loss = rows.evaluate({eta.data(), rows.n}, {P.data(), rows.n});
        rows.differentiate({P.data(), rows.n}, {residual.data(), rows.n});
    }

  private:
    // Violation and duality gap; see Problem.certify.
    Certificate certify(bool slow) const {
        const std::size_t n = rows.n;
        double violation = 0.0, steepest = 0.0, slack = 0.0, cost = 0.0;
        for (std::size_t k = 0; k < rows.q; ++k) {
            const std::size_t at = k * d;
            const Peaks peak =
                peaks(G.data() + at, w.data() + at, penalty.slope, inverse.data(), penalty.strength, d);
            violation = std::max(violation, peak.excess);
            steepest = std::max(steepest, peak.ratio);
        }
        const double scale = steepest > penalty.strength ? penalty.strength / steepest : 1.0;
        for (const std::size_t at : support) {
            const double slope = std::copysign(penalty.slope_of(at % d), w[at]);
            violation = std::max(violation, std::fabs(G[at] + penalty.ridge_of(at % d) * w[at] + slope));
            cost += penalty.change(at % d, 0.0, w[at]);
        }
        if (intercept)
            for (std::size_t k = 0; k < rows.q; ++k) {
                double imbalance = 0.0;
                for (std::size_t i = 0; i < n; ++i) imbalance += residual[k * n + i];
                violation = std::max(violation, std::fabs(imbalance));
                slack += std::fabs(imbalance * b[k]);
            }
        const double objective = loss + cost;
        const double gap = objective + negentropy(scale) + conjugate(scale) + slack;
        return {objective, violation, std::max(gap, 0.0), slow};
    }

    Weights in_use() const {
        Weights all;
        for (const std::size_t at : support) all.emplace_back(at, w[at]);
        return all;
    }

    // Fills the working set: all non-zero weights, and of the zero ones within reach at most as many again, or the
    // room there is. Returns whether it holds all violators.
    bool choose(const Effort &effort) {
        struct Candidate {
            double excess;
            std::size_t at;
        };
        std::vector<Candidate> candidates;
        chosen = support;
        // What rounding leaves of a gradient that equals the slope, as at the largest strength of all, is no violation.
        const double factor = (1.0 - effort.reach) * (1.0 + 1e-12) * penalty.strength;
        for (std::size_t k = 0; k < rows.q; ++k)
            each_above(G.data() + k * d, penalty.slope, factor, d, [&](std::size_t j) {
                const std::size_t at = k * d + j;
                if (w[at] == 0.0) candidates.push_back({std::fabs(G[at]) - penalty.slope_of(j), at});
            });
        bool complete = true;
        const std::size_t room = std::max(std::size_t(effort.room), chosen.size());
        if (candidates.size() > room) {
            const auto cut = candidates.begin() + std::ptrdiff_t(room);
            const auto worse = [](const Candidate &a, const Candidate &b) { return a.excess > b.excess; };
            std::nth_element(candidates.begin(), cut, candidates.end(), worse);
            complete = cut->excess <= 0.0;
            candidates.erase(cut, candidates.end());
        }
        for (const Candidate &candidate : candidates) chosen.push_back(candidate.at);
        std::sort(chosen.begin(), chosen.end());
        first.assign(rows.q + 1, 0);
        column.clear();
        for (const std::size_t at : chosen) {
            column.push_back(std::int64_t(at % d));
            first[at / d + 1] += 1;
        }
        for (std::size_t k = 0; k < rows.q; ++k) first[k + 1] += first[k];
        return complete;
    }

    // Of the dual point scale * residual: minus the sum of the losses' conjugates.
    double negentropy(double scale) const {
        const std::size_t n = rows.n;
        double total = 0.0;
        for (std::size_t i = 0; i < n; ++i) {
            const double c = rows.c ? rows.c[i] : 1.0;
            if (c == 0.0) continue;
            double rest = 1.0, sum = 0.0;
            for (std::size_t k = 0; k < rows.q; ++k) {
                const double p = scale * residual[k * n + i] / c + rows.y[k][i];
                sum += plogp(p);
                rest -= p;
            }
            total += c * (rows.pinned ? sum + plogp(rest) : sum);
        }
        return total;
    }

    // The penalty's conjugate at scale * G.
    double conjugate(double scale) const {
        double total = 0.0;
        for (std::size_t k = 0; k < rows.q && ridged; ++k)
            for (std::size_t j = 0; j < d; ++j)
                if (const double ridge = penalty.ridge_of(j); ridge > 0.0) {
                    const double excess = std::max(scale * std::fabs(G[k * d + j]) - penalty.slope_of(j), 0.0);
                    total += excess * excess / (2.0 * ridge);
                }
        return total;
    }
};

template <class Columns>
class PathOver final : public Path {
  public:
    PathOver(const Columns &X, const Softmax &rows, const double *slope, const double *ridge, std::size_t d,
             bool intercept, const double *b)
        : Path(rows, slope, ridge, d, intercept, b), X(X), screen(X, d) {
        evaluate();
        form_gradient();
    }

  private:
    const Columns X;
    Screen<Columns> screen;

    void form_gradient() override {
        screen.fill(residual.data(), rows.q, penalty.slope, penalty.strength, G.data());
        for (const std::size_t at : support) G[at] = X.dot(std::int64_t(at % d), residual.data() + at / d * rows.n);
    }

    void form_eta() override {
        const std::size_t n = rows.n;
        for (std::size_t k = 0; k < rows.q; ++k) std::fill_n(eta.data() + k * n, n, b[k]);
        for (const std::size_t at : support) X.add(std::int64_t(at % d), w[at], eta.data() + at / d * n);
    }

    NewtonResult newton(const double *slope, const double *ridge, double *inside, double target,
                        const Effort &effort) override {
        return Newton<Columns>(X, rows, first.data(), column.data(), slope, ridge, intercept)
            .run(inside, b.data(), eta.data(), residual.data(), damping, target, effort.max_steps, effort.max_sweeps);
    }
};

}  // namespace smaller
