// Coordinate descent on a quadratic model with an l1-and-ridge penalty.
//
//   minimise over w, b:  <g, dw> + <gb, db> + 1/2 sum_i delta_i' (diag(d_i) - u_i u_i') delta_i
//                        + sum slope |w| + ridge w^2 / 2,          delta = X dw + db,  dw = w - w_at_entry
//
// The curvature of a row is diagonal minus rank one, so outputs couple only through s = sum_k u_k delta_k: no
// K x K blocks, and no exponential, in the loop. While output k is visited the others are constant, hence
//   r = d_k delta_k - u_k s   changes by   h x_j step,   h = d_k - u_k^2.
// A free intercept is minimised out exactly with every step: the column x_j acts as x_j - mean_j, mean_j its
// h-weighted mean, and the common shift of r and delta is carried as one number, so sparse columns stay sparse.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "columns.hpp"

namespace smaller {

inline double soft_threshold(double a, double t) {
    if (a > t) return a - t;
    if (a < -t) return a + t;
    return 0.0;
}

// Coordinates sorted by output: those of output k are first[k] .. first[k + 1].
struct Coordinates {
    const std::int64_t *first;   // (q + 1)
    const std::int64_t *column;  // (m)
    const double *gradient;      // (m) at entry
    const double *slope;         // (m)
    const double *ridge;         // (m)
    double *w;                   // (m)
    double *square;              // (m) curvature x_j' h x_j of the (centred) column; filled on the first call
    double *mean;                // (m) h-weighted mean; zero without an intercept
};

struct Model {
    const double *d;   // (q, n)
    const double *u;   // (q, n) or null: diagonal
    double *delta;     // (q, n)
    double *s;         // (n) or null when u is
    const double *gb;  // (q) gradient in the intercepts at entry, or null: no intercept
    double *b;         // (q)
    std::size_t n, q;
};

// Which coordinates a sweep visits: all, those that are not zero, or those that moved by more than the tolerance when
// they were last visited (often a small part holds up all others).
enum Level : std::int64_t { ALL = 0, NONZERO = 1, MOVING = 2 };

// Where a descent stands, so that it can return to its caller in mid-sweep and go on later.
struct Progress {
    std::int64_t output = -1;    // -1: curvatures not yet filled
    std::int64_t coordinate = 0;
    double sweeps = 0.0;         // over all coordinates, or what is like one in cost
    std::int64_t level = ALL;    // which coordinates are visited
    bool done = false;
    double largest = 0.0;        // largest change of a gradient in this sweep, curvature * |step|
};

// Anderson extrapolation: the sweeps on a fixed support are a linear map near its fixed point, so a combination of the
// last few iterates, weighted to make their differences cancel, is much closer to it. Correlated columns need this.
class Extrapolation {
  public:
    static constexpr std::size_t DEPTH = 5;

    void reset() { count = 0; }

    // Where the next iterate (any vector) is to be written.
    std::vector<double> &next() { return iterates[count++]; }
    bool full() const { return count == DEPTH + 1; }
    // The last iterate, which an extrapolation leaves as the first of the next round.
    const std::vector<double> &newest() const { return iterates[0]; }

    // Fills the extrapolated iterate, computed from the first `leading` entries; false if they do not determine it.
    bool extrapolate(std::size_t leading, std::vector<double> &result) {
        double gram[DEPTH][DEPTH], weight[DEPTH];
        double trace = 0.0;
        for (std::size_t a = 0; a < DEPTH; ++a)
            for (std::size_t b = 0; b <= a; ++b) {
                double sum = 0.0;
                for (std::size_t j = 0; j < leading; ++j)
                    sum += (iterates[a + 1][j] - iterates[a][j]) * (iterates[b + 1][j] - iterates[b][j]);
                gram[a][b] = gram[b][a] = sum;
                if (a == b) trace += sum;
            }
        for (std::size_t a = 0; a < DEPTH; ++a) {
            gram[a][a] += 1e-12 * trace;
            weight[a] = 1.0;
        }
        std::swap(iterates[0], iterates[DEPTH]);  // the newest iterate starts the next round
        count = 1;
        if (!solve(gram, weight)) return false;
        double total = 0.0;
        for (double value : weight) total += value;
        double size = 0.0;
        for (double value : weight) size += std::fabs(value);
        if (!(size < 1e6 * std::fabs(total))) return false;  // cancellation would leave only rounding
        result.assign(iterates[0].size(), 0.0);
        for (std::size_t a = 0; a < DEPTH; ++a) {
            const std::vector<double> &iterate = a + 1 == DEPTH ? iterates[0] : iterates[a + 1];
            axpy(iterate.data(), weight[a] / total, result.data(), result.size());
        }
        return true;
    }

  private:
    std::vector<double> iterates[DEPTH + 1];
    std::size_t count = 0;

    // Cholesky of a small positive definite system, in place.
    static bool solve(double (&A)[DEPTH][DEPTH], double (&x)[DEPTH]) {
        for (std::size_t i = 0; i < DEPTH; ++i) {
            for (std::size_t j = 0; j <= i; ++j) {
                double sum = A[i][j];
                for (std::size_t k = 0; k < j; ++k) sum -= A[i][k] * A[j][k];
                if (i == j) {
                    if (!(sum > 0.0)) return false;
                    A[i][i] = std::sqrt(sum);
                } else {
                    A[i][j] = sum / A[j][j];
                }
            }
        }
        for (std::size_t i = 0; i < DEPTH; ++i) {
            for (std::size_t k = 0; k < i; ++k) x[i] -= A[i][k] * x[k];
            x[i] /= A[i][i];
        }
        for (std::size_t i = DEPTH; i-- > 0;) {
            for (std::size_t k = i + 1; k < DEPTH; ++k) x[i] -= A[k][i] * x[k];
            x[i] /= A[i][i];
        }
        return true;
    }
};

template <class Columns>
class Descent {
  public:
    Descent(const Columns &columns, const Coordinates &at, const Model &model)
        : X(columns), c(at), model(model), h(model.n), r(model.n), z(model.n), entry(at.w, at.w + at.first[model.q]),
          moving(entry.size(), 0), moving_in(model.q, 0) {}

    // Runs until `tol`, `max_sweeps` or about `budget` element visits, whichever comes first.
    void run(Progress &p, std::int64_t max_sweeps, double tol, double budget) {
        double visits = 0.0;
        tolerance = tol;
        p.level = std::min<std::int64_t>(p.level, NONZERO);  // which ones move is not known yet
        if (p.output < 0) {
            for (std::size_t k = 0; k < model.q; ++k) fill_curvatures(k);
            p.output = 0;
            p.coordinate = c.first[0];
        }
        while (!p.done) {
            while (p.output < std::int64_t(model.q)) {
                if (p.level < MOVING || moving_in[std::size_t(p.output)] > 0)
                    visits += visit_output(std::size_t(p.output), p, budget - visits);
                else
                    p.coordinate = c.first[p.output + 1];
                const bool spent = p.coordinate < c.first[p.output + 1];  // the budget, inside this output
                if (!spent) p.output += 1;
                if (spent || (visits > budget && p.output < std::int64_t(model.q))) return;
            }
            end_of_sweep(p, max_sweeps, tol);
            if (visits > budget) break;
        }
    }

  private:
    static constexpr std::int64_t AHEAD = 4;    // coordinates, when fetching columns
    static constexpr double LEAST_SWEEP = 0.1;  // what a sweep over next to nothing costs

    struct Change {
        std::int64_t column = 0;
        double step = 0.0;
    };

    const Columns &X;
    const Coordinates &c;
    const Model &model;
    std::vector<double> h, r, z;
    Change pending;                      // of a weight, not yet in r and z
    const std::vector<double> entry;     // weights at the start
    double tolerance = 0.0;              // of this run
    std::vector<char> moving;            // (m) whether a coordinate moved by more than that
    std::vector<std::size_t> moving_in;  // (q) how many of each output did
    std::size_t visited = 0;             // coordinates, in this sweep
    std::size_t nonzero = 1;             // of them, when it was last counted
    Extrapolation history;
    std::size_t support = 0;             // nonzeros while the history was written
    std::vector<double> next, move;      // the extrapolated state; see accelerate

    // Fills h and r for an output; returns their sums.
    Sums open_output(std::size_t k) {
        const std::size_t n = model.n;
        const double *u = model.u ? model.u + k * n : nullptr;
        return smaller::open_output(model.d + k * n, u, model.s, model.delta + k * n, h.data(), r.data(), n);
    }

    void fill_curvatures(std::size_t k) {
        if (c.first[k] == c.first[k + 1]) return;
        const double curvature = open_output(k).h, total = model.gb ? curvature : 0.0;
        for (std::int64_t m = c.first[k]; m < c.first[k + 1]; ++m) {
            const Moments raw = X.moments(c.column[m], h.data(), 0.0, total);
            c.mean[m] = total > 0.0 ? raw.linear / total : 0.0;
            double square = raw.square - c.mean[m] * raw.linear;
            // A second pass about the mean where the difference cancels, so that a column far from zero keeps its
            // digits. What rounding then leaves of a constant column is no curvature.
            if (square < 0.5 * raw.square) square = X.moments(c.column[m], h.data(), c.mean[m], total).square;
            c.square[m] = square > 1e-24 * raw.square ? square : 0.0;
        }
    }

    double visit_output(std::size_t k, Progress &p, double budget) {
        const std::size_t n = model.n;
        const double *u = model.u ? model.u + k * n : nullptr;
        double *delta = model.delta + k * n;
        const Sums sums = open_output(k);
        const double total = sums.h;
        std::fill(z.begin(), z.end(), 0.0);
        double shift = 0.0;  // of the intercept; r stands for r + shift h
        if (model.gb && total > 0.0) shift = -(model.gb[k] + sums.r) / total;

        double visits = 0.0;  // at least one step, however small the budget
        std::int64_t m = p.coordinate;
        for (; m < c.first[k + 1] && visits <= budget; ++m) {
            if (m + AHEAD < c.first[k + 1]) X.prefetch(c.column[m + AHEAD]);
            if (p.level == MOVING ? !moving[m] : p.level == NONZERO && c.w[m] == 0.0) continue;
            visits += double(step(m, total, shift, p));
            ++visited;
        }
        carry_out();
        p.coordinate = m;
        visits += double(4 * n);

        close_output(z.data(), shift, u, delta, model.s, n);
        if (model.gb) model.b[k] += shift;
        return visits;
    }

    std::size_t step(std::int64_t m, double total, double &shift, Progress &p) {
        const std::int64_t j = c.column[m];
        const double curvature = c.square[m] + c.ridge[m];
        const double old = c.w[m];
        double target = 0.0;
        if (c.square[m] > 0.0) {
            const double gradient = c.gradient[m] + dot(j) + shift * c.mean[m] * total;
            target = soft_threshold(old * c.square[m] - gradient, c.slope[m]) / curvature;
        } else if (c.slope[m] == 0.0 && c.ridge[m] == 0.0) {
            target = old;  // a zero or constant column without a penalty: any weight is as good
        }
        const double change = target - old;
        std::size_t visits = X.size(j);
        const double turn = std::fabs(change) * curvature;
        if (p.level < MOVING) moving[m] = turn > tolerance;
        if (change != 0.0) {
            c.w[m] = target;
            carry_out();
            pending = {j, change};
            shift -= change * c.mean[m];
            p.largest = std::max(p.largest, turn);
            visits *= 3;
        }
        return visits;
    }

    // The last change waits for the next product with r: both together cost little more than one.
    double dot(std::int64_t j) {
        if (pending.step == 0.0) return X.dot(j, r.data());
        const Change last = std::exchange(pending, {});
        return X.advance_dot(last.column, h.data(), last.step, r.data(), z.data(), j);
    }

    void carry_out() {
        if (pending.step != 0.0) X.advance(pending.column, h.data(), pending.step, r.data(), z.data());
        pending = {};
    }

    void end_of_sweep(Progress &p, std::int64_t max_sweeps, double tol) {
        const bool settled = p.largest <= tol;
        const std::int64_t level = next_level(p.level, settled);
        p.sweeps += p.level == MOVING ? std::max(double(visited) / double(nonzero), LEAST_SWEEP) : 1.0;
        if (level == p.level && level > ALL)
            accelerate();
        else
            history.reset();
        p.done = p.sweeps >= double(max_sweeps) || (settled && p.level == ALL);
        p.level = level;
        p.largest = 0.0;
        p.output = 0;
        p.coordinate = c.first[0];
        visited = 0;
    }

    // Settled on some coordinates: look at more. Otherwise at fewer, if a small part of the nonzeros is what moves.
    std::int64_t next_level(std::int64_t level, bool settled) {
        if (settled) return level == MOVING ? NONZERO : ALL;
        if (level == MOVING) return MOVING;
        nonzero = entry.size() - std::size_t(std::count(c.w, c.w + entry.size(), 0.0));
        std::size_t count = 0;
        for (std::size_t k = 0; k < model.q; ++k) {
            moving_in[k] = std::size_t(std::count(moving.begin() + c.first[k], moving.begin() + c.first[k + 1], 1));
            count += moving_in[k];
        }
        return double(count) < Columns::SMALL_PART * double(nonzero) ? MOVING : NONZERO;
    }

    // Changes of the weights since the start, then intercepts. (The weights themselves are larger than their changes,
    // and extrapolation would magnify the difference in rounding.)
    void write_state(std::vector<double> &all) const {
        const std::size_t count = entry.size();
        all.resize(count + model.q);
        for (std::size_t j = 0; j < count; ++j) all[j] = c.w[j] - entry[j];
        std::copy(model.b, model.b + model.q, all.begin() + std::ptrdiff_t(count));
    }

    void accelerate() {
        const std::size_t count = entry.size(), n = model.n, nq = model.q * n;
        const std::size_t active = count - std::size_t(std::count(c.w, c.w + count, 0.0));
        if (active != support) history.reset();  // the map is linear only while the support stays
        support = active;
        write_state(history.next());
        if (!history.full() || !history.extrapolate(count, next)) return;
        // From here on `next` is the step: of the weights, as rounding lets them take it, then of the intercepts;
        // `move` is what it does to delta.
        const std::vector<double> &now = history.newest();
        for (std::size_t j = 0; j < next.size(); ++j) next[j] -= now[j];
        for (std::size_t j = 0; j < count; ++j) next[j] = c.w[j] == 0.0 ? 0.0 : (c.w[j] + next[j]) - c.w[j];
        move.assign(nq, 0.0);
        for (std::size_t k = 0; k < model.q; ++k) {
            double *moved = move.data() + k * n;
            for (std::int64_t m = c.first[k]; m < c.first[k + 1]; ++m)
                if (next[m] != 0.0) X.add(c.column[m], next[m], moved);
            for (std::size_t i = 0; i < n; ++i) moved[i] += next[count + k];
        }
        if (!(change() < 0.0)) return;
        for (std::size_t j = 0; j < count; ++j) c.w[j] += next[j];
        for (std::size_t k = 0; k < model.q; ++k) model.b[k] += next[count + k];
        for (std::size_t i = 0; i < nq; ++i) model.delta[i] += move[i];
        if (model.u)
            for (std::size_t k = 0; k < model.q; ++k)
                for (std::size_t i = 0; i < n; ++i) model.s[i] += model.u[k * n + i] * move[k * n + i];
    }

    // What the step `next` does to model plus penalty: a sum of differences, since near the end a difference of sums
    // would be nothing but rounding.
    double change() const {
        const std::size_t n = model.n, count = entry.size();
        double value = 0.0;
        for (std::size_t j = 0; j < count; ++j) {
            const double step = next[j], old = c.w[j], moved = old + step;
            const double longer = old * moved > 0.0 ? (old > 0.0 ? step : -step) : std::fabs(moved) - std::fabs(old);
            value += c.gradient[j] * step + c.slope[j] * longer + 0.5 * c.ridge[j] * step * (old + moved);
        }
        if (model.gb)
            for (std::size_t k = 0; k < model.q; ++k) value += model.gb[k] * next[count + k];
        for (std::size_t i = 0; i < n; ++i) {
            double along = 0.0, total = 0.0, curved = 0.0;
            for (std::size_t k = 0; k < model.q; ++k) {
                const double a = move[k * n + i], b = a + 2.0 * model.delta[k * n + i];
                curved += model.d[k * n + i] * a * b;
                if (model.u) {
                    along += model.u[k * n + i] * a;
                    total += model.u[k * n + i] * b;
                }
            }
            value += 0.5 * (curved - along * total);
        }
        return value;
    }
};

// The same descent when the curvature matrix H (m x m, symmetric, contiguous) is at hand: a step costs m, not n.
// `gradient` is kept up to date in place and is the model's gradient (without the penalty) on return.
inline std::int64_t descend_gram(const double *H, std::size_t m, double *gradient, const double *slope,
                                 const double *ridge, double *w, std::int64_t max_sweeps, double tol) {
    bool active_only = false;
    std::int64_t sweep = 0;
    while (sweep < max_sweeps) {
        double largest = 0.0;
        for (std::size_t j = 0; j < m; ++j) {
            const double square = H[j * m + j];
            if ((active_only && w[j] == 0.0) || !(square > 0.0)) continue;
            const double target = soft_threshold(w[j] * square - gradient[j], slope[j]) / (square + ridge[j]);
            const double change = target - w[j];
            if (change == 0.0) continue;
            w[j] = target;
            axpy(H + j * m, change, gradient, m);
            largest = std::max(largest, std::fabs(change) * (square + ridge[j]));
        }
        ++sweep;
        if (largest <= tol) {
            if (!active_only) break;
            active_only = false;
        } else {
            active_only = true;
        }
    }
    return sweep;
}

// H += a a' / alpha - b b' / beta, in one pass.
inline void correct(double *H, std::size_t m, const double *a, double alpha, const double *b, double beta) {
    for (std::size_t i = 0; i < m; ++i) {
        axpy(a, a[i] / alpha, H + i * m, m);
        axpy(b, -b[i] / beta, H + i * m, m);
    }
}

}  // namespace smaller
