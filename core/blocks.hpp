// Descent on a quadratic model whose curvature matrix is at hand, under penalties that tie weights together:
//
//   gradient' dw + dw' H dw / 2  +  sum_b norm_b ||w_b||  +  sum_j slope_j |w_j| + ridge_j w_j^2 / 2,   lower <= w <= upper
//
// A block of one weight has its minimiser in closed form. A block of several without slopes has it up to one root, on the
// axes of its own curvature: with z = H_b w_b - gradient_b and rho = ||w_b|| the minimiser is (H_b + norm / rho)^-1 z,
// where || (rho H_b + norm)^-1 z || = 1. Blocks with slopes take proximal steps. Limits are for blocks of one weight.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "coordinate.hpp"

namespace smaller {

struct BlockPenalty {
    const std::int64_t *first;                     // (blocks + 1)
    const double *norm;                            // (blocks)
    const double *slope, *ridge, *lower, *upper;   // (m)
    const double *axes;                            // of every block (size, size), one axis a row
    const double *values;                          // (m) curvature along the axes, ridges included, ascending
    std::size_t blocks;
};

class BlockDescent {
  public:
    BlockDescent(const double *H, std::size_t m, const BlockPenalty &penalty) : H(H), m(m), p(penalty) {
        std::size_t at = 0, largest = 1;
        for (std::size_t b = 0; b < p.blocks; ++b) {
            const std::size_t size = std::size_t(p.first[b + 1] - p.first[b]);
            offset.push_back(at);
            at += size * size;
            largest = std::max(largest, size);
        }
        for (auto *buffer : {&z, &along, &target}) buffer->resize(largest);
    }

    // `gradient` is kept up to date: on return it is the model's, without the penalty, at the new weights.
    std::int64_t run(double *gradient, double *w, std::int64_t max_sweeps, double tol) {
        bool active_only = false;
        std::int64_t sweep = 0;
        while (sweep < max_sweeps) {
            double largest = 0.0;
            for (std::size_t b = 0; b < p.blocks; ++b) {
                const std::size_t start = std::size_t(p.first[b]), size = std::size_t(p.first[b + 1]) - start;
                const bool zero = std::all_of(w + start, w + start + size, [](double v) { return v == 0.0; });
                const double steepest = p.values[start + size - 1];
                if ((active_only && zero) || !(steepest > 0.0)) continue;
                minimise(b, start, size, gradient, w);
                for (std::size_t j = 0; j < size; ++j) {
                    const double change = target[j] - w[start + j];
                    if (change == 0.0) continue;
                    w[start + j] = target[j];
                    axpy(H + (start + j) * m, change, gradient, m);
                    largest = std::max(largest, std::fabs(change) * steepest);
                }
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

  private:
    static constexpr int ROOT_STEPS = 50, PROXIMAL_STEPS = 30;
    static constexpr double EXACT = 1e-12, NEAR = 1e-3;

    const double *H;
    std::size_t m;
    BlockPenalty p;
    std::vector<std::size_t> offset;
    std::vector<double> z, along, target;

    // Writes the best weights of a block to `target`.
    void minimise(std::size_t b, std::size_t start, std::size_t size, const double *gradient, const double *w) {
        const double *slope = p.slope + start;
        if (size == 1) {
            const double square = p.values[start];  // the ridge is part of it
            const double pull = (square - p.ridge[start]) * w[start] - gradient[start];
            const double free = soft_threshold(pull, slope[0] + p.norm[b]) / square;
            target[0] = std::min(std::max(free, p.lower[start]), p.upper[start]);
        } else if (std::all_of(slope, slope + size, [](double s) { return s == 0.0; })) {
            minimise_norm(b, start, size, gradient, w);
        } else {
            minimise_both(b, start, size, gradient, w);
        }
    }

    void minimise_norm(std::size_t b, std::size_t start, std::size_t size, const double *gradient, const double *w) {
        const double *axis = p.axes + offset[b], *value = p.values + start;
        const double norm = p.norm[b];
        for (std::size_t j = 0; j < size; ++j) {
            double sum = -gradient[start + j];
            const double *row = H + (start + j) * m + start;
            for (std::size_t k = 0; k < size; ++k) sum += row[k] * w[start + k];
            z[j] = sum;
        }
        double total = 0.0;
        for (std::size_t a = 0; a < size; ++a) {
            double sum = 0.0;
            for (std::size_t j = 0; j < size; ++j) sum += axis[a * size + j] * z[j];
            along[a] = sum;
            total += sum * sum;
        }
        total = std::sqrt(total);
        std::fill(target.begin(), target.begin() + std::ptrdiff_t(size), 0.0);
        if (total <= norm) return;
        const double rho = norm > 0.0 ? root(value, size, norm, total) : 1.0;
        for (std::size_t a = 0; a < size; ++a) {
            const double divisor = norm > 0.0 ? value[a] * rho + norm : value[a];
            if (!(divisor > 0.0)) continue;
            const double u = along[a] * rho / divisor;
            for (std::size_t j = 0; j < size; ++j) target[j] += axis[a * size + j] * u;
        }
    }

    // Newton's method on 1 / f, f(rho) = || z / (rho value + norm) ||, for f = 1: 1 / f is concave, so that the steps
    // from below the root never pass it.
    double root(const double *value, std::size_t size, double norm, double total) const {
        const double least = (total - norm) / value[size - 1];
        double rho = least;
        for (int step = 0; step < ROOT_STEPS; ++step) {
            double square = 0.0, slope = 0.0;
            for (std::size_t a = 0; a < size; ++a) {
                const double curved = std::max(value[a], 0.0), part = along[a] / (curved * rho + norm);
                square += part * part;
                slope += part * part * curved / (curved * rho + norm);
            }
            const double f = std::sqrt(square);
            if (!(slope > 0.0)) break;  // flat: the model has no minimum
            const double next = std::max(rho + (f - 1.0) * square / slope, least);
            if (std::fabs(next - rho) <= EXACT * next) return next;
            rho = next;
        }
        return rho;
    }

    // Norm and absolute values together: proximal steps inside the block, whose own gradient is `z`.
    void minimise_both(std::size_t b, std::size_t start, std::size_t size, const double *gradient, const double *w) {
        const double steepest = p.values[start + size - 1];
        for (std::size_t j = 0; j < size; ++j) {
            z[j] = gradient[start + j] + p.ridge[start + j] * w[start + j];
            target[j] = w[start + j];
        }
        double first_move = 0.0;
        for (int step = 0; step < PROXIMAL_STEPS; ++step) {
            double length = 0.0, moved = 0.0;
            for (std::size_t j = 0; j < size; ++j) {
                along[j] = soft_threshold(target[j] - z[j] / steepest, p.slope[start + j] / steepest);
                length += along[j] * along[j];
            }
            length = std::sqrt(length);
            const double shrunk = p.norm[b] / steepest, factor = length > shrunk ? 1.0 - shrunk / length : 0.0;
            for (std::size_t j = 0; j < size; ++j) {
                const double change = factor * along[j] - target[j];
                if (change == 0.0) continue;
                target[j] += change;
                if (factor * along[j] == 0.0) target[j] = 0.0;
                moved = std::max(moved, std::fabs(change));
                const double *row = H + (start + j) * m + start;
                for (std::size_t k = 0; k < size; ++k) z[k] += row[k] * change;
                z[j] += p.ridge[start + j] * change;
            }
            first_move = std::max(first_move, moved);
            if (moved <= NEAR * first_move) break;
        }
    }
};

}  // namespace smaller
